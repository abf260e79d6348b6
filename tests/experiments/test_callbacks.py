"""Callbacks of a training, each with a module of one weight."""

import math
from pathlib import Path

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from torch.utils.data import DataLoader

from gedbd.experiments.callbacks import (
    AveragedWeights,
    FiniteValues,
    LastStepValidation,
    ResumableEarlyStopping,
    SameBatches,
)


class Line(pl.LightningModule):
    """One weight, whose loss is replaced at one batch and whose weight at the end of one epoch."""

    def __init__(self, step: int = -1, value: float = 0.0, epoch: int = -1, lr: float = 0.0) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(()) if lr else torch.ones(()))
        self.step, self.value, self.epoch, self.lr = step, value, epoch, lr
        self.steps_run = 0
        self.validated: list[float] = []

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        self.steps_run += 1
        loss = self.weight * batch.mean() if self.lr else (self.weight * batch.mean()) ** 2
        return loss * self.value if self.global_step == self.step else loss

    def on_train_batch_end(self, *_: object) -> None:
        if self.global_step == (self.epoch + 1) * 4:
            self.weight.data.fill_(math.inf)

    def validation_step(self, batch: torch.Tensor, number: int) -> None:
        self.validated.append(float(self.weight))
        self.log("val/f1", 0.5)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def fit(module: Line, callbacks: list, batches: int = 1, start: Path | None = None, **options: object) -> pl.Trainer:
    """Trains a module, and validates it on one batch."""
    trainer = pl.Trainer(
        accelerator="cpu",
        logger=False,
        callbacks=callbacks,
        enable_progress_bar=False,
        enable_model_summary=False,
        enable_checkpointing=any(isinstance(callback, ModelCheckpoint) for callback in callbacks),
        num_sanity_val_steps=0,
        **options,
    )
    data = pl.LightningDataModule()
    data.train_dataloader = lambda: DataLoader(torch.ones(batches, 1), sampler=Epochs(batches))
    data.val_dataloader = lambda: DataLoader(torch.ones(1, 1))
    trainer.fit(module, datamodule=data, ckpt_path=start, weights_only=True)
    return trainer


class Epochs(list):
    """A sampler that notes the epochs whose batches are drawn."""

    def __init__(self, batches: int) -> None:
        super().__init__(range(batches))
        self.drawn: list[int] = []
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self):
        self.drawn.append(self.epoch)
        return super().__iter__()


def train(module: Line, folder: Path, steps: int = 4) -> None:
    saved = ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
    fit(module, [FiniteValues(), saved], steps, max_epochs=3, limit_val_batches=0, default_root_dir=folder)


def test_early_stopping_waits_for_a_validation() -> None:
    module = Line()
    stopping = ResumableEarlyStopping("val/f1", patience=1)
    trainer = fit(module, [stopping], max_epochs=7, check_val_every_n_epoch=2)
    # The second validation is not better than the first.
    assert (trainer.current_epoch, len(module.validated)) == (4, 2)


@pytest.mark.parametrize(("waited", "stops"), [(0, False), (1, True)])
def test_without_patience_a_training_stops_after_the_first_epoch_that_is_no_better(waited: int, stops: bool) -> None:
    stopping = ResumableEarlyStopping("val/f1", patience=0)
    stopping.wait_count = waited
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    stopping.on_train_start(trainer, pl.LightningModule())
    assert trainer.should_stop == stops


def test_a_training_that_ends_within_an_epoch_is_validated() -> None:
    module = Line()
    fit(module, [LastStepValidation()], 4, max_steps=3, max_epochs=2)
    assert (module.steps_run, len(module.validated)) == (3, 1)


@pytest.mark.parametrize(("callbacks", "epochs"), [([], [0, 1, 2]), ([SameBatches()], [0, 0, 0])])
def test_overfitting_draws_the_batches_of_the_first_epoch(callbacks: list, epochs: list[int]) -> None:
    trainer = fit(Line(), callbacks, 2, max_epochs=3)
    assert trainer.train_dataloader.sampler.drawn == epochs


def test_the_mean_of_weights_is_saved_and_training_continues_from_the_last_ones(tmp_path: Path) -> None:
    def train_epochs(epochs: int, start: Path | None = None) -> list[float]:
        module = Line(lr=1.0)  # the weight falls by 1 in each epoch
        saved = ModelCheckpoint(tmp_path, "last", save_on_train_epoch_end=True)
        fit(module, [AveragedWeights(2 / epochs), saved], start=start, max_epochs=epochs)
        return module.validated

    # Epochs 3 and 4 count: weights -3 and -4.
    assert train_epochs(4) == [-1, -2, -3, -3.5]
    state = torch.load(tmp_path / "last.ckpt", weights_only=True)["state_dict"]
    assert float(state["weight"]) == -3.5
    assert train_epochs(6, tmp_path / "last.ckpt") == [-4, -4.5]


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_training_with_its_step(tmp_path: Path, value: float) -> None:
    module = Line(step=5, value=value)  # the second step of the second epoch
    with pytest.raises(
        ValueError, match=r"epoch 2, step 2: .*epoch 1 is saved in last\.ckpt.*optimizer\.lr="
    ) as raised:
        train(module, tmp_path)
    assert "\n" not in str(raised.value)
    assert module.steps_run == 8
    assert [file.name for file in tmp_path.glob("*.ckpt")] == ["epoch=0.ckpt"]


def test_a_weight_that_is_not_finite_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"after epoch 2 the weight weight is not finite .*epoch 1 is saved"):
        train(Line(epoch=1), tmp_path)
