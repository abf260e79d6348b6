"""Callbacks of a training: when it ends, on which batches it trains, which weights it saves, and what it shows.

A run's configuration names those of ``conf/callbacks`` by this module. ``monitor`` is the metric that chooses the best
epoch.
"""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Callback, Checkpoint, EarlyStopping, RichProgressBar
from pytorch_lightning.callbacks.progress.rich_progress import ProcessingSpeedColumn
from pytorch_lightning.trainer.states import TrainerFn
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, ProgressColumn, TextColumn, TimeRemainingColumn
from torch import Tensor

from gedbd.configuration.allowed_targets import check_plain, named_targets
from gedbd.evaluation.display_names import metric_name
from gedbd.evaluation.pairwise import METRICS
from gedbd.experiments.sweep_jobs import STUDY, Pruned
from gedbd.io.console import print_detail
from gedbd.io.table_files import read_csv, write_csv

CHECK_STEPS = 50  # batches between two checks of the losses
SHOWN_STEPS = 20  # batches between two losses that the progress bar reads; reading makes a GPU wait
SHOWN_METRICS = {
    "train/loss": "train loss",
    "val/f1": "val F1",
    "val/rr@10": "RR@10",
    "val/ranker_mrr": "MRR of a ranker",
    "val/mean_accuracy": "val mean accuracy",
}
IN_BAR = {"val/rr@10": "best RR@10", "val/f1": "best F1", "val/mrr": "best MRR", "val/mean_accuracy": "best accuracy"}
BAR_CHARACTERS = 12
MONITORED_METRICS = {"val/average_precision": "AP"}  # short labels: a line has at most 80 characters


def direction(monitor: str) -> str:
    """Whether the best value of a logged metric is the smallest (``min``), as of losses, or the largest (``max``)."""
    return "min" if monitor.endswith("loss") else "max"


def check_monitor(monitor: str, ranked: Sequence[str], may_log_more: bool = False) -> None:
    """Raises ValueError if a metric is not logged.

    Args:
        monitor: The metric.
        ranked: The metrics of the validation queries.
        may_log_more: Whether a callback or task of the user may log further ones; if it does not, Lightning reports it.
    """
    names = [f"val/{name}" for name in ("loss", *METRICS, *ranked)]
    if monitor not in names and not (may_log_more and monitor.startswith("val/")):
        raise ValueError(
            f"monitor={monitor} is not logged: choose one of {', '.join(names)}; for more, see protocol=,"
            " ranking.top_k, ranking.parts and the split; val/NAME of your own needs +callbacks.mine._target_= that"
            " logs it"
        )


def check_logged(cfg: DictConfig, names: Sequence[str]) -> None:
    """Raises ValueError if ``monitor`` is neither one of the logged metrics ``names`` nor may be the user's own."""
    if cfg.monitor not in names and not may_be_own(cfg):
        raise ValueError(f"monitor={cfg.monitor} is not logged: choose one of {', '.join(names)}")


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


def configured_callbacks(callbacks: DictConfig | None, folder: Path) -> list[Callback]:
    """The callbacks of the group ``callbacks``.

    A name without settings is left out; a callback whose ``dirpath`` is null writes into ``folder``.

    Raises:
        ValueError: If an entry is not a callback.
    """
    instances = []
    for key, settings in (callbacks or {}).items():
        name = str(key)
        if settings is None:
            continue
        if not OmegaConf.is_dict(settings) or "_target_" not in settings:
            raise ValueError(f"callbacks.{name}={settings} is no callback: give it as {{_target_: package.Class}}")
        folder_option = {"dirpath": folder} if "dirpath" in settings and settings.dirpath is None else {}
        callback = instantiate(settings, **folder_option)
        if not isinstance(callback, Callback):
            raise ValueError(f"callbacks.{name}._target_={settings._target_} is no callback of Lightning")
        instances.append(callback)
    return instances


class ResumableEarlyStopping(EarlyStopping):
    """Early stopping that also stops a resumed run that was already stopped.

    It checks after each validated epoch. Losses should fall, all other metrics rise; a gain of less than
    ``min_delta`` does not count.
    """

    def __init__(self, monitor: str, patience: int, min_delta: float = 0.0) -> None:
        # If the metric is not logged, the checkpoint of the best epoch ends training and names the metric.
        super().__init__(monitor, min_delta, patience, mode=direction(monitor), strict=False)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Checks after validation if not every epoch is validated."""
        self._check_on_train_epoch_end = trainer.check_val_every_n_epoch == 1

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the counts; the patience comes from the options of the resumed run."""
        super().load_state_dict({**state_dict, "patience": self.patience})

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stops at once if the run was already stopped."""
        if self.wait_count >= max(1, self.patience):
            trainer.should_stop = True


class LastStepValidation(Callback):
    """Validates if ``trainer.max_steps`` ends training within an epoch."""

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Sets ``should_stop``: Lightning then validates before it ends."""
        if trainer.global_step == trainer.max_steps:
            trainer.should_stop = True


