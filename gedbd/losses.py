"""Losses of training, as modules and functions of vectors and labels."""

from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_embedding_loss, normalize, softplus

MAX_PER_ANCHOR = 5  # positives, and as many negatives: a report of a large group would give thousands of triplets
MAX_BLOCK_ROWS = 1024  # bounds memory: validation computes the loss over thousands of reports


class StepLabels(NamedTuple):
    """Labels of the U distinct reports of a batch.

    ``group (U,)``: the groups that training observes; ``edge_label_index (2, P)``: pairs of rows in 0..U-1;
    ``edge_label (P,)``: 1 for a duplicate pair, else 0; ``triplets (T, 3)``: rows of an anchor, a positive and a
    negative, or None if the sampler provides none.
    """

    group: Tensor
    edge_label_index: Tensor
    edge_label: Tensor
    triplets: Tensor | None = None


class Loss(Protocol):
    """A loss of the vectors of a batch."""

    # the labels that it reads: ``pairs`` (``edge_label_index`` and ``edge_label``), ``groups`` (``group``) or
    # ``triplets``. A loss that reads groups compares all reports of a batch, so a larger batch has more negatives;
    # batches of several devices are not combined.
    reads: frozenset[str]

    def __call__(self, z: Tensor, step: StepLabels) -> Tensor:
        """The scalar loss of rows ``z (U, D)``, which have length 1, except for triplet losses."""
        ...


def loss_of_pairs(loss: Loss, z: Tensor, group: Tensor, index: Tensor, label: Tensor) -> Tensor:
    """The loss of vectors ``z (U, D)``; ``pair_triplets`` makes triplets if it reads them. See ``StepLabels``."""
    triplets = pair_triplets(index, label) if "triplets" in loss.reads else None
    return loss(z, StepLabels(group, index, label, triplets))


def pair_triplets(index: Tensor, label: Tensor) -> Tensor:
    """Makes triplets of each duplicate pair and each non-duplicate pair that share a report, the anchor.

    Only the first ``MAX_PER_ANCHOR`` pairs of either kind count for an anchor.

    Args:
        index: ``(2, P)`` pairs.
        label: ``(P,)`` 1 for a duplicate pair, else 0.

    Returns:
        ``(T, 3)`` anchor, positive, negative. The pairs (0, 1) with label 1 and (1, 2) with label 0 give (1, 0, 2).
    """
    directed = torch.cat([index, index.flip(0)], dim=1).T.cpu().numpy()
    is_positive = label.repeat(2).cpu().numpy() == 1
    positives = pd.DataFrame(directed[is_positive], columns=["anchor", "positive"])
    negatives = pd.DataFrame(directed[~is_positive], columns=["anchor", "negative"])
    positives = positives.groupby("anchor").head(MAX_PER_ANCHOR)
    negatives = negatives.groupby("anchor").head(MAX_PER_ANCHOR)
    triplets = positives.merge(negatives, on="anchor")[["anchor", "positive", "negative"]]
    return torch.from_numpy(triplets.to_numpy(dtype=np.int64)).to(index.device)


def check_labels(loss: Loss, provides: frozenset[str]) -> None:
    """Checks before training that the batches hold the labels of a loss.

    Raises:
        ValueError: If the batches lack a label that the loss reads.
    """
    missing = sorted(loss.reads - provides)
    if missing:
        name = type(loss).__name__
        raise ValueError(
            f"loss: {name} reads {' and '.join(missing)}, but batches: provides {' and '.join(sorted(provides))} only"
        )


class SimilarityLoss(nn.Module):
    """Mean loss of reports or pairs by their similarities to all reports of the batch; 0 without any."""

    reads = frozenset({"groups"})

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, z: Tensor, step: StepLabels) -> Tensor:
        """The mean of the losses of reports or pairs."""
        columns = torch.arange(len(z), device=z.device)
        losses = []
        for rows in torch.split(columns, MAX_BLOCK_ROWS):
            # The division by a small temperature would magnify the rounding of bfloat16.
            with torch.autocast(z.device.type, enabled=False):
                logits = z[rows] @ z.T / self.temperature
            same_group = step.group[rows, None] == step.group
            losses.append(self.block_losses(logits, same_group & (rows[:, None] != columns), same_group))
        values = torch.cat(losses)
        return values.sum() / max(len(values), 1)

    def block_losses(self, logits: Tensor, positive: Tensor, same_group: Tensor) -> Tensor:
        """The losses ``(M,)`` of B reports or of their pairs.

        Args:
            logits: ``(B, U)`` cosines over the temperature.
            positive: ``(B, U)`` whether the column is a positive of the row.
            same_group: ``(B, U)`` whether both are in one group, including the row itself.
        """
        raise NotImplementedError


def excluded(logits: Tensor, mask: Tensor) -> Tensor:
    """Masks entries of a softmax with the smallest finite number: the gradient of all infinities is NaN."""
    return logits.masked_fill(mask, torch.finfo(logits.dtype).min)


class CosineEmbeddingLoss(nn.Module):
    """Mean over pairs of 1 - s for a duplicate, max(0, s - margin) for a non-duplicate; s is the cosine of the pair.

    Raises:
        ValueError: If the margin is out of range.
    """

    reads = frozenset({"pairs"})

    def __init__(self, margin: float) -> None:
        super().__init__()
        if not -1 <= margin <= 1:
            raise ValueError(f"loss.margin={margin} must be from -1 to 1")
        self.margin = margin

    def forward(self, z: Tensor, step: StepLabels) -> Tensor:
        """The mean over pairs."""
        left = z[step.edge_label_index[0]]
        right = z[step.edge_label_index[1]]
        # PyTorch expects 1 and -1: labels 1, 0 become 1, -1.
        return cosine_embedding_loss(left, right, 2 * step.edge_label - 1, margin=self.margin)


