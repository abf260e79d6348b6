"""Triplet loss of an anchor, a duplicate of it and a non-duplicate."""

from torch import Tensor, nn

from gedbd.losses.loss import StepLabels


class TripletLoss(nn.Module):
    """Mean over triplets (a, p, n) of max(d(a, p) - d(a, n) + margin, 0), d the p-norm distance.

    Hazra et al., "Duplicate Question Retrieval and Confirmation Time Prediction in Software Communities", 2023, which
    has no margin. Without any triplets the loss is 0.

    Args:
        margin: How much nearer than the non-duplicate the duplicate has to be, 0 or above.
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
        """See ``Loss``; the rows of ``z`` may have any length."""
        assert step.triplets is not None
        anchor, positive, negative = z[step.triplets.T]
        losses = (self.distance(anchor, positive) - self.distance(anchor, negative) + self.margin).clamp(min=0)
        return losses.sum() / max(len(losses), 1)
