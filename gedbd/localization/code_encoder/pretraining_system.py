"""Training of an encoder of code: losses, accuracies on validation and test."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu, linear
from transformers import PreTrainedModel

from gedbd.experiments.distributed import summed
from gedbd.experiments.optimizers import MakeOptimizer, MakeScheduler, optimization
from gedbd.experiments.training_task import fix_dropout, show_loss
from gedbd.localization.code_encoder.code_encoder import CodeEncoder
from gedbd.localization.code_encoder.code_inputs import embeddings_of
from gedbd.localization.code_encoder.masking import MLM
from gedbd.localization.code_encoder.pretraining_data import PretrainingBatch

REDUCTIONS = ("mean", "sum")


class ObjectiveSums(NamedTuple):
    """Predictions of one objective: their summed loss, the number of correct ones, and their number; ``()`` each."""

    loss: Tensor
    num_right: Tensor
    number: Tensor


def edge_logits(hidden: Tensor, row: Tensor, ends: Tensor) -> Tensor:
    """Logits of edges, ``(P,)``: h_i . h_j / sqrt(H), of which the sigmoid is the probability.

    ``hidden (B, L, H)`` are the last hidden states, ``row (P,)`` the method of each pair, ``ends (2, P)`` the positions
    of its tokens. The talk takes the sigmoid of the dot product alone. Its layers end in a normalization that gives
    vectors of length sqrt(H), so that the product is up to H: without the division the loss starts in the hundreds.
    """
    first = hidden[row, ends[0]].float()
    second = hidden[row, ends[1]].float()
    logits: Tensor = (first * second).sum(dim=1) / hidden.shape[2] ** 0.5
    return logits


def edge_sums(logits: Tensor, label: Tensor) -> ObjectiveSums:
    """Binary cross-entropy of edges ``(P,)``; a prediction is correct if the probability of the truth is above 0.5."""
    loss = binary_cross_entropy_with_logits(logits, label.float(), reduction="sum")
    return ObjectiveSums(loss, ((logits > 0) == label.bool()).sum(), torch.tensor(len(label), device=logits.device))


def token_sums(logits: Tensor, target: Tensor) -> ObjectiveSums:
    """Cross-entropy of tokens: logits ``(M, V)``, true ids ``(M,)``; a prediction is the most probable token."""
    loss = cross_entropy(logits.float(), target, reduction="sum")
    correct = (logits.argmax(dim=1) == target).sum()
    return ObjectiveSums(loss, correct, torch.tensor(len(target), device=logits.device))


class TokenHead(nn.Module):
    """The head of a masked language model, as BERT's: a layer, GELU, a normalization, and the embeddings as outputs."""

    def __init__(self, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.transform = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        """Logits ``(M, V)`` of hidden states ``(M, H)``; ``embeddings (V, H)`` are those of the encoder."""
        return linear(self.norm(gelu(self.transform(hidden))), embeddings, self.bias)


class PretrainingSystem(pl.LightningModule):
    """Trains an encoder of code by the weighted sum of the losses of its objectives.

    The loss of an objective is the mean or the sum over all predictions of an optimizer step, of all processes and of
    all batches whose gradients are accumulated. The talk sums over edges, so that an objective with more edges counts
    more. Logged losses of one objective are means; ``loss`` is what is minimised.
    """

    def __init__(
        self,
        backbone: PreTrainedModel,
        weights: Mapping[str, float],
        make_optimizer: MakeOptimizer,
        make_scheduler: MakeScheduler,
        seed: int,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        self.make_optimizer = make_optimizer
        self.make_scheduler = make_scheduler
        self.seed = seed
        self.reduction = reduction
        self.encoder = CodeEncoder(backbone)
        self.encoder.train()  # pretrained encoders come in evaluation mode, and Lightning does not change modes
        embeddings = embeddings_of(backbone)
        # Without the objective its weights would have no gradient.
        self.token_head = TokenHead(embeddings.shape[1], embeddings.shape[0]) if MLM in weights else None
        self.weights = dict(weights)
        # loss, accuracy and number of predictions of each objective in the last test
        self.tested: dict[str, dict[str, float]] = {}
        self._trained: list[Tensor] = []  # of each batch, see _numbers
        self._evaluated: list[Tensor] = []

    def sums(self, batch: PretrainingBatch) -> dict[str, ObjectiveSums]:
        """The predictions of each objective on a batch."""
        hidden = self.encoder(batch.code)
        named = [(name, batch.pairs[name]) for name in self.weights if name != MLM]
        sums = {name: edge_sums(edge_logits(hidden, pairs[0], pairs[1:3]), pairs[3]) for name, pairs in named}
        if self.token_head is None:
            return sums
        row, position, target = batch.tokens
        logits = self.token_head(hidden[row, position], embeddings_of(self.encoder.backbone))
        return {MLM: token_sums(logits, target)} | sums

    def on_train_epoch_start(self) -> None:
        """Clears the predictions of the last epoch."""
        self._trained = []

    def training_step(self, batch: PretrainingBatch, batch_idx: int) -> Tensor:
        """The weighted sum of the losses."""
        fix_dropout(self, self.seed, batch_idx)
        sums = self.sums(batch)
        counts = summed(self, torch.stack([batch.totals[name] for name in sums]))
        losses = torch.stack([self.weights[name] * objective.loss for name, objective in sums.items()])
        # Gradients are averaged over processes and accumulated batches; a mean is over the predictions of all of them.
        num_averaged = self.trainer.world_size * self.trainer.accumulate_grad_batches
        loss = num_averaged * (losses.sum() if self.reduction == "sum" else (losses / counts.clip(1)).sum())
        show_loss(self, loss, batch)
        self._trained.append(_numbers(sums))
        return loss

    def on_train_epoch_end(self) -> None:
        """Logs losses and accuracies of the epoch, with each batch as predicted before its update."""
        self._log_split("train", self._trained)

    def on_validation_epoch_start(self) -> None:
        """Clears the predictions of the last evaluation."""
        self._evaluated = []

    on_test_epoch_start = on_validation_epoch_start

    def validation_step(self, batch: PretrainingBatch, batch_idx: int) -> None:
        """Predicts a batch."""
        self._evaluated.append(_numbers(self.sums(batch)))

    test_step = validation_step

    def on_validation_epoch_end(self) -> None:
        """Logs losses and accuracies of validation."""
        self._log_split("val", self._evaluated)

    def on_test_epoch_end(self) -> None:
        """Logs and keeps losses and accuracies of the test."""
        self.tested = self._log_split("test", self._evaluated)

    def configure_optimizers(self) -> Any:
        """The optimizer of the encoder and the head, and its scheduler."""
        head = [] if self.token_head is None else list(self.token_head.parameters())
        return optimization(self, self.make_optimizer, self.make_scheduler, list(self.encoder.parameters()), head)

    def _log_split(self, split: str, batches: list[Tensor]) -> dict[str, dict[str, float]]:
        """Logs and returns loss, accuracy and count of each objective, the total loss and the mean accuracy."""
        empty = torch.zeros((len(self.weights), 3), dtype=torch.float64, device=self.device)
        totals = summed(self, torch.stack([empty, *batches]).sum(dim=0)).cpu().numpy()
        measures = {}
        for name, (loss, correct, count) in zip(self.weights, totals, strict=True):
            measures[name] = {"loss": loss / max(count, 1), "accuracy": correct / max(count, 1), "count": count}
            self.log(f"{split}/{name}_loss", measures[name]["loss"])
            self.log(f"{split}/{name}_accuracy", measures[name]["accuracy"])
        factors = {name: measures[name]["count"] if self.reduction == "sum" else 1.0 for name in measures}
        self.log(f"{split}/loss", sum(self.weights[name] * factors[name] * measures[name]["loss"] for name in measures))
        mean = sum(numbers["accuracy"] for numbers in measures.values()) / len(measures)
        self.log(f"{split}/mean_accuracy", mean, prog_bar=split == "val")
        return measures


def _numbers(sums: Mapping[str, ObjectiveSums]) -> Tensor:
    """``(O, 3)`` summed loss, correct predictions and predictions of each of O objectives, without gradients."""
    return torch.stack([torch.stack([value.detach().double() for value in objective]) for objective in sums.values()])
