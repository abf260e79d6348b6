"""The model of duplicate detection and its training: text branch, graph branch, fusion and loss."""

from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor, nn

from gedbd.encoders.text_encoder import TextEncoder
from gedbd.evaluation.pairwise import pairwise_metrics
from gedbd.experiments.distributed import gather, join, shard
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler
from gedbd.losses.loss import Loss
from gedbd.retrieval.task_ranking import Ranking, protocol_metrics
from gedbd.retrieval.vectors import Embedded, distinct
from gedbd.tasks.duplicates.data import Batch, DuplicateDataModule
from gedbd.tasks.duplicates.gcn import GraphBranch

IN_PROGRESS_BAR = ("val/f1", "val/rr@10")  # and the loss of the last batch


class DuplicateSystem(pl.LightningModule):
    """Trains the encoder, with or without the graph; chooses the threshold on validation; scores pairs in a test.

    In evaluation all reports are encoded first. Their vectors then replace their node features all at once, so scores
    depend neither on the batch size nor on the number of devices, and nothing is written.

    Args:
        encoder: The text branch.
        branch: The graph branch, or None to train on text alone.
        fusion: Combines both into unit vectors.
        loss: The loss.
        make_optimizer: See ``gedbd.experiments.optimizers``.
        make_scheduler: See ``gedbd.experiments.optimizers``.
        seed: With epoch and step, fixes dropout, so that a resumed run repeats an uninterrupted one.

    Attributes:
        scores: Scored pairs of each part of the last test.
        rankings: Rankings of the last part of the last test, by protocol and score.
        embedded: Rows and vectors of all reports of the last test.
    """

    threshold: Tensor

    def __init__(
        self,
        encoder: TextEncoder,
        branch: GraphBranch | None,
        fusion: nn.Module,
        loss: Loss,
        make_optimizer: MakeOptimizer,
        make_scheduler: MakeScheduler,
        seed: int,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.branch = branch
        self.fusion = fusion
        self.loss = loss
        self.make_optimizer = make_optimizer
        self.make_scheduler = make_scheduler
        self.seed = seed
        self.register_buffer("threshold", torch.tensor(0.5))
        self.scores: dict[str, pd.DataFrame] = {}
        self.rankings: dict[str, dict[str, Ranking]] = {}
        self.embedded: tuple[np.ndarray, np.ndarray] | None = None
        self._train_scores: list[tuple[Tensor, ...]] = []  # of each batch: cosines and labels of its pairs
        self._losses: list[tuple[Tensor, ...]] = []  # of each batch: its loss, its number of pairs
        self._text_vectors: list[tuple[Tensor, ...]] = []  # of each batch: rows and unit vectors, for hard negatives
        self._reports: list[tuple[Tensor, ...]] = []  # of each evaluation batch: rows and vectors
        self.train()  # pretrained encoders come in evaluation mode, and Lightning does not change modes

    def configure_model(self) -> None:
        """Distributes the weights over all devices if the strategy shards them (``trainer=fsdp``)."""
        if self.device_mesh is not None:
            shard(self.encoder, self.branch, self.fusion, self.device_mesh["data_parallel"])

    def forward(self, n_id: Tensor, z_text: Tensor) -> Tensor:
        """Unit vectors of distinct reports, ``(U,), (U, D) -> (U, D)``; training stores ``z_text`` as node features."""
        if self.branch is None:
            fused: Tensor = self.fusion(z_text)
            return fused
        # The batches of all processes enter the graph together; each process keeps its own rows of the result.
        all_id, all_z = distinct(gather(self, n_id), gather(self, z_text))
        z_graph = self.branch(all_id, all_z)[torch.searchsorted(all_id, n_id)]
        if self.training:
            self.branch.node_features.write(all_id, all_z)
        fused = self.fusion(z_text, z_graph)
        return fused

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of a batch. Dropout depends on seed, epoch, step and process alone."""
        torch.manual_seed(hash((self.seed, self.current_epoch, batch_idx, self.global_rank)) % 2**63)
        z_text = self.encoder(batch.input_ids, batch.attention_mask)
        z = self(batch.n_id, z_text)
        loss = self.loss(z, batch.labels)
        self.log("loss", loss, on_step=True, on_epoch=False, prog_bar=True, logger=False)
        self._losses.append((loss.detach()[None], torch.full_like(batch.edge_label[:1], len(batch.edge_label))))
        cosine = (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(-1)
        self._train_scores.append((cosine.detach(), batch.edge_label))
        if self._data.batches.hard:
            self._text_vectors.append((batch.n_id, nn.functional.normalize(z_text.detach(), dim=-1)))
        return loss

    def on_train_epoch_start(self) -> None:
        """Clears what the last epoch collected."""
        self._train_scores = []
        self._losses = []
        self._text_vectors = []

    def on_train_epoch_end(self) -> None:
        """Logs the epoch's mean loss and its metrics on training pairs, at the threshold that validation just chose.

        Passes all vectors to the data module, which draws hard negatives by them; of a report encoded twice,
        validation's vector is the newer one.
        """
        if self._data.batches.hard:
            n_id, z = distinct(*join(self, self._text_vectors[::-1]))
            self._data.remember(n_id.cpu().numpy(), z.cpu().numpy())
        # The mean over processes is computed here, where all of them are. With sync_dist=True Lightning would compute
        # it when the value is first read, and the progress bar, which only the first process has, would wait forever.
        losses, pairs = join(self, self._losses)
        self.log("train/loss", (losses * pairs).sum() / pairs.sum())
        scores, labels = (values.cpu().numpy() for values in join(self, self._train_scores))
        self._log_metrics("train", pairwise_metrics(scores, labels, float(self.threshold)))

    def on_validation_epoch_start(self) -> None:
        """Clears the reports of earlier evaluations."""
        self._reports = []

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Encodes reports; their pairs are scored at the end."""
        self._reports.append((batch.n_id, self.encoder(batch.input_ids, batch.attention_mask)))

    def on_validation_epoch_end(self) -> None:
        """Scores the validation pairs and, while fitting, chooses the threshold on them."""
        fitting = self.trainer.state.fn == "fit"
        reports = self._embed()
        evaluator = self._data.evaluator
        scored = evaluator.score(reports, "val", self.loss)
        if fitting:
            self.threshold.fill_(scored.best_threshold())
        self.log("val/loss", scored.loss)
        self.log("val/threshold", self.threshold)
        self._log_metrics("val", scored.metrics(float(self.threshold)))
        self._log_metrics("val", protocol_metrics(evaluator.rank(reports, "val"), "score"))
        if fitting:
            self._log_metrics("val", evaluator.ranker_metrics(reports))
        if self._data.batches.hard and fitting and self.trainer.is_global_zero:
            self._text_vectors.append((reports.n_id, reports.z_text))
        self._reports = []

    def on_test_epoch_start(self) -> None:
        """Clears the reports of earlier evaluations."""
        self._reports = []

    def test_step(self, batch: Batch, batch_idx: int) -> None:
        """Encodes reports; their pairs are scored at the end."""
        self.validation_step(batch, batch_idx)

    def on_test_epoch_end(self) -> None:
        """Scores all evaluated parts, ranks the last one and logs its metrics."""
        reports = self._embed()
        evaluator = self._data.evaluator
        scored = {part: evaluator.score(reports, part, self.loss) for part in self._data.evaluated}
        part = self._data.evaluated[-1]
        self.scores = {name: pairs.table for name, pairs in scored.items()}
        self.rankings = evaluator.rank(reports, part, text_too=self.branch is not None)
        self.embedded = reports.n_id.cpu().numpy(), reports.z.cpu().numpy()
        self.log(f"{part}/loss", scored[part].loss)
        self._log_metrics(part, scored[part].metrics(float(self.threshold)))
        self._log_metrics(part, protocol_metrics(self.rankings, "score"))
        self._reports = []

    def configure_optimizers(self) -> Any:
        """The optimizer, and its scheduler, which is advanced after every step."""
        pretrained = list(self.encoder.backbone.parameters())
        pretrained_ids = {id(parameter) for parameter in pretrained}
        untrained = [parameter for parameter in self.parameters() if id(parameter) not in pretrained_ids]
        optimizer = self.make_optimizer(pretrained, untrained)
        # A fused optimizer unscales float16 gradients itself, which is too late: they are clipped before its step.
        optimizer._step_supports_amp_scaling = False  # type: ignore[attr-defined]
        scheduler = self.make_scheduler(optimizer, lambda: int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    @property
    def _data(self) -> DuplicateDataModule:
        data: DuplicateDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        return data

    def _embed(self) -> Embedded:
        """The vectors of all reports that were encoded, each once, in the order of the corpus."""
        n_id, z_text = distinct(*join(self, self._reports))
        z = self.fusion(z_text, self.branch(n_id, z_text)) if self.branch is not None else self.fusion(z_text)
        return Embedded(n_id, z, nn.functional.normalize(z_text, dim=-1))

    def _log_metrics(self, prefix: str, values: dict[str, float]) -> None:
        for name, value in values.items():
            key = f"{prefix}/{name}"
            self.log(key, value, prog_bar=key in IN_PROGRESS_BAR)
