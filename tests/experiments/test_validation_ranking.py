"""``ranking.parts=auto``: validation ranks where it is cheap or needed."""

import io

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from rich.console import Console
from torch.utils.data import DataLoader

from gedbd.corpora.relevance import Groups
from gedbd.experiments.retrieval_module import RetrievalDataModule
from gedbd.experiments.validation_ranking import is_cheap, leave_out_costly_ranking
from gedbd.retrieval.ranking_tasks import CandidateSets
from gedbd.sampling.batches import NO_LABEL, NO_PAIRS, BatchIndices


class Data(RetrievalDataModule):
    """The last two of some reports are a validation pair, whose ranking needs all; each batch encodes 100 reports."""

    def __init__(self, reports: int, batches: int) -> None:
        rows = np.arange(reports)
        pair = pd.DataFrame({"earlier": [reports - 2], "later": [reports - 1], "label": 1, "part": "val"})
        task = CandidateSets(rows[-1:], [rows[:-1]], Groups(np.zeros(reports, dtype=np.int64)), (1,))
        super().__init__()
        self.hold(pair, rows, rows, {"val": {"earlier": task}, "test": {"earlier": task}})
        self.batches = [BatchIndices(np.arange(100), NO_PAIRS, NO_LABEL)] * batches

    def train_dataloader(self) -> DataLoader:
        return DataLoader([], batch_size=None, sampler=self.batches)


def decide(reports: int, batches: int, **options: object) -> tuple[list[str], str]:
    """The splits that are ranked, and the line that is printed."""
    protocols = {"earlier": {}, "test_pool": {}}
    ranking = {"parts": "auto", "ranker": False, "top_k": [1, 10], "protocols": protocols}
    callbacks = {"early_stopping": {"monitor": "${monitor}"}, "swa": None}
    cfg = OmegaConf.create({"monitor": "val/f1", "ranking": ranking, "callbacks": callbacks})
    for name, value in options.items():
        OmegaConf.update(cfg, name.replace("__", "."), value)
    data = Data(reports, batches)
    printed = io.StringIO()
    leave_out_costly_ranking(cfg, data, Console(file=printed, width=1000))
    return list(data.queries), printed.getvalue()


def test_ranking_is_cheap_below_a_tenth_of_an_epoch_or_a_minute():
    assert is_cheap(3000, 0)
    assert not is_cheap(3001, 10_003)  # a tenth of three passes over these is 3,000.9
    assert is_cheap(3001, 10_004)
    # The defaults on Eclipse of bughub, 85,156 reports in the order of their ids.
    assert not is_cheap(38_149, 41_167)


def test_costly_ranking_of_validation_is_left_out_and_said():
    assert decide(3002, 0)[0] == ["val", "test"]
    ranked, line = decide(68_002, 500)
    assert ranked == ["test"]
    assert line == (
        "ranking: test only; validation would encode 68,000 more reports after each epoch, whose steps encode 50,000"
        " (ranking.parts=[val,test]: both)\n"
    )
    ranked, line = decide(68_002, 2267)
    assert ranked == ["val", "test"]
    assert "validation and test, which encodes 68,000 more reports after each epoch (ranking.parts=[test]:" in line


@pytest.mark.parametrize(
    "needed",
    [
        {"monitor": "val/pool_rr@10"},
        {"ranking__ranker": True},
        {"callbacks__saved": {"monitor": "val/mrr", "mode": "max"}},
    ],
)
def test_a_metric_that_is_watched_is_measured(needed):
    ranked, line = decide(68_002, 500, **needed)
    assert ranked == ["val", "test"]
    assert "the best epoch needs both" in line


def test_a_list_is_followed_without_a_word():
    assert decide(68_002, 500, ranking__parts=["val", "test"]) == (["val", "test"], "")
