"""Callbacks of a training: one whose loss or weights are no longer finite ends; the bar counts epochs from one."""

import io
import math
from pathlib import Path
from types import SimpleNamespace

import pytest
import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, RichProgressBar
from pytorch_lightning.callbacks.progress.rich_progress import MetricsTextColumn
from rich.console import Console
from rich.progress import Progress
from torch.utils.data import DataLoader

from gedbd.experiments.callbacks import CHECK_STEPS, EpochProgressBar, FiniteValues


class Line(pl.LightningModule):
    """One weight, whose loss is replaced at one step and whose weight at the end of one epoch."""

    def __init__(self, step: int = -1, value: float = 0.0, epoch: int = -1) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(()))
        self.step, self.value, self.epoch = step, value, epoch
        self.steps_run = 0

    def training_step(self, batch: torch.Tensor, number: int) -> torch.Tensor:
        self.steps_run += 1
        loss = (self.weight * batch.mean()) ** 2
        return loss * self.value if self.global_step == self.step else loss

    def on_train_batch_end(self, *_: object) -> None:
        if self.global_step == (self.epoch + 1) * 4:
            self.weight.data.fill_(math.inf)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def train(module: Line, folder: Path, steps: int = 4) -> None:
    saved = ModelCheckpoint(folder, filename="{epoch}", save_top_k=-1, save_on_train_epoch_end=True)
    trainer = pl.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        callbacks=[FiniteValues(), saved],
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=folder,
    )
    trainer.fit(module, DataLoader(torch.ones(steps, 1), batch_size=1))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_loss_that_is_not_finite_ends_the_training_with_its_step(tmp_path: Path, value: float) -> None:
    module = Line(step=5, value=value)  # the second step of the second epoch
    with pytest.raises(
        ValueError, match=r"epoch 2, step 2: .*epoch 1 is saved in last\.ckpt.*optimizer\.lr="
    ) as raised:
        train(module, tmp_path)
    assert "\n" not in str(raised.value)
    assert module.steps_run == 8
    assert [file.name for file in tmp_path.glob("*.ckpt")] == ["epoch=0.ckpt"]


def test_it_is_noticed_before_the_epoch_ends(tmp_path: Path) -> None:
    module = Line(step=1, value=math.nan)
    with pytest.raises(ValueError, match=r"epoch 1, step 2: .*no epoch is saved"):
        train(module, tmp_path, steps=CHECK_STEPS + 10)
    assert module.steps_run == CHECK_STEPS


def test_a_weight_that_is_not_finite_ends_the_training(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"after epoch 2 the weight weight is not finite .*epoch 1 is saved"):
        train(Line(epoch=1), tmp_path)


def test_a_finite_training_goes_on(tmp_path: Path) -> None:
    module = Line()
    train(module, tmp_path)
    assert module.steps_run == 12


@pytest.mark.parametrize(("max_epochs", "shown"), [(3, "epoch 3/3"), (-1, "epoch 3"), (None, "epoch 3")])
def test_epochs_are_counted_from_one(max_epochs, shown):
    bar = EpochProgressBar()
    bar._trainer = SimpleNamespace(max_epochs=max_epochs)
    assert bar._get_train_description(2).rstrip() == shown


def test_the_bar_is_one_line_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    bar = EpochProgressBar()
    monkeypatch.setattr(RichProgressBar, "get_metrics", lambda *_: dict(values))
    values = {"loss": 0.123456, "val/f1": 0.7, "val/rr@10": 0.8}
    assert bar.get_metrics(None, None) == {"loss": 0.123456, "best RR@10": 0.8}
    values |= {"val/rr@10": 0.75}
    assert bar.get_metrics(None, None) == {"loss": 0.123456, "best RR@10": 0.8}
    # As Lightning puts it together, with numbers as long as they become.
    bar._trainer = SimpleNamespace(max_epochs=100)
    text = io.StringIO()
    console = Console(file=text, width=80, force_terminal=True, color_system=None)
    trainer = SimpleNamespace(state=SimpleNamespace(fn="fit"), sanity_checking=False, training=True)
    trainer.progress_bar_callback = bar
    metrics = MetricsTextColumn(trainer, "", " ", ".3f")
    with Progress(*bar.configure_columns(trainer), metrics, console=console, auto_refresh=False) as progress:
        bar.train_progress_bar_id = progress.add_task(bar._get_train_description(98), total=12_345)
        metrics.update(bar.get_metrics(None, None))
        progress.update(bar.train_progress_bar_id, completed=12_000)
        text.truncate(0)
        text.seek(0)
        progress.refresh()
        (line,) = [part for part in text.getvalue().replace("\r", "\n").splitlines() if "epoch" in part]
    assert "epoch 99/100" in line
    assert "12000/12345" in line
    assert line.rstrip().endswith("loss: 0.123 best RR@10: 0.800")
