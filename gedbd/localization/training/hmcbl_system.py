"""Training of hierarchical momentum contrast (HMCBL)."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.experiments.distributed import gather
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler
from gedbd.experiments.training_system import TrainingSystem
from gedbd.localization.training.change_inputs import Inputs
from gedbd.localization.training.hmcbl_network import CandidateLinks, HmcblNetwork
from gedbd.localization.training.hmcbl_settings import HmcblSettings
from gedbd.localization.training.localization_data import LocalizationDataModule, PairBatch
from gedbd.localization.training.sides import Side
from gedbd.localization.training.tower import GatheredBatchNorm, GatheredRows, Tower
from gedbd.localization.training.validation_ranking import Encoded, encode, mean_reciprocal_rank


class HmcblSystem(TrainingSystem):
    """Trains the encoders of reports and changes by the weighted sum of the losses of its levels.

    Logs ``train/loss`` and ``val/loss``, the loss of each level as ``train/bank_loss``, and ``val/mrr``: validation
    reports rank commits before them by the cosine of projected vectors, see ``LocalizationDataModule``.

    Args:
        report_side: The encoder of reports.
        change_side: The encoder of changes.
        settings: See ``HmcblSettings``.
        links: Tells the negatives among the keys of the banks.
        make_optimizer: See ``TrainingSystem``, as for the next two.
        make_scheduler: Makes the scheduler.
        seed: Fixes dropout. The projectors' first weights are drawn from PyTorch's generator.
        bf16: Whether encoders compute in bfloat16 when many texts are encoded.

    Attributes:
        tested: ``mrr`` and ``loss`` of the validation reports in Lightning's last test.
    """

    def __init__(
        self,
        report_side: Side,
        change_side: Side,
        settings: HmcblSettings,
        links: CandidateLinks,
        make_optimizer: MakeOptimizer,
        make_scheduler: MakeScheduler,
        seed: int,
        bf16: bool = False,
    ) -> None:
        super().__init__(make_optimizer, make_scheduler, seed)
        self.network = HmcblNetwork(report_side, change_side, settings, links)
        self.network.train()  # pretrained encoders come in evaluation mode, and Lightning does not change modes
        self.settings = settings
        self.bf16 = bf16
        self.tested: dict[str, float] = {}
        self._batches: list[Tensor] = []  # losses of the levels and number of pairs of each batch

    @property
    def towers(self) -> tuple[Tower, Tower]:
        """The towers of reports and of changes."""
        return self.network.reports.tower, self.network.changes.tower

    def encode_reports(self, inputs: Inputs, rows: np.ndarray, tokens: bool = False) -> Encoded:
        """Vectors of some reports, see ``encode``."""
        return encode(self.towers[0], inputs, rows, self.bf16, tokens, "reports")

    def encode_changes(self, inputs: Inputs, rows: np.ndarray, tokens: bool = False) -> Encoded:
        """Vectors of some changes, see ``encode``."""
        return encode(self.towers[1], inputs, rows, self.bf16, tokens, "changes")

    def pooled(self, encoded: Encoded) -> np.ndarray:
        """The vectors to compare by their cosine: projected, unless no loss trains the projectors."""
        return encoded.projected if self.settings.projects else encoded.features

    def setup(self, stage: str) -> None:
        """Lets the towers take the statistics of batch normalization over all processes.

        Raises:
            ValueError: If texts are compared by their tokens, of which processes have different numbers.
        """
        if self.trainer.world_size > 1:
            if self.settings.by_tokens:
                raise ValueError("task.model.settings.similarity=max_sim trains in one process: set trainer.devices=1")
            for tower in self.towers:
                norms = [module for module in tower.modules() if isinstance(module, GatheredBatchNorm)]
                for norm in norms:
                    norm.exchange = self._exchange

    def on_train_epoch_start(self) -> None:
        """Clears what was collected."""
        self._batches = []

    def training_step(self, batch: PairBatch, batch_idx: int) -> Tensor:
        """The weighted sum of the losses."""
        self.fix_dropout(batch_idx)
        losses = self.network.losses(batch, self._gather, fill_banks=True)
        loss = self._total(losses)
        self.show_loss(loss, batch)
        self._batches.append(_numbers(losses, batch))
        return loss

    def optimizer_step(self, *arguments: Any, **options: Any) -> None:
        """Takes the step, after which the momentum twins follow."""
        super().optimizer_step(*arguments, **options)
        self.network.follow()

    def on_train_epoch_end(self) -> None:
        """Logs the losses of the epoch, as each batch had them before its step."""
        self._log_part("train")

    def on_validation_epoch_start(self) -> None:
        """Clears what was collected; the losses of training are kept until its epoch ends."""
        self._trained = self._batches
        self._batches = []

    def validation_step(self, batch: PairBatch, batch_idx: int) -> None:
        """Takes the losses of a batch."""
        self._batches.append(_numbers(self.network.losses(batch, self._gather, fill_banks=False), batch))

    def on_validation_epoch_end(self) -> None:
        """Logs the losses and the mean reciprocal rank."""
        self._log_part("val")
        self.log("val/mrr", self._mean_reciprocal_rank(), prog_bar=True)
        self._batches = self._trained

    def on_test_epoch_end(self) -> None:
        """Keeps loss and mean reciprocal rank of the validation reports by the weights that are tested."""
        self.tested = {"loss": self._log_part("best"), "mrr": self._mean_reciprocal_rank()}

    def trained_weights(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """The weights of the encoders, and those of the projectors, as far as they are trained."""
        encoders = [weight for tower in self.towers for weight in tower.backbone.parameters()]
        projectors = [weight for tower in self.towers for weight in tower.projector.parameters()]
        return encoders if self.settings.train_encoders else [], projectors if self.settings.projects else []

    def _total(self, losses: dict[str, Tensor]) -> Tensor:
        """The weighted sum of the losses of the levels."""
        weights = self.settings.weights
        return torch.stack([weights[level] * loss for level, loss in losses.items()]).sum()

    def _gather(self, rows: Tensor) -> Tensor:
        return gather(self, rows)

    def _exchange(self, rows: Tensor) -> GatheredRows:
        """The rows of all processes, each of which has equally many."""
        return GatheredRows(gather(self, rows), self.global_rank * len(rows))

    def _mean_reciprocal_rank(self) -> float:
        """That of the validation reports; each process encodes a share."""
        data = self.trainer.datamodule  # type: ignore[attr-defined]
        assert isinstance(data, LocalizationDataModule)
        ranked = data.ranked
        reports = self._shared(data.reports, ranked.reports, "reports")
        changes = self._shared(data.changes, ranked.changes, "changes")
        return mean_reciprocal_rank(ranked, reports, changes)

    def _shared(self, inputs: Inputs, rows: np.ndarray, side: str) -> np.ndarray:
        """Pooled vectors of some inputs, of which each process encodes a share."""
        tower = self.towers[0] if side == "reports" else self.towers[1]
        own = slice(self.trainer.global_rank, None, self.trainer.world_size)
        pooled = self.pooled(encode(tower, inputs, rows[own], self.bf16, False, side))
        whole = np.zeros((len(rows), pooled.shape[1]), dtype=np.float32)
        whole[own] = pooled
        summed: np.ndarray = self.summed(torch.from_numpy(whole).to(self.device)).cpu().numpy()
        return summed

    def _log_part(self, part: str) -> float:
        """Logs the mean loss of each level over all pairs, and logs and returns the total."""
        sums = self.summed(torch.stack(self._batches).sum(dim=0))
        weights = self.settings.weights
        means = dict(zip(weights, (sums[:-1] / sums[-1]).tolist(), strict=True))
        total = float(sum(weights[level] * mean for level, mean in means.items()))
        for level, mean in means.items():
            self.log(f"{part}/{level}_loss", mean)
        self.log(f"{part}/loss", total)
        return total


def _numbers(losses: dict[str, Tensor], batch: PairBatch) -> Tensor:
    """``(levels + 1,)`` the summed losses of a batch's pairs and their number, without gradients."""
    count = torch.tensor(len(batch.n_id) / 2, dtype=torch.float64, device=batch.n_id.device)
    return torch.stack([*(count * loss.detach().double() for loss in losses.values()), count])
