"""Losses: functions of tensors, with no model inside."""

from torch import Tensor
from torch.nn.functional import cosine_embedding_loss


def cosine_embedding(z: Tensor, edge_label_index: Tensor, edge_label: Tensor, margin: float) -> Tensor:
    """Mean over pairs of 1 - s for a duplicate, max(0, s - margin) for a non-duplicate; s is the cosine of the pair.

    Args:
        z: ``(U, D)`` report vectors.
        edge_label_index: ``(2, P)`` pairs of rows of ``z``.
        edge_label: ``(P,)`` 1 duplicate, 0 not.
        margin: Similarity up to which a non-duplicate costs nothing, -1 to 1.
    """
    left, right = z[edge_label_index[0]], z[edge_label_index[1]]
    return cosine_embedding_loss(left, right, 2 * edge_label - 1, margin=margin)
