"""Losses: functions of tensors, with no model inside.

All take the distinct reports of a step: ``z (U, D)`` unit rows, ``group (U,)`` as far as it is known,
``edge_label_index (2, P)`` pairs of rows of ``z`` and ``edge_label (P,)``, 1 duplicate, 0 not. A loss reads either the
pairs or the groups. Those that read groups take every two reports of a step into account, so a large step has more
negatives; with several devices, each has its own.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import cosine_embedding_loss, softplus

BLOCK = 1024  # rows of the similarity matrix held at once: validation takes the loss over thousands of reports


def cosine_embedding(z: Tensor, group: Tensor, edge_label_index: Tensor, edge_label: Tensor, margin: float) -> Tensor:
    """Mean over pairs of 1 - s for a duplicate, max(0, s - margin) for a non-duplicate; s is the cosine of the pair.

    Args:
        z: See above, as the next three.
        group: Not read.
        edge_label_index: Pairs.
        edge_label: Their labels.
        margin: Similarity up to which a non-duplicate costs nothing, -1 to 1.
    """
    left, right = z[edge_label_index[0]], z[edge_label_index[1]]
    return cosine_embedding_loss(left, right, 2 * edge_label - 1, margin=margin)


def supervised_contrastive(
    z: Tensor, group: Tensor, edge_label_index: Tensor, edge_label: Tensor, temperature: float
) -> Tensor:
    """Mean over reports i with positives P(i) of -1/|P(i)| sum over p of log(e^(s_ip/t) / sum over a of e^(s_ia/t)).

    a runs over all other reports, positives too; s is the cosine. Khosla et al., "Supervised Contrastive Learning",
    2020, its equation 2. Without any positives it is 0.

    Args:
        z: See above, as the next three.
        group: Reports of one group are positives of each other.
        edge_label_index: Not read.
        edge_label: Not read.
        temperature: t, above 0.
    """
    losses = []
    for logits, positive, same in _blocks(z, group, temperature):
        itself = same & ~positive
        log_share = logits - _masked(logits, itself).logsumexp(1, keepdim=True)
        mean = (log_share * positive).sum(1) / positive.sum(1).clamp(min=1)
        losses.append(-mean[positive.any(1)])
    return _mean(torch.cat(losses))


def multiple_negatives(
    z: Tensor, group: Tensor, edge_label_index: Tensor, edge_label: Tensor, temperature: float
) -> Tensor:
    """Mean over ordered pairs (i, p) of positives of -log(e^(s_ip/t) / (e^(s_ip/t) + sum over n of e^(s_in/t))).

    n runs over the reports of other groups: further positives of i are masked. Henderson et al., "Efficient Natural
    Language Response Suggestion for Smart Reply", 2017. Without any positives it is 0.

    Args:
        z: See above, as the next three.
        group: Reports of one group are positives of each other.
        edge_label_index: Not read.
        edge_label: Not read.
        temperature: t, above 0.
    """
    losses = []
    for logits, positive, same in _blocks(z, group, temperature):
        negatives = _masked(logits, same).logsumexp(1, keepdim=True)
        losses.append(softplus(negatives - logits)[positive])
    return _mean(torch.cat(losses))


READ_GROUPS = (supervised_contrastive, multiple_negatives)


def _blocks(z: Tensor, group: Tensor, temperature: float) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """For some rows at a time: similarities over temperature, who is a positive, who is of the group, all (B, U)."""
    every = torch.arange(len(z), device=z.device)
    for rows in torch.split(every, BLOCK):
        with torch.autocast(z.device.type, enabled=False):  # divided by t, bfloat16's rounding would count
            logits = z[rows] @ z.T / temperature
        same = group[rows, None] == group
        yield logits, same & (rows[:, None] != every), same


def _masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Makes some similarities count for nothing. They stay finite, as the gradient of a row of infinities is none."""
    return logits.masked_fill(mask, torch.finfo(logits.dtype).min)


def _mean(values: Tensor) -> Tensor:
    return values.sum() / max(len(values), 1)
