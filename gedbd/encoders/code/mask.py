"""Which token of an input of code may attend to which."""

import torch
from torch import Tensor

from gedbd.encoders.code.batches import BatchEdges, CodeBatch
from gedbd.encoders.code.inputs import CODE_BLOCK


def attention_mask(batch: CodeBatch, without: BatchEdges | None = None) -> Tensor:
    """The attention mask of SemanticCodeBERT, its formula taken literally.

    Source: the talk "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization" (2023).
    Token i may attend to token j if

    - i is ``[CLS]`` or a ``[SEP]``,
    - i and j are both in the comment or the code, or are the ``[C]`` between them,
    - i is a token of the code and j its node, or the reverse (E1),
    - i and j are nodes and an edge leads from i to j (E2),
    - i is a node and j its type (E3), or i is a node and j its role (E4).

    Ours: every token may attend to itself, since the softmax of a row without a single entry has no value; this
    concerns types, roles and the markers ``[N]``, ``[T]`` and ``[R]``. Padding attends to itself alone, and no token to
    padding.

    Args:
        batch: B inputs of up to L tokens.
        without: Edges that are hidden, of E1 in both directions; others that are not in the batch change nothing.

    Returns:
        ``(B, 1, L, L)`` bool, True at (i, j) where i may attend to j.
    """
    text = _text(batch)
    mask = _attends_to_all(batch)[:, :, None] | (text[:, :, None] & text[:, None, :])
    mask &= batch.is_token[:, None, :]
    _set_edges(mask, batch.edges, True)
    if without is not None:
        _set_edges(mask, without, False)
    mask.diagonal(dim1=1, dim2=2).fill_(True)
    return mask[:, None]


def _text(batch: CodeBatch) -> Tensor:
    """Whether each position is of the comment, ``[C]`` or the code, ``(B, L)`` bool."""
    code = batch.blocks[:, CODE_BLOCK]
    end = code.sum(1, keepdim=True)
    place = torch.arange(batch.input_ids.shape[1], device=batch.input_ids.device)
    # [CLS] w w [C] s s [SEP]: position 0 is [CLS]; the code begins at 4 and is 2 long, so that it ends before 6.
    return (place >= 1) & (place < end)


def _attends_to_all(batch: CodeBatch) -> Tensor:
    """Whether each position is ``[CLS]`` or a ``[SEP]``, ``(B, L)`` bool."""
    code = batch.blocks[:, CODE_BLOCK]
    attends = torch.zeros_like(batch.input_ids, dtype=torch.bool)
    attends[:, 0] = True
    attends.scatter_(1, code.sum(1, keepdim=True), True)
    attends.scatter_(1, batch.lengths[:, None] - 1, True)
    return attends


def _set_edges(mask: Tensor, edges: BatchEdges, value: bool) -> None:
    """Sets the cells of edges in a mask ``(B, L, L)``."""
    back = edges.code_node[[0, 2, 1]]
    row, start, end = torch.cat([*edges, back], dim=1)
    mask[row, start, end] = value
