"""The similarity matrix of a step in blocks, for losses that compare all its reports."""

from collections.abc import Iterator

import torch
from torch import Tensor

MAX_BLOCK_ROWS = 1024  # validation takes the loss over thousands of reports: the whole matrix would fill the memory


def similarity_blocks(z: Tensor, group: Tensor, temperature: float) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yields B rows of the similarity matrix at a time.

    Args:
        z: ``(U, D)`` unit rows.
        group: ``(U,)`` their groups.
        temperature: Divisor of the similarities.

    Yields:
        Three ``(B, U)`` tensors: cosines over the temperature; whether the column is a positive of the row; whether
        both are of one group, which includes the row itself.
    """
    columns = torch.arange(len(z), device=z.device)
    for rows in torch.split(columns, MAX_BLOCK_ROWS):
        # The division by a small temperature would magnify the rounding of bfloat16.
        with torch.autocast(z.device.type, enabled=False):
            logits = z[rows] @ z.T / temperature
        same_group = group[rows, None] == group
        yield logits, same_group & (rows[:, None] != columns), same_group


def excluded(logits: Tensor, mask: Tensor) -> Tensor:
    """Excludes entries from a softmax by the smallest finite number: of infinities alone, the gradient is NaN."""
    return logits.masked_fill(mask, torch.finfo(logits.dtype).min)


def mean_or_zero(values: Tensor) -> Tensor:
    """The mean of values ``(M,)``; 0 if there are none."""
    return values.sum() / max(len(values), 1)
