from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from gedbd.experiments.retrieval_module import (
    Embedded,
    RetrievalDataModule,
    RetrievalModule,
    ScoredPairs,
    distinct,
    positions_among,
    score_pairs,
)
from gedbd.losses import CosineEmbeddingLoss, loss_of_pairs
from gedbd.retrieval.ranking_tasks import EarlierReports

# Reports 0 and 2 are a group. Cosines: .6 of (0, 1), 1 of (0, 2), .6 of (1, 2).
Z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [1.0, 0.0]])
PAIRS = pd.DataFrame({"earlier": [0, 1, 0], "later": [2, 2, 1], "label": [1, 0, 0], "part": ["val", "val", "test"]})


def data(group: np.ndarray, queries: dict | None = None) -> RetrievalDataModule:
    module = RetrievalDataModule()
    module.hold(PAIRS, group, np.zeros(len(group)), queries)
    return module


@pytest.fixture
def reports() -> Embedded:
    return Embedded(torch.arange(3), Z, Z.flip(1))


def test_pairs_of_a_part_are_scored_by_hand(reports):
    scored = score_pairs(reports, PAIRS[:2], np.array([0, 1, 0]), partial(loss_of_pairs, CosineEmbeddingLoss(0.5)))
    np.testing.assert_allclose(scored.table["score"], [1.0, 0.6], atol=1e-6)
    assert scored.loss.item() == pytest.approx((0.0 + 0.1) / 2, abs=1e-6)
    assert 0.6 < scored.best_threshold() <= 1
    assert scored.metrics(0.8)["f1"] == 1
    assert scored.metrics(0.5)["precision"] == 0.5


def test_queries_are_ranked_where_there_are_any(reports, make_corpus):
    corpus = make_corpus([0, 1, 0])
    queries = {"test": {"earlier": EarlierReports.find(corpus, np.array([False, False, True]))}}
    retrieval = data(corpus.group, queries)
    assert retrieval.rank_queries(reports, "val") == {}
    rankings = retrieval.rank_queries(reports, "test", text_too=True)
    assert {name: ranking.queries["rank"].tolist() for name, ranking in rankings["earlier"].items()} == {
        "score": [1],
        "score_text": [1],
    }


class Validated(RetrievalModule):
    """Validates given scores of one duplicate and one other pair, and keeps what it logs."""

    def __init__(self) -> None:
        super().__init__(partial(loss_of_pairs, CosineEmbeddingLoss(0.5)), seed=0)
        self.trainer = SimpleNamespace(state=SimpleNamespace(fn="fit"))
        self.logged = {}

    @property
    def data(self):
        return data(np.array([0]))

    def score(self, scores, part):
        return ScoredPairs(pd.DataFrame({"score": scores, "label": [1, 0]}), torch.tensor(0.0))

    def log(self, name, value, **_):
        self.logged[name] = float(value)

    def epoch(self, *scores):
        self.validate(np.array(scores))
        return self.logged["val/f1"]


def test_a_locked_threshold_is_that_of_the_best_epoch_so_far():
    system = Validated()
    system.locks_threshold = True
    assert system.epoch(0.45, 0.2) == 0  # at .5; the best so far, so its own threshold is the next one
    assert system.logged["val/threshold"] == 0.5
    first = float(system.threshold)
    assert 0.2 < first <= 0.45
    assert system.epoch(0.9, 0.7) == pytest.approx(2 / 3)  # both are above
    assert system.logged["val/threshold"] == pytest.approx(first)
    second = float(system.threshold)
    assert 0.7 < second <= 0.9
    assert system.epoch(0.6, 0.1) == 0  # not the best, though its own threshold would give 1
    assert float(system.threshold) == pytest.approx(second)
    kept = {}
    system.on_save_checkpoint(kept)
    again = Validated()
    again.on_load_checkpoint(kept)
    assert again.locked_f1 == pytest.approx(2 / 3)


def test_distinct_reports_are_those_of_numpy():
    generator = np.random.default_rng(0)
    rows = generator.integers(0, 50, size=200)
    vectors = generator.normal(size=(200, 3))
    expected, first = np.unique(rows, return_index=True)
    n_id, kept = distinct(torch.from_numpy(rows), torch.from_numpy(vectors))
    assert (n_id.numpy() == expected).all()
    assert (kept.numpy() == vectors[first]).all()


@pytest.mark.parametrize("missing", [1, 8, 13])
def test_a_report_without_a_vector_is_refused(missing):
    message = "reports were not encoded: leave out trainer.limit_val_batches and limit_test_batches"
    with pytest.raises(ValueError, match=message):
        positions_among(torch.tensor([2, 7, 9, 12]), np.array([7, missing]))
