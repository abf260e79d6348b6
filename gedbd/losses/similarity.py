"""What losses that compare all reports of a step share: the matrix of their similarities, in blocks."""

import torch
from torch import Tensor, nn

from gedbd.losses.loss import StepLabels

MAX_BLOCK_ROWS = 1024  # validation takes the loss over thousands of reports: the whole matrix would fill the memory


class SimilarityLoss(nn.Module):
    """The mean of the losses of reports or pairs, by their similarities to all reports of the step; 0 without any.

    Args:
        temperature: Divisor of the cosines, above 0.
    """

    reads = frozenset({"groups"})

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, z: Tensor, step: StepLabels) -> Tensor:
        """See ``Loss``."""
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
            same_group: ``(B, U)`` whether both are of one group, which includes the row itself.
        """
        raise NotImplementedError


def excluded(logits: Tensor, mask: Tensor) -> Tensor:
    """Excludes entries from a softmax by the smallest finite number: of infinities alone, the gradient is NaN."""
    return logits.masked_fill(mask, torch.finfo(logits.dtype).min)
