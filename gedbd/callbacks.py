"""What happens beside training: the table of epochs, early stopping, checkpoints."""

import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytorch_lightning as pl
from pytorch_lightning.callbacks import Callback, Checkpoint, ModelCheckpoint

from gedbd.data.datamodule import Batch
from gedbd.evaluation.pairwise import METRICS
from gedbd.stopping import ResumableEarlyStopping, pruning_callbacks


class EpochTable(Checkpoint):
    """Writes ``metrics.csv``, one row an epoch, anew after each; a resumed run goes on with the rows it had.

    It is a ``Checkpoint`` to Lightning, whose hooks run last in an epoch, once all metrics are there; listed before the
    checkpoints that save its rows.

    Args:
        path: The file to write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: list[dict[str, float]] = []
        self._reports = 0
        self._seconds = 0.0
        self._started = 0.0

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Starts the clock."""
        self._reports, self._started = 0, time.perf_counter()

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Batch, batch_idx: int
    ) -> None:
        """Counts encoded reports, on this device, and reads the clock: validation is not training time."""
        self._reports += len(batch.n_id)
        self._seconds = time.perf_counter() - self._started

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Adds the epoch's row."""
        rate = self._reports * trainer.world_size / self._seconds
        pl_module.log_dict({"train/seconds": self._seconds, "train/reports_per_second": rate})
        values = {name: float(value) for name, value in trainer.callback_metrics.items() if "/" in name}
        values |= {"train/seconds": self._seconds, "train/reports_per_second": rate}
        self.rows.append({"epoch": trainer.current_epoch, **dict(sorted(values.items()))})
        if trainer.is_global_zero:
            unfinished = self.path.with_suffix(".part")
            pd.DataFrame(self.rows).to_csv(unfinished, index=False)
            unfinished.replace(self.path)

    def state_dict(self) -> dict[str, Any]:
        """The rows so far, for the checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes up the rows of the run that is resumed."""
        self.rows = list(state_dict["rows"])


def training_callbacks(folder: Path, monitor: str, patience: int) -> list[Callback]:
    """Early stopping, the epoch table, and the best and the last checkpoint, all at the end of an epoch."""
    mode = direction(monitor)
    checkpoint = partial(
        ModelCheckpoint, folder / "checkpoints", save_on_train_epoch_end=True, enable_version_counter=False
    )
    return [
        ResumableEarlyStopping(monitor, patience=patience, mode=mode, check_on_train_epoch_end=True),
        EpochTable(folder / "metrics.csv"),
        *pruning_callbacks(),
        checkpoint("best", monitor=monitor, mode=mode, save_weights_only=True),
        checkpoint("last"),
    ]


def direction(monitor: str) -> str:
    """Whether the best value of a logged metric is its smallest (``min``) or its largest (``max``)."""
    return "min" if monitor == "val/loss" else "max"


def check_monitor(monitor: str, ranked: Sequence[str]) -> None:
    """Raises ValueError if a metric is not logged; ``ranked`` are those of the validation queries."""
    names = [f"val/{name}" for name in ("loss", *METRICS, *ranked)]
    if monitor not in names:
        raise ValueError(
            f"monitor={monitor} is not logged: choose one of {', '.join(names)}; for more, see protocol=,"
            " ranking.top_k, ranking.parts and the split"
        )
