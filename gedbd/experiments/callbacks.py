"""Callbacks that change a training: when it ends, on which batches it trains, and which weights it saves.

A run's configuration names those of ``conf/callbacks`` by this module.
"""

from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Callback, EarlyStopping
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from gedbd.experiments.training_progress import direction

CHECK_STEPS = 50  # between two looks at the losses


def configured_callbacks(callbacks: DictConfig | None, folder: Path) -> list[Callback]:
    """The callbacks of the group ``callbacks``.

    Args:
        callbacks: Settings by name; a name without settings is left out.
        folder: Where a callback writes whose ``dirpath`` is null.

    Raises:
        ValueError: If an entry is no callback.
    """
    made = []
    for key, settings in (callbacks or {}).items():
        name = str(key)
        if settings is None:
            continue
        if not OmegaConf.is_dict(settings) or "_target_" not in settings:
            raise ValueError(f"callbacks.{name}={settings} is no callback: give it as {{_target_: package.Class}}")
        place = {"dirpath": folder} if "dirpath" in settings and settings.dirpath is None else {}
        callback = instantiate(settings, **place)
        if not isinstance(callback, Callback):
            raise ValueError(f"callbacks.{name}._target_={settings._target_} is no callback of Lightning")
        made.append(callback)
    return made


class ResumableEarlyStopping(EarlyStopping):
    """Early stopping that also ends a resumed run which it had already stopped.

    It looks at the end of each validated epoch.

    Args:
        monitor: The metric; losses should fall, all others rise.
        patience: Validations without a better value before training stops.
        min_delta: A gain of less does not count.
    """

    def __init__(self, monitor: str, patience: int, min_delta: float = 0.0) -> None:
        # Where the metric is not logged, the checkpoint of the best epoch ends the training with its name.
        super().__init__(monitor, min_delta, patience, mode=direction(monitor), strict=False)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Looks after validation if not every epoch is validated."""
        self._check_on_train_epoch_end = trainer.check_val_every_n_epoch == 1

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what was counted; the patience is that of the resumed run's options."""
        super().load_state_dict({**state_dict, "patience": self.patience})

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stops at once if the run had already been stopped."""
        if self.wait_count >= max(1, self.patience):
            trainer.should_stop = True


class LastStepValidation(Callback):
    """Lets a training that ends by ``trainer.max_steps`` within an epoch validate what it has learnt."""

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Asks for the end: Lightning validates before an end that was asked for."""
        if trainer.global_step == trainer.max_steps:
            trainer.should_stop = True


class AtLeastOneBatch(Callback):
    """Trains on one batch an epoch where ``trainer.limit_train_batches`` is a fraction that leaves none.

    Lightning refuses such a fraction, once the batches are counted.
    """

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Counts the batches before Lightning does."""
        share = trainer.limit_train_batches
        if isinstance(share, float) and share < 1:
            data: Any = trainer.datamodule  # type: ignore[attr-defined]
            if share * len(data.train_dataloader()) < 1:
                trainer.limit_train_batches = 1


class SameBatches(Callback):
    """Trains on the batches of the first epoch in every epoch, to see that the model can learn them by heart."""

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes back the number of the epoch, which batches are drawn by."""
        loader: Any = trainer.train_dataloader
        loader.sampler.set_epoch(0)


class AveragedWeights(Callback):
    """Validates and saves the mean of the weights after each of the last epochs; training goes on from its own.

    Averaging Weights Leads to Wider Optima and Better Generalization (Izmailov et al., 2018), with the configured
    learning rate. Lightning's ``StochasticWeightAveraging`` averages after the last checkpoint was saved.

    Args:
        start: Share of ``max_epochs`` before the first epoch that counts.

    Raises:
        ValueError: If ``start`` is not within 0 and 1.
    """

    def __init__(self, start: float = 0.5) -> None:
        if not 0 <= start < 1:
            raise ValueError(f"callbacks.swa.start={start} must be 0 or more and below 1")
        self.start = start
        self._count = 0
        self._mean: dict[str, Tensor] = {}
        self._trained: dict[str, Tensor] = {}  # the weights to train on with, while the model holds their mean

    @torch.no_grad()
    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Takes the weights of an epoch into the mean, and puts the mean into the model."""
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
        """Puts the trained weights back."""
        weights = dict(pl_module.named_parameters())
        for name, trained in self._trained.items():
            weights[name].copy_(trained)
        self._trained = {}

    def state_dict(self) -> dict[str, Any]:
        """The mean, and the weights to train on with."""
        return {"count": self._count, "mean": self._mean, "trained": self._trained}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores those of the run that is resumed."""
        self._count = int(state_dict["count"])
        self._mean = dict(state_dict["mean"])
        self._trained = dict(state_dict["trained"])


class FiniteValues(Callback):
    """Ends a training whose loss or weights are no longer finite, before a checkpoint is saved or a metric computed.

    A loss that is not finite is noticed after at most ``CHECK_STEPS`` steps, as reading a loss makes a GPU wait.

    Raises:
        ValueError: If a loss or a weight is infinite or NaN.
    """

    def __init__(self) -> None:
        self._first = torch.tensor(-1)  # the first step with such a loss

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Looks at the loss of a step."""
        loss = outputs["loss"].detach() if outputs else None
        if loss is not None:
            first = self._first.to(loss.device)
            self._first = torch.where((first < 0) & ~torch.isfinite(loss).all(), batch_idx + 1, first)
        if (batch_idx + 1) % CHECK_STEPS == 0:
            self._check_loss(trainer)

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Looks at the losses and the weights of the epoch."""
        if trainer.state.fn == TrainerFn.FITTING:
            self.on_train_epoch_end(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Likewise, for a training without validation."""
        self._check_loss(trainer)
        for name, weight in pl_module.named_parameters():
            local = weight.to_local() if hasattr(weight, "to_local") else weight  # of a sharded weight
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
