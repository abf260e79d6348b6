"""Metrics of epochs: the one that chooses the best epoch, ``metrics.csv``, a line for each, and the progress bar."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytorch_lightning as pl
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Checkpoint, RichProgressBar
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Task as ProgressTask
from rich.text import Text

from gedbd.configuration.allowed_targets import named_targets
from gedbd.evaluation.display_names import metric_name
from gedbd.evaluation.pairwise import METRICS
from gedbd.io.console import print_detail
from gedbd.io.table_files import read_csv, write_csv

SHOWN_STEPS = 20  # between two losses that the progress bar reads from a GPU, which waits then
SHOWN_METRICS = {
    "train/loss": "train loss",
    "val/f1": "val F1",
    "val/rr@10": "RR@10",
    "val/ranker_mrr": "MRR of a ranker",
    "val/mean_accuracy": "val mean accuracy",
}
IN_BAR = {"val/rr@10": "best RR@10", "val/f1": "best F1", "val/mrr": "best MRR", "val/mean_accuracy": "best accuracy"}
BAR_CHARACTERS = 12
MONITORED_METRICS = {"val/average_precision": "AP"}  # in short: a line has at most 80 characters


def direction(monitor: str) -> str:
    """Whether the best value of a logged metric is the smallest (``min``), as of losses, or the largest (``max``)."""
    return "min" if monitor.endswith("loss") else "max"


def check_monitor(monitor: str, ranked: Sequence[str], may_log_more: bool = False) -> None:
    """Raises ValueError if a metric is not logged.

    Args:
        monitor: The metric.
        ranked: The metrics of the validation queries.
        may_log_more: Whether a callback or task of the user may log further ones; Lightning says if it does not.
    """
    names = [f"val/{name}" for name in ("loss", *METRICS, *ranked)]
    if monitor not in names and not (may_log_more and monitor.startswith("val/")):
        raise ValueError(
            f"monitor={monitor} is not logged: choose one of {', '.join(names)}; for more, see protocol=,"
            " ranking.top_k, ranking.parts and the split; val/NAME of your own needs +callbacks.mine._target_= that"
            " logs it"
        )


def may_be_own(cfg: DictConfig) -> bool:
    """Whether ``monitor`` may be a metric that a callback or task of the user logs, which gedbd does not know."""
    sections = {name: OmegaConf.to_container(cfg[name]) for name in ("callbacks", "task") if cfg.get(name)}
    packages = {target.partition(".")[0] for target in named_targets(sections)}
    return str(cfg.monitor).startswith("val/") and not packages <= {"gedbd", "pytorch_lightning"}


def value_of_best(folder: Path, monitor: str, metric: str) -> float:
    """A metric of a run's best checkpoint, which is the epoch with the best value of ``monitor``."""
    epochs = read_csv(folder / "metrics.csv", metric, monitor)
    return float(epochs[metric][epochs_of_best(folder, monitor) - 1])


def epochs_of_best(folder: Path, monitor: str) -> int:
    """For how many epochs a run's best checkpoint was trained."""
    values = read_csv(folder / "metrics.csv", monitor)[monitor]
    best = values.argmin() if direction(monitor) == "min" else values.argmax()
    return int(best) + 1


class EpochTable(Checkpoint):
    """Writes ``metrics.csv`` after each epoch, one row for each.

    A resumed run continues the rows it had. This is a subclass of ``Checkpoint`` because Lightning runs their hooks
    last, when all metrics of an epoch exist; it is listed before the checkpoints that save its rows.

    Args:
        path: The file to write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, float]] = []
        self._reports = 0
        self._seconds = 0.0
        self._started = 0.0
        self._validated = False

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Starts the clock."""
        self._reports = 0
        self._validated = False
        self._started = time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Counts the reports encoded on this device and stops the clock: validation is not training time."""
        self._reports += len(batch.n_id)
        self._seconds = time.perf_counter() - self._started

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Notes that the epoch was validated: Lightning keeps the metrics of an earlier one."""
        self._validated = True

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Adds the epoch's row."""
        # The processes encode about equally many reports, so one of them is counted.
        rate = self._reports * trainer.world_size / self._seconds
        pl_module.log_dict({"train/seconds": self._seconds, "train/reports_per_second": rate})
        logged = {name: value for name, value in trainer.callback_metrics.items() if "/" in name}
        values = {
            name: float(value) for name, value in logged.items() if self._validated or not name.startswith("val/")
        }
        values |= {"train/seconds": self._seconds, "train/reports_per_second": rate}
        self.rows.append({"epoch": trainer.current_epoch, **dict(sorted(values.items()))})
        if trainer.is_global_zero:
            write_csv(self.path, pd.DataFrame(self.rows))

    def state_dict(self) -> dict[str, Any]:
        """The rows so far, for the checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the rows of the run that is resumed."""
        self.rows = list(state_dict["rows"])


