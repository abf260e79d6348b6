"""Training of the projection of questions: loss, validation, threshold and test."""

from typing import Any

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gedbd.evaluation.pairwise import best_threshold, pairwise_metrics, score_grid
from gedbd.experiments.distributed import join
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler
from gedbd.losses.loss import Loss
from gedbd.retrieval.task_ranking import Ranking, protocol_metrics
from gedbd.retrieval.vectors import Embedded, distinct
from gedbd.tasks.questions.data import QuestionBatch, QuestionsDataModule

IN_PROGRESS_BAR = ("val/f1", "val/rr@10")  # and the loss of the last batch


class QuestionsSystem(pl.LightningModule):
    """Trains a projection of frozen vectors; chooses the threshold on validation; scores pairs and ranks in a test.

    The loss compares what the projection returns; two questions are scored by the cosine of it.

    Args:
        head: The projection, ``(U, D) -> (U, dim)``.
        loss: The loss.
        make_optimizer: See ``gedbd.experiments.optimizers``.
        make_scheduler: See ``gedbd.experiments.optimizers``.

    Attributes:
        scores: Scored pairs of each part of the last test.
        rankings: Rankings of the last part of the last test, by protocol and score.
        embedded: Rows and unit vectors of all questions of the last test.
    """

    threshold: Tensor

    def __init__(
        self, head: nn.Module, loss: Loss, make_optimizer: MakeOptimizer, make_scheduler: MakeScheduler
    ) -> None:
        super().__init__()
        self.head = head
        self.loss = loss
        self.make_optimizer = make_optimizer
        self.make_scheduler = make_scheduler
        self.register_buffer("threshold", torch.tensor(0.5))
        self.scores: dict[str, pd.DataFrame] = {}
        self.rankings: dict[str, dict[str, Ranking]] = {}
        self.embedded: tuple[np.ndarray, np.ndarray] | None = None
        self._losses: list[tuple[Tensor, ...]] = []  # of each batch: its loss, its number of questions
        self._questions: list[tuple[Tensor, ...]] = []  # of each evaluation batch: rows and projected vectors

    def forward(self, features: Tensor) -> Tensor:
        """Projects questions, ``(U, D) -> (U, dim)``."""
        projected: Tensor = self.head(features)
        return projected

    def project(self, features: Tensor) -> np.ndarray:
        """Unit vectors of questions as the weights stand, ``(N, D) -> (N, dim)``."""
        with torch.no_grad():
            projected: np.ndarray = normalize(self(features.to(self.device)), dim=1).cpu().numpy()
        return projected

    def on_train_epoch_start(self) -> None:
        """Clears what the last epoch collected."""
        self._losses = []

    def training_step(self, batch: QuestionBatch, batch_idx: int) -> Tensor:
        """Loss of a batch."""
        loss = self.loss(self(batch.features), batch.labels)
        self.log("loss", loss, on_step=True, on_epoch=False, prog_bar=True, logger=False, batch_size=len(batch.n_id))
        self._losses.append((loss.detach()[None], torch.full_like(batch.n_id[:1], len(batch.n_id))))
        return loss

    def on_train_epoch_end(self) -> None:
        """Logs the epoch's mean loss, and metrics on training pairs at the threshold that validation just chose."""
        losses, counts = join(self, self._losses)
        self.log("train/loss", (losses * counts).sum() / counts.sum())
        rows = torch.from_numpy(self._data.needed_by_pairs("train"))
        z = torch.from_numpy(self.project(self._data.features[rows]))
        scored = self._data.evaluator.score(Embedded(rows, z, z), "train", self.loss)
        self._log_metrics("train", scored.metrics(float(self.threshold)))

    def on_validation_epoch_start(self) -> None:
        """Clears the questions of earlier evaluations."""
        self._questions = []

    def validation_step(self, batch: QuestionBatch, batch_idx: int) -> None:
        """Projects questions; their pairs are scored at the end."""
        self._questions.append((batch.n_id, self(batch.features)))

    def on_validation_epoch_end(self) -> None:
        """Scores the validation pairs, ranks the queries and, while fitting, chooses the threshold."""
        n_id, projected = distinct(*join(self, self._questions))
        scores, labels = self._score("val", n_id, projected)
        if self.trainer.state.fn == "fit":
            self.threshold.fill_(best_threshold(scores, labels, score_grid(scores)))
        self.log("val/threshold", self.threshold)
        self._log_metrics("val", pairwise_metrics(scores, labels, float(self.threshold)))
        rankings = self._data.evaluator.rank(_unit(n_id, projected), "val")
        self._log_metrics("val", protocol_metrics(rankings, "score"))

    def on_test_epoch_start(self) -> None:
        """Clears the questions of earlier evaluations."""
        self._questions = []
        self.scores = {}

    def test_step(self, batch: QuestionBatch, batch_idx: int) -> None:
        """Projects questions; their pairs are scored at the end."""
        self.validation_step(batch, batch_idx)

    def on_test_epoch_end(self) -> None:
        """Scores all evaluated parts, ranks the last one and logs its metrics."""
        n_id, projected = distinct(*join(self, self._questions))
        for part in self._data.evaluated:
            scores, labels = self._score(part, n_id, projected)
        self._log_metrics(part, pairwise_metrics(scores, labels, float(self.threshold)))
        reports = _unit(n_id, projected)
        self.rankings = self._data.evaluator.rank(reports, part)
        self.embedded = reports.n_id.cpu().numpy(), reports.z.cpu().numpy()
        self._log_metrics(part, protocol_metrics(self.rankings, "score"))

    def configure_optimizers(self) -> Any:
        """The optimizer, and its scheduler, which is advanced after every step."""
        optimizer = self.make_optimizer([], list(self.parameters()))
        scheduler = self.make_scheduler(optimizer, lambda: int(self.trainer.estimated_stepping_batches))
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    @property
    def _data(self) -> QuestionsDataModule:
        data: QuestionsDataModule = self.trainer.datamodule  # type: ignore[attr-defined]
        return data

    def _score(self, part: str, n_id: Tensor, projected: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Scores the pairs of a part, keeps their table and logs their loss; returns scores and labels."""
        evaluator = self._data.evaluator
        scored = evaluator.score(_unit(n_id, projected), part, self.loss)
        # The loss is that of the projected vectors, which need not have length 1.
        self.log(f"{part}/loss", evaluator.score(Embedded(n_id, projected, projected), part, self.loss).loss)
        self.scores[part] = scored.table
        return scored.table["score"].to_numpy(), scored.table["label"].to_numpy()

    def _log_metrics(self, prefix: str, values: dict[str, float]) -> None:
        for name, value in values.items():
            key = f"{prefix}/{name}"
            self.log(key, value, prog_bar=key in IN_PROGRESS_BAR)


def _unit(n_id: Tensor, projected: Tensor) -> Embedded:
    """Projected vectors with length 1."""
    z = normalize(projected, dim=1)
    return Embedded(n_id, z, z)
