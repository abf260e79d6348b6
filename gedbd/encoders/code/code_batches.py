"""Inputs of code as one batch of tensors."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gedbd.encoders.code.code_inputs import BLOCKS, CodeEdges, CodeInput


class BatchEdges(NamedTuple):
    """Edges of a batch as ``CodeEdges``, ``(3, E)`` int64 each: row of the batch, from and to in its positions."""

    code_node: Tensor
    node_node: Tensor
    node_type: Tensor
    node_role: Tensor


class CodeBatch(NamedTuple):
    """B inputs, padded on the right to the longest.

    Attributes:
        n_id: ``(B,)`` their rows in the corpus.
        input_ids: ``(B, L)`` token numbers.
        lengths: ``(B,)`` numbers of tokens.
        blocks: ``(B, 5, 2)`` first position and length of each of ``BLOCKS``.
        edges: Edges, by kind.
    """

    n_id: Tensor
    input_ids: Tensor
    lengths: Tensor
    blocks: Tensor
    edges: BatchEdges

    def inside(self, name: str) -> Tensor:
        """Whether each position is in a block of that name, ``(B, L)`` bool."""
        start, length = self.blocks[:, BLOCKS.index(name), :, None].unbind(1)
        place = torch.arange(self.input_ids.shape[1], device=self.input_ids.device)
        return (place >= start) & (place < start + length)

    @property
    def is_token(self) -> Tensor:
        """Whether each position is no padding, ``(B, L)`` bool."""
        return torch.arange(self.input_ids.shape[1], device=self.input_ids.device) < self.lengths[:, None]


def collate(inputs: Sequence[CodeInput], rows: Sequence[int] | np.ndarray | None = None) -> CodeBatch:
    """One batch of some inputs.

    Args:
        inputs: B inputs of one tokenizer.
        rows: ``(B,)`` their rows in the corpus, by default 0..B-1.
    """
    lengths = np.array([len(one) for one in inputs])
    input_ids = np.full((len(inputs), lengths.max()), inputs[0].pad_id, dtype=np.int64)
    for row, one in enumerate(inputs):
        input_ids[row, : len(one)] = one.input_ids
    return CodeBatch(
        n_id=torch.as_tensor(np.arange(len(inputs)) if rows is None else np.asarray(rows, dtype=np.int64)),
        input_ids=torch.from_numpy(input_ids),
        lengths=torch.from_numpy(lengths),
        blocks=torch.from_numpy(np.stack([one.blocks for one in inputs]).astype(np.int64)),
        edges=BatchEdges(*(_joined([one.edges for one in inputs], kind) for kind in range(len(CodeEdges._fields)))),
    )


def _joined(edges: list[CodeEdges], kind: int) -> Tensor:
    """The edges of one kind of all inputs, ``(3, E)``."""
    counts = [each[kind].shape[1] for each in edges]
    # Inputs with 2 and 1 edges: the rows of the batch are 0 0 1.
    row = np.repeat(np.arange(len(edges)), counts)
    pairs = np.concatenate([each[kind] for each in edges], axis=1)
    return torch.from_numpy(np.vstack([row, pairs]).astype(np.int64))