class EpochLine(Checkpoint):
    """Prints a line after each epoch: loss, metrics, seconds. ``(best)`` marks the best value of ``monitor`` so far.

    Args:
        table: The table of the epochs' metrics.
        monitor: The metric that chooses the best epoch.
        console: Where the lines go.
    """

    def __init__(self, table: EpochTable, monitor: str, console: Console) -> None:
        self.table = table
        self.monitor = monitor
        own_label = MONITORED_METRICS.get(monitor, metric_name(monitor.replace("/", " ")))
        self._labels = {**SHOWN_METRICS, monitor: SHOWN_METRICS.get(monitor, own_label)}
        self.console = console
        self._started = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Starts the clock, which includes validation."""
        self._started = time.perf_counter()

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Prints the line, in the process that writes."""
        if not trainer.is_global_zero:
            return
        rows = self.table.rows
        parts = {name: f"{label} {rows[-1][name]:.3f}" for name, label in self._labels.items() if name in rows[-1]}
        *before, value = [row.get(self.monitor, math.nan) for row in rows]
        sign = -1 if direction(self.monitor) == "min" else 1
        # An epoch that only ties is no new best, as for the checkpoint; one without a validation compares as false.
        if not math.isnan(value) and not any(sign * earlier >= sign * value for earlier in before):
            parts[self.monitor] += " (best)"
        epochs = f"/{trainer.max_epochs}" if trainer.max_epochs and trainer.max_epochs > 0 else ""
        seconds = f"{time.perf_counter() - self._started:.1f} s"
        print_detail(
            self.console, f"epoch {trainer.current_epoch + 1}{epochs}: {', '.join([*parts.values(), seconds])}"
        )


class EpochProgressBar(RichProgressBar):
    """One line of at most 80 columns: ``epoch 1/3``, the bar, batches, rate, time left, loss and the best value so far.

    Epochs are counted from 1, where Lightning writes ``Epoch 2/2`` for the last of three. All other metrics are in the
    line that ``EpochLine`` prints.
    """

    def __init__(self) -> None:
        super().__init__()
        self._best: dict[str, float] = {}

    def configure_columns(self, trainer: pl.Trainer) -> list[ProgressColumn]:
        """The columns before the metrics."""
        return [
            TextColumn("{task.description}"),
            BarColumn(bar_width=BAR_CHARACTERS),
            MofNCompleteColumn(),
            BatchRateColumn(),
            TimeRemainingColumn(compact=True),
        ]

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """The loss of the last batch, and the best value so far of the first metric that ``IN_BAR`` has a label for."""
        shown = super().get_metrics(trainer, pl_module)
        for name, label in IN_BAR.items():
            if name in shown:
                value = float(shown[name])  # type: ignore[arg-type]
                self._best[label] = max(value, self._best.get(label, value))
        loss = {"loss": shown["loss"]} if "loss" in shown else {}
        best = [(label, self._best[label]) for label in IN_BAR.values() if label in self._best]
        return loss | dict(best[:1])

    def _update_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        skipped = trainer.training and trainer.fit_loop.epoch_loop.batch_idx % SHOWN_STEPS
        if not (skipped and pl_module.device.type != "cpu"):
            super()._update_metrics(trainer, pl_module)

    def _get_train_description(self, current_epoch: int) -> str:
        max_epochs = self.trainer.max_epochs
        limit = f"/{max_epochs}" if max_epochs and max_epochs > 0 else ""
        return f"epoch {current_epoch + 1}{limit}"

    @property
    def validation_description(self) -> str:
        """In short, as wide as the description of an epoch."""
        return "validate"


class BatchRateColumn(ProgressColumn):
    """Batches per second."""

    def render(self, task: ProgressTask) -> Text:
        """The rate, without a value before the first batch."""
        return Text("" if task.speed is None else f"{task.speed:.1f}/s")
