"""Ends a training whose loss or weights are infinite or NaN."""

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.trainer.states import TrainerFn

CHECK_STEPS = 50


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