class MultipleNegativesLoss(SimilarityLoss):
    """Mean over ordered pairs (i, p) of positives of -log(e^(s_ip/t) / (e^(s_ip/t) + sum over n of e^(s_in/t))).

    n runs over the reports of other groups: further positives of i are masked. s is the cosine. Henderson et al.,
    "Efficient Natural Language Response Suggestion for Smart Reply", 2017. Without any positives the loss is 0.
    """

    def block_losses(self, logits: Tensor, positive: Tensor, same_group: Tensor) -> Tensor:
        """A loss for each pair of positives."""
        negatives = excluded(logits, same_group).logsumexp(1, keepdim=True)
        # -log(e^p / (e^p + e^n)) = log(1 + e^(n - p)), which does not overflow.
        return softplus(negatives - logits)[positive]


class SupervisedContrastiveLoss(SimilarityLoss):
    """Mean over reports i with positives P(i) of -1/|P(i)| sum over p of log(e^(s_ip/t) / sum over a of e^(s_ia/t)).

    a runs over all other reports, positives included; s is the cosine. Reports of one group are positives of each
    other. Khosla et al., "Supervised Contrastive Learning", 2020, equation 2. Without any positives the loss is 0.
    """

    def block_losses(self, logits: Tensor, positive: Tensor, same_group: Tensor) -> Tensor:
        """A loss for each report with positives."""
        is_self = same_group & ~positive
        log_probability = logits - excluded(logits, is_self).logsumexp(1, keepdim=True)
        mean = (log_probability * positive).sum(1) / positive.sum(1).clamp(min=1)
        return -mean[positive.any(1)]


class TripletLoss(nn.Module):
    """Mean over triplets (a, p, n) of max(d(a, p) - d(a, n) + margin, 0), d the p-norm distance.

    Hazra et al., "Duplicate Question Retrieval and Confirmation Time Prediction in Software Communities", 2023, which
    has no margin. Without any triplets the loss is 0.

    Args:
        margin: By how much the duplicate must be closer than the non-duplicate, 0 or above.
        p: Degree of the norm, above 0.

    Raises:
        ValueError: If a number is out of range.
    """

    reads = frozenset({"triplets"})

    def __init__(self, margin: float = 0.0, p: float = 2.0) -> None:
        super().__init__()
        if margin < 0:
            raise ValueError(f"loss.margin={margin} must be 0 or above")
        if p <= 0:
            raise ValueError(f"loss.p={p} must be above 0")
        self.margin = margin
        self.distance = nn.PairwiseDistance(p)

    def forward(self, z: Tensor, step: StepLabels) -> Tensor:
        """The mean over triplets; the rows of ``z`` may have any length."""
        assert step.triplets is not None
        anchor, positive, negative = z[step.triplets.T]
        losses: Tensor = self.distance(anchor, positive) - self.distance(anchor, negative) + self.margin
        return losses.clamp(min=0).sum() / max(len(losses), 1)


def info_nce(
    anchor: Tensor, positive: Tensor, negatives: Tensor, temperature: float, masked: Tensor | None = None
) -> Tensor:
    """-log(e^(s+/t) / (e^(s+/t) + sum over n of e^(s_n/t))) of each anchor; s is the cosine.

    van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018. Always computed in float32,
    since the division by a small temperature magnifies the rounding of bfloat16.

    Args:
        anchor: ``(B, D)``, of any length.
        positive: ``(B, D)``.
        negatives: ``(B, D)`` or ``(B, K, D)`` of each anchor, or ``(1, K, D)`` shared by all anchors.
        temperature: t, above 0.
        masked: ``(B, K)`` bool, negatives to ignore. The loss of an anchor without negatives is 0.

    Returns:
        ``(B,)`` losses.
    """
    with torch.autocast(anchor.device.type, enabled=False):
        anchor = normalize(anchor.float(), dim=-1)
        positive = normalize(positive.float(), dim=-1)
        negatives = normalize(negatives.float(), dim=-1)
        if negatives.dim() == 2:
            negatives = negatives[:, None]
        positive_logits = (anchor * positive).sum(-1, keepdim=True) / temperature
        negative_logits = (anchor[:, None] @ negatives.mT)[:, 0] / temperature
        if masked is not None:
            negative_logits = excluded(negative_logits, masked)
        return info_nce_of_scores(positive_logits, negative_logits)


def info_nce_of_scores(positive_logits: Tensor, negative_logits: Tensor) -> Tensor:
    """The losses ``(B,)`` of ``info_nce`` by similarities over the temperature, ``(B, 1)`` and ``(B, K)``."""
    logits = torch.cat([positive_logits, negative_logits], dim=1)
    loss: Tensor = logits.logsumexp(1) - positive_logits[:, 0]
    return loss


def max_sim(query: Tensor, document: Tensor, in_query: Tensor, in_document: Tensor) -> Tensor:
    """The sum over the tokens of a query of the largest cosine with a token of its document, ``(B,)`` float32.

    Khattab and Zaharia, "ColBERT", SIGIR 2020.

    Args:
        query: ``(B, Q, D)`` vectors of tokens, of any length.
        document: ``(B, L, D)``, row i belongs to query i.
        in_query: ``(B, Q)`` bool mask of tokens.
        in_document: ``(B, L)`` bool mask of tokens, at least one in each document.
    """
    with torch.autocast(query.device.type, enabled=False):
        cosines = normalize(query.float(), dim=-1) @ normalize(document.float(), dim=-1).mT
        best = excluded(cosines, ~in_document[:, None]).amax(2)
        total: Tensor = (best * in_query).sum(1)
    return total
