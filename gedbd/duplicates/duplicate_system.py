"""The model of duplicate detection and its training: text branch, graph branch, fusion and loss."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from gedbd.duplicates.duplicate_data import Batch, DuplicateDataModule
from gedbd.duplicates.graph.gcn import GraphBranch
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.evaluation.pairwise import pairwise_metrics
from gedbd.experiments.distributed import gather, join, shard
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler
from gedbd.experiments.retrieval_system import Embedded, RetrievalSystem, distinct
from gedbd.losses import Loss, loss_of_pairs


class DuplicateSystem(RetrievalSystem):
    """Trains the encoder, with or without the graph; chooses the threshold on validation pairs; scores test pairs.

    In evaluation all reports are encoded first. Their vectors then replace their node features all at once, so scores
    depend neither on the batch size nor on the number of devices, and nothing is written.

    Args:
        encoder: The text branch.
        branch: The graph branch, or None to train on text alone.
        fusion: Combines both into unit vectors.
        loss: The loss.
        make_optimizer: See ``RetrievalSystem``, as for the next two.
        make_scheduler: Makes the scheduler.
        seed: Fixes dropout.
    """

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
        super().__init__(partial(loss_of_pairs, loss), make_optimizer, make_scheduler, seed)
        self.loss = loss
        self.encoder = encoder
        self.branch = branch
        self.fusion = fusion
        self.ranks_text = branch is not None
        self._train_scores: list[tuple[Tensor, ...]] = []  # of each batch: cosines and labels of its pairs
        self._text_vectors: list[tuple[Tensor, ...]] = []  # of each batch: rows and unit vectors, for hard negatives
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
        if self.trainer.world_size == 1:  # the rows are distinct already
            all_id, all_z = n_id, z_text
            z_graph = self.branch(n_id, z_text)
        else:
            # The batches of all processes enter the graph together; each process keeps its own rows of the result.
            all_id, all_z = distinct(gather(self, n_id), gather(self, z_text))
            z_graph = self.branch(all_id, all_z)[torch.searchsorted(all_id, n_id)]
        if self.training:
            self.branch.node_features.write(all_id, all_z)
        fused = self.fusion(z_text, z_graph)
        return fused

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Loss of a batch."""
        self.fix_dropout(batch_idx)
        z_text = self.encoder(batch.input_ids, batch.attention_mask)
        z = self(batch.n_id, z_text)
        loss = self.loss(z, batch.labels)
        self.show_loss(loss, batch)
        self.losses.append((loss.detach()[None], torch.full_like(batch.edge_label[:1], len(batch.edge_label))))
        cosine = (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(-1)
        self._train_scores.append((cosine.detach(), batch.edge_label))
        if self._data.batches.hard:
            self._text_vectors.append((batch.n_id, nn.functional.normalize(z_text.detach(), dim=-1)))
        return loss

    def on_train_epoch_start(self) -> None:
        """Clears the scores and vectors of the last epoch."""
        super().on_train_epoch_start()
        self._train_scores = []
        self._text_vectors = []

    def on_train_epoch_end(self) -> None:
        """Logs the epoch's mean loss and its metrics on training pairs, at the threshold that validation just chose.

        Passes all vectors to the data module, which draws hard negatives by them; for a report encoded twice,
        the vector from validation is the newer one.
        """
        if self._data.batches.hard:
            n_id, z = distinct(*join(self, self._text_vectors[::-1]))
            self._data.remember(n_id.cpu().numpy(), z.cpu().numpy())
        self.log_epoch_loss()
        scores, labels = (values.cpu().numpy() for values in join(self, self._train_scores))
        self.log_metrics("train", pairwise_metrics(scores, labels, float(self.threshold)))

    def validation_step(self, batch: Batch, batch_idx: int) -> None:
        """Encodes reports; their pairs are scored at the end."""
        self.encoded.append((batch.n_id, self.encoder(batch.input_ids, batch.attention_mask)))

    def validate(self, reports: Embedded) -> None:
        """Scores the validation pairs; the next epoch draws hard negatives by the vectors."""
        super().validate(reports)
        if self._data.batches.hard and self.trainer.state.fn == "fit" and self.trainer.is_global_zero:
            self._text_vectors.append((reports.n_id, reports.z_text))

    def trained_weights(self) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
        """The weights of the backbone, and all others."""
        pretrained = list(self.encoder.backbone.parameters())
        pretrained_ids = {id(parameter) for parameter in pretrained}
        return pretrained, [parameter for parameter in self.parameters() if id(parameter) not in pretrained_ids]

    def configure_optimizers(self) -> Any:
        """The optimizer and its scheduler."""
        configured = super().configure_optimizers()
        # A fused optimizer unscales float16 gradients itself, which is too late: they are clipped before its step.
        configured["optimizer"]._step_supports_amp_scaling = False
        return configured

    @property
    def _data(self) -> DuplicateDataModule:
        data: DuplicateDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        return data

    def embed(self) -> Embedded:
        """The fused and the text vectors of all encoded reports."""
        n_id, z_text = distinct(*join(self, self.encoded))
        z = self.fusion(z_text, self.branch(n_id, z_text)) if self.branch is not None else self.fusion(z_text)
        return Embedded(n_id, z, nn.functional.normalize(z_text, dim=-1))
