"""The training task of duplicate detection: text branch, graph branch, fusion, loss, and what is logged of them."""

from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR

from gedbd.encoders.encoder import TextEncoder
from gedbd.evaluation.pairwise import pairwise_metrics
from gedbd.evaluation.threshold import best_threshold
from gedbd.experiments.distributed import gather, join
from gedbd.experiments.schedule import rate_factor
from gedbd.experiments.sharding import shard
from gedbd.retrieval.ranking import Ranking, protocol_metrics, rank_all
from gedbd.retrieval.vectors import Embedded, Loss, distinct, score_pairs, spread
from gedbd.tasks.duplicates.data import Batch, DuplicateDataModule
from gedbd.tasks.duplicates.gcn import GraphBranch

IN_PROGRESS_BAR = ("val/f1", "val/rr@10")  # and the loss of the last batch


class DuplicateSystem(pl.LightningModule):
    """Trains the encoder, with the graph beside it, on pairs; chooses the threshold on validation; scores pairs.

    In evaluation every report that the pairs name is encoded first; all of them then take their places in the node
    memory at once, so scores depend neither on the batch size nor on the number of devices, and nothing is written.

    Args:
        encoder: The text branch.
        branch: The graph branch, or None to train on text alone.
        fusion: Makes one unit vector of both.
        loss: See ``gedbd.losses``.
        lr: Learning rate of the pretrained encoder.
        head_lr: Learning rate of all that starts untrained: projection, graph branch, fusion.
        weight_decay: AdamW's.
        warmup_steps: Steps over which the rates rise from 0.
        fused: Whether AdamW updates all weights in one kernel.
        seed: With epoch and step, fixes dropout, so that a resumed run repeats an uninterrupted one.
        schedule: Of the rates after the warm-up: ``constant``, or ``cosine`` down to 0 at the last epoch.
    """

    threshold: Tensor

    def __init__(
        self,
        encoder: TextEncoder,
        branch: GraphBranch | None,
        fusion: nn.Module,
        loss: Loss,
        lr: float,
        head_lr: float,
        weight_decay: float,
        warmup_steps: int,
        fused: bool,
        seed: int,
        schedule: str = "constant",
    ) -> None:
        super().__init__()
        self.encoder, self.branch, self.fusion, self.loss = encoder, branch, fusion, loss
        self.lr, self.head_lr, self.weight_decay = lr, head_lr, weight_decay
        self.warmup_steps, self.fused, self.seed = warmup_steps, fused, seed
        self.schedule = schedule
        self.register_buffer("threshold", torch.tensor(0.5))
        self.scores: dict[str, pd.DataFrame] = {}
        self.rankings: dict[str, dict[str, dict[str, Ranking]]] = {}
        self.embedded: tuple[np.ndarray, np.ndarray] | None = None
        self._seen: list[tuple[Tensor, ...]] = []
        self._read: list[tuple[Tensor, ...]] = []
        self._losses: list[tuple[Tensor, ...]] = []  # of each batch: its loss, its number of pairs
        self.train()  # pretrained encoders come in evaluation mode, and Lightning leaves modes as they are

    def configure_model(self) -> None:
        """Spreads the weights over all devices where the strategy shards them (``trainer=fsdp``)."""
        if self.device_mesh is not None:
            shard(self.encoder, self.branch, self.fusion, self.device_mesh["data_parallel"])

    def forward(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """Unit vectors of distinct reports, ``(U,), (U, D) -> (U, D)``; training keeps ``z_text`` in node memory."""
        if self.branch is None:
            fused: Tensor = self.fusion(z_text)
            return fused
        every_id, every_z = distinct(gather(self, n_id), gather(self, z_text))
        z_graph = self.branch(every_id, every_z)[torch.searchsorted(every_id, n_id)]
        if self.training:
            self.branch.memory.write(every_id, every_z)
        fused = self.fusion(z_text, z_graph)
        return fused

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of the batch's pairs, each report encoded once. Dropout is fixed by the place of the step in the run."""
        torch.manual_seed(hash((self.seed, self.current_epoch, batch_idx, self.global_rank)) % 2**63)
        z_text = self.encoder(batch.input_ids, batch.attention_mask)
        z = self(batch.n_id, z_text)
        loss = self.loss(z, batch.group, batch.edge_label_index, batch.edge_label)
        self.log("loss", loss, on_step=True, on_epoch=False, prog_bar=True, logger=False)
        self._losses.append((loss.detach()[None], torch.full_like(batch.edge_label[:1], len(batch.edge_label))))
        cosine = (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(-1)
        self._seen.append((cosine.detach(), batch.edge_label))
        if self._data.batches.hard:
            self._read.append((batch.n_id, nn.functional.normalize(z_text.detach(), dim=-1)))
        return loss

    def on_train_epoch_start(self) -> None:
        """Forgets the pairs of the last epoch."""
        self._seen, self._read, self._losses = [], [], []

    def on_train_epoch_end(self) -> None:
        """Logs the epoch's mean loss and its metrics on training pairs, at the threshold that validation just chose.

        The mean over processes is taken here, where all of them are. With ``sync_dist=True`` Lightning would take it
        when the value is first read, and the progress bar, which only the first process has, would wait forever.

        Hands all vectors to the draw of hard negatives; of a report read twice, validation's is the newer one.
        """
        if self._data.batches.hard:
            n_id, z = distinct(*join(self, self._read[::-1]))
            self._data.remember(n_id.cpu().numpy(), z.cpu().numpy())
        losses, pairs = join(self, self._losses)
        self.log("train/loss", (losses * pairs).sum() / pairs.sum())
        scores, labels = (values.cpu().numpy() for values in join(self, self._seen))
        self._log_metrics("train", pairwise_metrics(scores, labels, float(self.threshold)))

    def on_validation_epoch_start(self) -> None:
        """Sets the training pairs aside while reports are collected."""
        self._train_seen, self._seen = self._seen, []

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Encodes reports; their pairs are scored at the end."""
        self._seen.append((batch.n_id, self.encoder(batch.input_ids, batch.attention_mask)))

    def on_validation_epoch_end(self) -> None:
        """Scores the validation pairs and, while fitting, chooses the threshold on them."""
        reports = self._embed()
        scored, losses = self._score(reports, ("val",))
        labels = scored["val"]["label"].to_numpy()
        if self.trainer.state.fn == "fit":
            self.threshold.fill_(best_threshold(scored["val"]["score"].to_numpy(), labels))
        self.log("val/loss", losses["val"])
        self.log("val/threshold", self.threshold)
        self._log_metrics("val", pairwise_metrics(scored["val"]["score"].to_numpy(), labels, float(self.threshold)))
        self._log_metrics("val", self._rank(reports, "val"))
        self._seen = self._train_seen
        if self._data.batches.hard and self.trainer.state.fn == "fit" and self.trainer.is_global_zero:
            self._read.append((reports.n_id, reports.z_text))

    def on_test_epoch_start(self) -> None:
        """Forgets earlier reports."""
        self._seen = []

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Encodes reports; their pairs are scored at the end."""
        self.validation_step(batch, batch_idx)

    def on_test_epoch_end(self) -> None:
        """Scores the parts asked for, ranks the last one and logs its metrics.

        Keeps ``scores`` (a table of pairs a part), ``rankings`` (by part, protocol and score) and ``embedded`` (rows,
        vectors).
        """
        reports = self._embed()
        self.scores, losses = self._score(reports, self._data.evaluated)
        part = self._data.evaluated[-1]
        scores, labels = (self.scores[part][name].to_numpy() for name in ("score", "label"))
        self.log(f"{part}/loss", losses[part])
        self._log_metrics(part, pairwise_metrics(scores, labels, float(self.threshold)))
        self.rankings = {}
        self._log_metrics(part, self._rank(reports, part))
        self.embedded = reports.n_id.cpu().numpy(), reports.z.cpu().numpy()
        self._seen = []

    def configure_optimizers(self) -> Any:
        """AdamW with two learning rates, which follow the schedule step by step."""
        pretrained = list(self.encoder.backbone.parameters())
        known = {id(parameter) for parameter in pretrained}
        heads = [parameter for parameter in self.parameters() if id(parameter) not in known]
        groups = [{"params": pretrained, "lr": self.lr}, {"params": heads, "lr": self.head_lr}]
        optimizer = AdamW(groups, weight_decay=self.weight_decay, fused=self.fused)
        optimizer._step_supports_amp_scaling = False  # gradients are clipped, so they must be unscaled before the step
        cosine_steps = int(self.trainer.estimated_stepping_batches) if self.schedule == "cosine" else None
        scheduler = LambdaLR(optimizer, lambda step: rate_factor(step, self.warmup_steps, cosine_steps))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    @property
    def _data(self) -> DuplicateDataModule:
        data: DuplicateDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        return data

    def _embed(self) -> Embedded:
        """The vectors of all reports that were encoded, each once, in the order of the corpus."""
        n_id, z_text = distinct(*join(self, self._seen))
        z = self.fusion(z_text, self.branch(n_id, z_text)) if self.branch is not None else self.fusion(z_text)
        return Embedded(n_id, z, nn.functional.normalize(z_text, dim=-1))

    def _score(self, reports: Embedded, parts: tuple[str, ...]) -> tuple[dict[str, pd.DataFrame], dict[str, Tensor]]:
        """Scored pairs of some parts, and their losses."""
        group = self._data.corpus.group
        scored = {part: score_pairs(reports, self._data.pairs_of(part), group, self.loss) for part in parts}
        return {part: table for part, (table, _) in scored.items()}, {part: loss for part, (_, loss) in scored.items()}

    def _rank(self, reports: Embedded, part: str) -> dict[str, float]:
        """Ranks a part's queries, where they are to be ranked; while fitting, by the fused score alone."""
        queries, rows = self._data.queries.get(part, {}), reports.n_id.cpu().numpy()
        both = self.branch is not None and self.trainer.state.fn == "test"
        scored = {"score": reports.z} | ({"score_text": reports.z_text} if both else {}) if queries else {}
        scorers = {name: spread(rows, z.cpu().numpy(), len(self._data.corpus)) for name, z in scored.items()}
        self.rankings[part] = rank_all(queries, scorers)
        return protocol_metrics(self.rankings[part], "score")

    def _log_metrics(self, prefix: str, values: dict[str, float]) -> None:
        for name, value in values.items():
            key = f"{prefix}/{name}"
            self.log(key, value, prog_bar=key in IN_PROGRESS_BAR)
