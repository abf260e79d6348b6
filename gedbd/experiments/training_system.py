"""What the systems of all tasks that Lightning trains have in common, and their data."""

from collections.abc import Iterable
from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler


class WholeBatchData(pl.LightningDataModule):
    """Data sets whose keys are whole batches, such that samplers share out the batches of several processes."""

    @property
    def world_size(self) -> int:
        """Number of processes; 1 without a trainer."""
        return self.trainer.world_size if self.trainer else 1

    @property
    def rank(self) -> int:
        """Number of this process."""
        return self.trainer.global_rank if self.trainer else 0

    def load(self, dataset: Dataset[Any], keys: Iterable[Any]) -> DataLoader[Any]:
        """A loader of some batches, which it must not batch again."""
        # A GPU copies from pinned memory while it computes.
        pinned = self.trainer is not None and self.trainer.strategy.root_device.type == "cuda"
        return DataLoader(dataset, batch_size=None, sampler=keys, pin_memory=pinned)


class TrainingSystem(pl.LightningModule):
    """A system with the configured optimizer and scheduler; a test does what validation does.

    Args:
        make_optimizer: See ``gedbd.experiments.optimizers``.
        make_scheduler: See ``gedbd.experiments.optimizers``.
        seed: With epoch and step, fixes dropout, so that a resumed run repeats an uninterrupted one.
    """

    def __init__(self, make_optimizer: MakeOptimizer, make_scheduler: MakeScheduler, seed: int) -> None:
        super().__init__()
        self.make_optimizer = make_optimizer
        self.make_scheduler = make_scheduler
        self.seed = seed

    def trained_weights(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """Pretrained and other weights that the optimizer changes."""
        raise NotImplementedError

    def configure_optimizers(self) -> Any:
        """The optimizer, and its scheduler, which is advanced after every step."""
        optimizer = self.make_optimizer(*self.trained_weights())
        scheduler = self.make_scheduler(optimizer, lambda: int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    def fix_dropout(self, batch_idx: int) -> None:
        """Lets the random numbers of a step depend on seed, epoch, step and process alone."""
        torch.manual_seed(hash((self.seed, self.current_epoch, batch_idx, self.global_rank)) % 2**63)

    def show_loss(self, loss: Tensor, batch: Any) -> None:
        """Shows the loss of a batch, which has ``n_id``, in the progress bar."""
        self.log("loss", loss, on_step=True, on_epoch=False, prog_bar=True, logger=False, batch_size=len(batch.n_id))

    def summed(self, values: Tensor) -> Tensor:
        """The sum of a tensor over all processes; every process calls this."""
        if self.trainer.world_size == 1:
            return values
        gathered = self.all_gather(values)
        assert isinstance(gathered, Tensor)
        return gathered.sum(dim=0)

    def on_test_epoch_start(self) -> None:
        """Begins as a validation does."""
        self.on_validation_epoch_start()

    def test_step(self, batch: Any, batch_idx: int) -> None:
        """Takes a batch as validation does."""
        self.validation_step(batch, batch_idx)
