"""InfoNCE of an anchor, one positive and some negatives, and the similarity of texts by their tokens."""

import torch
from torch import Tensor
from torch.nn.functional import normalize

from gedbd.losses.similarity import excluded


def info_nce(
    anchor: Tensor, positive: Tensor, negatives: Tensor, temperature: float, masked: Tensor | None = None
) -> Tensor:
    """-log(e^(s+/t) / (e^(s+/t) + sum over n of e^(s_n/t))) of each anchor; s is the cosine.

    van den Oord et al., "Representation Learning with Contrastive Predictive Coding", 2018. It is computed in float32
    whatever autocast says, since the division by a small temperature would magnify the rounding of bfloat16.

    Args:
        anchor: ``(B, D)``, of any length.
        positive: ``(B, D)``.
        negatives: ``(B, D)``, one for each anchor, or ``(B, K, D)``, or ``(1, K, D)``, the same K for all anchors.
        temperature: t, above 0.
        masked: ``(B, K)`` bool, negatives that do not count for an anchor. Without any negative the loss is 0.

    Returns:
        ``(B,)`` losses.
    """
    with torch.autocast(anchor.device.type, enabled=False):
        anchor = normalize(anchor.float(), dim=-1)
        positive = normalize(positive.float(), dim=-1)
        negatives = normalize(negatives.float(), dim=-1)
        if negatives.dim() == 2:
            negatives = negatives[:, None]
        towards_positive = (anchor * positive).sum(-1, keepdim=True) / temperature
        towards_negatives = (anchor[:, None] @ negatives.mT)[:, 0] / temperature
        if masked is not None:
            towards_negatives = excluded(towards_negatives, masked)
        return info_nce_of_scores(towards_positive, towards_negatives)


def info_nce_of_scores(towards_positive: Tensor, towards_negatives: Tensor) -> Tensor:
    """The losses ``(B,)`` of ``info_nce`` by similarities over the temperature, ``(B, 1)`` and ``(B, K)``."""
    logits = torch.cat([towards_positive, towards_negatives], dim=1)
    loss: Tensor = logits.logsumexp(1) - towards_positive[:, 0]
    return loss


def max_sim(query: Tensor, document: Tensor, in_query: Tensor, in_document: Tensor) -> Tensor:
    """The sum over the tokens of a query of the largest cosine with a token of its document, ``(B,)`` float32.

    Khattab and Zaharia, "ColBERT", SIGIR 2020.

    Args:
        query: ``(B, Q, D)`` vectors of tokens, of any length.
        document: ``(B, L, D)``, that of row i is compared with query i.
        in_query: ``(B, Q)`` bool, tokens that count.
        in_document: ``(B, L)`` bool, likewise, at least one of each document.
    """
    with torch.autocast(query.device.type, enabled=False):
        cosines = normalize(query.float(), dim=-1) @ normalize(document.float(), dim=-1).mT
        best = excluded(cosines, ~in_document[:, None]).amax(2)
        total: Tensor = (best * in_query).sum(1)
    return total
