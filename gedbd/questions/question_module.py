"""Projections of frozen vectors, the published one and one that starts as the frozen encoder, and their training."""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gedbd.evaluation.pairwise import score_grid
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler, optimization
from gedbd.experiments.retrieval_module import Embedded, RetrievalModule, ScoredPairs
from gedbd.experiments.training_task import show_loss
from gedbd.losses import Loss, loss_of_pairs
from gedbd.questions.question_data import QuestionBatch, QuestionsDataModule

HEADS = ("sigmoid", "residual")


class SigmoidHead(nn.Module):
    """``sigmoid(W E + b)``, as published: Hazra et al., 2023 (arXiv 2309.05035).

    Args:
        num_inputs: Size of the frozen vectors.
        dim: Size of the projected vectors.
    """

    def __init__(self, num_inputs: int, dim: int) -> None:
        super().__init__()
        self.linear = nn.Linear(num_inputs, dim)

    def forward(self, features: Tensor) -> Tensor:
        """``(U, D) -> (U, dim)``, between 0 and 1."""
        return torch.sigmoid(self.linear(features))


class ResidualHead(nn.Module):
    """``t + W E`` of length 1, t the text part of E. W starts at 0: before training, the vectors are the frozen ones.

    Args:
        num_inputs: Size of the frozen vectors.
        num_text: Size of their text part, which comes first.
    """

    def __init__(self, num_inputs: int, num_text: int) -> None:
        super().__init__()
        self.num_text = num_text
        self.linear = nn.Linear(num_inputs, num_text, bias=False)
        nn.init.zeros_(self.linear.weight)

    def forward(self, features: Tensor) -> Tensor:
        """``(U, D) -> (U, num_text)`` unit rows."""
        return normalize(features[:, : self.num_text] + self.linear(features), dim=1)


def check_head(name: str) -> None:
    """Raises ValueError if a projection is unknown."""
    if name not in HEADS:
        raise ValueError(f"task.head={name} is unknown: choose {', '.join(HEADS)}")


def make_head(name: str, num_inputs: int, num_text: int, dim: int) -> nn.Module:
    """Creates the projection of a name.

    Args:
        name: One of ``HEADS``.
        num_inputs: Size of the frozen vectors.
        num_text: Size of their text part.
        dim: Size of the projected vectors of ``sigmoid``; those of ``residual`` are as large as the text part.
    """
    return SigmoidHead(num_inputs, dim) if name == "sigmoid" else ResidualHead(num_inputs, num_text)


def method_id(head: str, network: bool) -> str:
    """The id of a model in results: ``te``, ``te_network``, ``te_modern``, ``te_network_modern``."""
    return "te" + ("_network" if network else "") + ("_modern" if head == "residual" else "")


class QuestionsModule(RetrievalModule[QuestionsDataModule]):
    """Trains a projection of frozen vectors.

    The loss compares projected vectors; the score of two questions is the cosine of theirs.

    Args:
        head: The projection, ``(U, D) -> (U, dim)``.
        loss: The loss.
        make_optimizer: Creates the optimizer.
        make_scheduler: Creates the learning rate scheduler.
        seed: Seed of the t-SNE projection; training draws no random numbers here.
    """

    def __init__(
        self, head: nn.Module, loss: Loss, make_optimizer: MakeOptimizer, make_scheduler: MakeScheduler, seed: int
    ) -> None:
        super().__init__(partial(loss_of_pairs, loss), seed)
        self.make_optimizer = make_optimizer
        self.make_scheduler = make_scheduler
        self.loss = loss
        self.head = head

    def forward(self, features: Tensor) -> Tensor:
        """Projects questions, ``(U, D) -> (U, dim)``."""
        projected: Tensor = self.head(features)
        return projected

    def project(self, features: Tensor) -> np.ndarray:
        """Unit vectors of questions by the current weights, ``(N, D) -> (N, dim)``."""
        with torch.no_grad():
            projected: np.ndarray = normalize(self(features.to(self.device)), dim=1).cpu().numpy()
        return projected

    def training_step(self, batch: QuestionBatch, batch_idx: int) -> Tensor:
        """Loss of a batch."""
        loss = self.loss(self(batch.features), batch.labels)
        show_loss(self, loss, batch)
        self.train_loss.update(loss, len(batch.n_id))
        return loss

    def on_train_epoch_end(self) -> None:
        """Logs the epoch's mean loss, and metrics on training pairs at the threshold that validation just chose."""
        self.log("train/loss", self.train_loss.compute())
        rows = torch.from_numpy(self.data.paired_rows("train"))
        z = torch.from_numpy(self.project(self.data.features[rows]))
        scored = super().score(Embedded(rows, z, z), "train")
        self.log_metrics("train", scored.metrics(float(self.threshold)))

    def validation_step(self, batch: QuestionBatch, batch_idx: int) -> None:
        """Projects questions; their pairs are scored at the end."""
        self.encoded.update(batch.n_id, self(batch.features))

    def embed(self) -> Embedded:
        """The vectors of all encoded questions; ``z_text`` are the projected ones before normalisation."""
        n_id, projected = self.encoded.compute()
        return Embedded(n_id, normalize(projected, dim=1), projected)

    def score(self, reports: Embedded, part: str) -> ScoredPairs:
        """Scores and labels of pairs; the loss is that of the projected vectors."""
        projected = super().score(reports._replace(z=reports.z_text), part)
        return super().score(reports, part)._replace(loss=projected.loss)

    def threshold_grid(self, scored: ScoredPairs) -> np.ndarray:
        """Thresholds to try: the scores themselves, as the cosines of a sigmoid's values are all near 1."""
        return score_grid(scored.table["score"].to_numpy())

    def configure_optimizers(self) -> Any:
        """The optimizer of the projection, and its scheduler."""
        return optimization(self, self.make_optimizer, self.make_scheduler, [], list(self.parameters()))