class SameBatches(Callback):
    """Trains on the batches of the first epoch in every epoch: a test whether the model can overfit them."""

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Resets the number of the epoch, which seeds the batches."""
        loader: Any = trainer.train_dataloader
        loader.sampler.set_epoch(0)


class AveragedWeights(Callback):
    """Validates and saves the mean of the weights after each of the last epochs; training continues from the last ones.

    Averaging Weights Leads to Wider Optima and Better Generalization (Izmailov et al., 2018), with the configured
    learning rate. Lightning's ``StochasticWeightAveraging`` averages after the last checkpoint was saved.

    Args:
        start: Share of ``max_epochs`` before the first epoch that counts.

    Raises:
        ValueError: If ``start`` is below 0, or 1 or more.
    """

    def __init__(self, start: float = 0.5) -> None:
        if not 0 <= start < 1:
            raise ValueError(f"callbacks.swa.start={start} must be 0 or more and below 1")
        self.start = start
        self._count = 0
        self._mean: dict[str, Tensor] = {}
        self._trained: dict[str, Tensor] = {}  # the last weights, while the model holds the mean

    @torch.no_grad()
    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Adds the weights of an epoch to the mean, and loads the mean into the model."""
        first = int(self.start * max(trainer.max_epochs or 1, 1))
        if trainer.state.fn != TrainerFn.FITTING or trainer.current_epoch < first or self._trained:
            return
        weights = {name: weight for name, weight in pl_module.named_parameters() if weight.requires_grad}
        self._count += 1
        self._trained = {name: weight.detach().clone() for name, weight in weights.items()}
        for name, weight in weights.items():
            mean = self._mean.get(name, weight.detach().clone())
            self._mean[name] = mean + (self._trained[name] - mean) / self._count
            weight.copy_(self._mean[name])

    @torch.no_grad()
    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restores the trained weights."""
        weights = dict(pl_module.named_parameters())
        for name, trained in self._trained.items():
            weights[name].copy_(trained)
        self._trained = {}

    def state_dict(self) -> dict[str, Any]:
        """The mean, and the weights that training continues with."""
        return {"count": self._count, "mean": self._mean, "trained": self._trained}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the mean and the weights for a resumed run."""
        self._count = int(state_dict["count"])
        self._mean = dict(state_dict["mean"])
        self._trained = dict(state_dict["trained"])


