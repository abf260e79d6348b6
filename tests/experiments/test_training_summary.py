"""What the first lines of a training say."""

import io
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from omegaconf import OmegaConf
from rich.console import Console
from run_commands import composed
from torch.utils.data import DataLoader, Dataset

from gedbd.configuration.options import register_resolvers
from gedbd.experiments.retrieval_module import RetrievalDataModule
from gedbd.experiments.training_summary import TrainingTime, batch_size_source, data_line, preset_line
from gedbd.io.console import duration
from gedbd.sampling.batches import NO_LABEL, NO_PAIRS, BatchIndices


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("", "defaults of gedbd (the paper's: experiment=paper_text)"),
        (
            "encoder=roberta +trainer.max_steps=9 json=true",
            "defaults of gedbd (the paper's: experiment=paper_text), except encoder, trainer.max_steps",
        ),
        ("experiment=paper_code batch_size=8", "experiment=paper_code, except batch_size"),
        ("task=questions", "defaults of gedbd for task=questions"),
    ],
)
def test_the_first_line_names_the_preset_and_what_differs_from_it(words, line):
    assert preset_line(words.split()) == line


@pytest.mark.parametrize(
    ("words", "batch_size", "source"),
    [
        ("", 16, "pairs=sampled"),
        ("encoder=roberta", 32, "encoder.fine_tuning of encoder=roberta"),
        ("encoder=roberta pairs=shuffled", 32, "encoder.fine_tuning of encoder=roberta"),
        ("encoder=roberta pairs=pk", 32, "pairs=pk"),
        ("encoder=roberta trainer=a100", 128, "trainer=a100"),
        ("trainer=a100_80gb task=questions", 256, "trainer=a100_80gb"),
        ("trainer=a100 experiment=paper_text", 64, "experiment=paper_text"),
        ("experiment=paper", 64, "experiment=paper"),
        ("task=questions_modern", 64, "task=questions_modern"),
        ("trainer=a100 batch_size=8", 8, "command line"),
        ("experiment=mine", 7, "experiment=mine"),
    ],
)
def test_the_source_of_the_batch_size(tmp_path, words, batch_size, source):
    register_resolvers()
    (tmp_path / "experiment").mkdir()
    (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\nbatch_size: 7\n")
    given = [*words.split(), f"hydra.searchpath=[file://{tmp_path}]"]
    cfg = composed("train", *given, return_hydra_config=True)
    assert (cfg.batch_size, batch_size_source(cfg, cfg.hydra)) == (batch_size, source)


@pytest.mark.parametrize(
    ("batches", "pairs"),
    [
        ("batches.PairBatches", "1,200 train, 2 val, 0 test"),
        ("group_batches.PKBatches", "those of each batch's groups train, 2 val, 0 test"),
    ],
)
def test_reports_and_pairs_are_counted_by_split(make_corpus, batches, pairs):
    corpus = make_corpus([0, 0, 2])
    table = pd.DataFrame({"part": ["train"] * 1200 + ["val"] * 2})
    data = RetrievalDataModule()
    data.hold(table, corpus.group, np.zeros(3, dtype=np.int64), None)
    cfg = OmegaConf.create({"batches": {"_target_": f"gedbd.sampling.{batches}"}})
    line = data_line(cfg, SimpleNamespace(corpus=corpus, data=data))
    assert line == f"{corpus.name}: 3 reports; pairs: {pairs}"


def test_durations_are_short():
    assert [duration(value) for value in (0.4, 119, 120, 7201, 10_800)] == ["0 s", "119 s", "2 min", "120 min", "3.0 h"]


class Clock:
    """A clock that a module moves on."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def perf_counter(self) -> float:
        return self.seconds


class Steps(pl.LightningModule):
    """A step takes two seconds, the first ones a minute more."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.clock = clock

    def training_step(self, batch: SimpleNamespace, number: int) -> torch.Tensor:
        self.clock.seconds += 2 if number >= 10 else 62
        return self.weight * 1

    def validation_step(self, batch: SimpleNamespace, number: int) -> None: ...

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Keys(Dataset):
    """Batches that hold the rows of their keys."""

    def __getitem__(self, key: BatchIndices) -> SimpleNamespace:
        return SimpleNamespace(n_id=torch.from_numpy(key.rows))


def fit(steps: int, validated: int, monkeypatch: pytest.MonkeyPatch, **options: object) -> list[str]:
    """The lines of a training whose steps read 30 reports each."""
    clock = Clock()
    monkeypatch.setattr("gedbd.experiments.training_summary.time", clock)
    printed = io.StringIO()
    plain = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "num_sanity_val_steps": 0}
    shown = {"enable_progress_bar": False, "enable_model_summary": False}
    callbacks = [TrainingTime("encoder tiny", Console(file=printed, width=1000))]
    trainer = pl.Trainer(**plain, **shown, callbacks=callbacks, **options)
    batch = BatchIndices(np.arange(30), NO_PAIRS, NO_LABEL)
    validation = [batch._replace(rows=np.arange(validated))] if validated else range(0)
    trainer.fit(
        Steps(clock),
        DataLoader(Keys(), batch_size=None, sampler=[batch] * steps),
        DataLoader(Keys(), batch_size=None, sampler=validation),
    )
    return printed.getvalue().splitlines()


def test_time_is_estimated_from_the_steps_after_the_first_ones(monkeypatch):
    # 60 steps of 2 s; 90 reports are three steps, of which validation costs a third.
    assert fit(60, 90, monkeypatch, max_epochs=3) == [
        "encoder tiny; 60 steps an epoch",
        "an epoch takes about 2 min and its validation 2 s; the training about 6 min",
    ]
    assert fit(40, 0, monkeypatch, max_steps=10, accumulate_grad_batches=4) == [
        "encoder tiny; 10 steps an epoch",
        "an epoch takes about 80 s without validation; the training about 80 s",
    ]


def test_short_epochs_are_not_estimated(monkeypatch):
    assert fit(29, 0, monkeypatch, max_epochs=2) == ["encoder tiny; 29 steps an epoch"]
