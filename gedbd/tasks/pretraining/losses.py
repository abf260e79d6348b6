"""The losses of pre-training: sums over a batch, with how many predictions there are and how many are right."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, gelu, linear


class Outcome(NamedTuple):
    """Predictions of one objective: their summed loss, the number of right ones, and their number; ``()`` each."""

    loss: Tensor
    num_right: Tensor
    number: Tensor


def edge_logits(hidden: Tensor, row: Tensor, ends: Tensor) -> Tensor:
    """Logits of edges: h_i . h_j / sqrt(H), of which the sigmoid is the probability.

    The talk takes the sigmoid of the dot product alone. Its layers end in a normalization that gives vectors of
    length sqrt(H), so that the product is up to H: without the division the loss starts in the hundreds.

    Args:
        hidden: ``(B, L, H)`` last hidden states.
        row: ``(P,)`` method of each pair.
        ends: ``(2, P)`` positions of its tokens.
    """
    first = hidden[row, ends[0]].float()
    second = hidden[row, ends[1]].float()
    logits: Tensor = (first * second).sum(dim=1) / hidden.shape[2] ** 0.5
    return logits


def edge_outcome(logits: Tensor, label: Tensor) -> Outcome:
    """Binary cross-entropy of edges ``(P,)``; a prediction is right if the probability of the truth is above 0.5."""
    loss = binary_cross_entropy_with_logits(logits, label.float(), reduction="sum")
    return Outcome(loss, ((logits > 0) == label.bool()).sum(), torch.tensor(len(label), device=logits.device))


def token_outcome(logits: Tensor, target: Tensor) -> Outcome:
    """Cross-entropy of tokens: logits ``(M, V)``, true numbers ``(M,)``; a prediction is the most probable token."""
    loss = cross_entropy(logits.float(), target, reduction="sum")
    right = (logits.argmax(dim=1) == target).sum()
    return Outcome(loss, right, torch.tensor(len(target), device=logits.device))


class TokenHead(nn.Module):
    """The head of a masked language model, as BERT's: a layer, GELU, a normalization, and the embeddings as outputs.

    Args:
        hidden: Size H of the hidden states.
        vocabulary: Number V of tokens.
    """

    def __init__(self, hidden: int, vocabulary: int) -> None:
        super().__init__()
        self.transform = nn.Linear(hidden, hidden)
        self.norm = nn.LayerNorm(hidden)
        self.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, hidden: Tensor, embeddings: Tensor) -> Tensor:
        """Logits ``(M, V)`` of hidden states ``(M, H)``; ``embeddings (V, H)`` are those of the encoder."""
        return linear(self.norm(gelu(self.transform(hidden))), embeddings, self.bias)