class FiniteValues(Callback):
    """Ends a training whose loss or weights are no longer finite, before a checkpoint is saved or a metric computed.

    A loss that is not finite is noticed after at most ``CHECK_STEPS`` batches: reading a loss makes a GPU wait.

    Raises:
        ValueError: If a loss or a weight is infinite or NaN.
    """

    def __init__(self) -> None:
        self._first = torch.tensor(-1)  # number of the first batch whose loss is not finite

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Notes the first batch whose loss is not finite."""
        loss = outputs["loss"].detach() if outputs else None
        if loss is not None:
            first = self._first.to(loss.device)
            self._first = torch.where((first < 0) & ~torch.isfinite(loss).all(), batch_idx + 1, first)
        if (batch_idx + 1) % CHECK_STEPS == 0:
            self._check_loss(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Checks losses and weights."""
        if trainer.state.fn == TrainerFn.FITTING:
            self.on_train_epoch_end(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Checks losses and weights of a training without validation."""
        self._check_loss(trainer)
        for name, weight in pl_module.named_parameters():
            local = weight.to_local() if hasattr(weight, "to_local") else weight  # this process's shard
            if not torch.isfinite(local).all():
                self._refuse(trainer, f"after epoch {trainer.current_epoch + 1} the weight {name} is not finite")

    def _check_loss(self, trainer: pl.Trainer) -> None:
        step = int(self._first)
        if step > 0:
            self._refuse(trainer, f"epoch {trainer.current_epoch + 1}, step {step}: the loss is not finite")

    def _refuse(self, trainer: pl.Trainer, what: str) -> None:
        kept = f"epoch {trainer.current_epoch} is saved in last.ckpt" if trainer.current_epoch else "no epoch is saved"
        raise ValueError(
            f"{what} ({kept}): start a new run with a lower optimizer.lr= and optimizer.head_lr=, or with"
            " trainer.precision=32-true"
        )


class EpochTable(Checkpoint):
    """Writes a row to ``metrics.csv`` after each epoch, and prints a line: loss, metrics, seconds with validation.

    ``(best)`` marks the best value of ``monitor`` so far. A resumed run keeps its rows and adds to them. A subclass of
    ``Checkpoint``, as Lightning runs the hooks of these last, when all metrics of an epoch exist; it is listed before
    the checkpoints that save its rows.
    """

    def __init__(self, path: Path, monitor: str, console: Console) -> None:
        self.path = path
        self.monitor = monitor
        self.console = console
        own_label = MONITORED_METRICS.get(monitor, metric_name(monitor.replace("/", " ")))
        self._labels = {**SHOWN_METRICS, monitor: SHOWN_METRICS.get(monitor, own_label)}
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
        """Notes that the epoch was validated: Lightning keeps metrics of earlier epochs."""
        self._validated = True

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Adds the epoch's row, and prints its line."""
        # All processes encode about as many reports as this one, so its count is scaled.
        rate = self._reports * trainer.world_size / self._seconds
        pl_module.log_dict({"train/seconds": self._seconds, "train/reports_per_second": rate})
        logged = {name: value for name, value in trainer.callback_metrics.items() if "/" in name}
        values = {
            name: float(value) for name, value in logged.items() if self._validated or not name.startswith("val/")
        }
        values |= {"train/seconds": self._seconds, "train/reports_per_second": rate}
        self.rows.append({"epoch": trainer.current_epoch, **dict(sorted(values.items()))})
        if not trainer.is_global_zero:
            return
        write_csv(self.path, pd.DataFrame(self.rows))
        texts = {name: f"{label} {values[name]:.3f}" for name, label in self._labels.items() if name in values}
        *earlier_values, value = [row.get(self.monitor, math.nan) for row in self.rows]
        sign = -1 if direction(self.monitor) == "min" else 1
        # A tie is not a new best, as for the checkpoint; an epoch without validation is NaN, which compares as false.
        if not math.isnan(value) and not any(sign * earlier >= sign * value for earlier in earlier_values):
            texts[self.monitor] += " (best)"
        epochs = f"/{trainer.max_epochs}" if trainer.max_epochs and trainer.max_epochs > 0 else ""
        seconds = f"{time.perf_counter() - self._started:.1f} s"
        print_detail(
            self.console, f"epoch {trainer.current_epoch + 1}{epochs}: {', '.join([*texts.values(), seconds])}"
        )

    def state_dict(self) -> dict[str, Any]:
        """The rows so far, for the checkpoint."""
        return {"rows": self.rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the rows of the run that is resumed."""
        self.rows = list(state_dict["rows"])


class EpochProgressBar(RichProgressBar):
    """One line of at most 80 columns: ``epoch 1/3``, the bar, batches, rate, time left, loss and the best value so far.

    Epochs are counted from 1, where Lightning writes ``Epoch 2/2`` for the last of three. All other metrics are in the
    line that ``EpochTable`` prints.
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
            ProcessingSpeedColumn(style="none"),
            TimeRemainingColumn(compact=True),
        ]

    def get_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> dict[str, Any]:
        """The loss of the last batch, and the best value so far of the first metric that ``IN_BAR`` has a label for."""
        metrics = super().get_metrics(trainer, pl_module)
        for name, label in IN_BAR.items():
            if name in metrics:
                value = float(metrics[name])  # type: ignore[arg-type]
                self._best[label] = max(value, self._best.get(label, value))
        loss = {"loss": metrics["loss"]} if "loss" in metrics else {}
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
        """A short description, as wide as that of an epoch."""
        return "validate"


class EpochPruning(Checkpoint):
    """Reports a metric of each epoch to the trial's study and raises ``Pruned`` if its pruner decides so.

    A subclass of ``Checkpoint`` because Lightning runs their hooks last in an epoch. An epoch is reported once: of
    several seeds, the first decides. The last epoch is not pruned. ``storage`` is the URL of the study's database; the
    higher the metric, the better.
    """

    def __init__(self, trial_id: int, storage: str, metric: str = "val/f1") -> None:
        self.trial_id = trial_id
        self.storage = storage
        self.metric = metric

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reports the epoch. The first process decides for all processes of the job."""
        if self.metric not in trainer.callback_metrics:  # no epoch was validated yet
            return
        value = float(trainer.callback_metrics[self.metric])
        pruned = trainer.is_global_zero and self._should_prune(trainer.current_epoch, value)
        is_last = trainer.current_epoch + 1 == trainer.max_epochs
        if trainer.strategy.broadcast(pruned) and not is_last:
            raise Pruned(value)

    def _should_prune(self, epoch: int, value: float) -> bool:
        import optuna

        study = optuna.load_study(study_name=STUDY, storage=self.storage)
        pruner = study.user_attrs["pruner"]
        # The study's file may come from someone else, and instantiate calls any target.
        check_plain(pruner, self.storage)
        forbidden = named_targets(pruner) - {f"optuna.pruners.{name}" for name in optuna.pruners.__all__}
        if forbidden:
            raise ValueError(
                f"{self.storage}: {min(forbidden)} is not a pruner of Optuna, and a file may name nothing else"
            )
        # A loaded study has Optuna's default pruner.
        study.pruner = instantiate(pruner)
        trial = optuna.Trial(study, self.trial_id)
        reported = study._storage.get_trial(self.trial_id).intermediate_values
        if epoch in reported:
            return False
        trial.report(value, epoch)
        return trial.should_prune()
