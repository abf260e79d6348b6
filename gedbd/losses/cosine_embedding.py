"""Cosine embedding loss of pairs."""

from torch import Tensor, nn
from torch.nn.functional import cosine_embedding_loss

from gedbd.losses.loss import StepLabels


class CosineEmbeddingLoss(nn.Module):
    """Mean over pairs of 1 - s for a duplicate, max(0, s - margin) for a non-duplicate; s is the cosine of the pair.

    Args:
        margin: Similarity up to which a non-duplicate costs nothing, -1 to 1.

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
        """See ``Loss``."""
        left = z[step.edge_label_index[0]]
        right = z[step.edge_label_index[1]]
        # PyTorch expects 1 and -1: labels 1, 0 become 1, -1.
        return cosine_embedding_loss(left, right, 2 * step.edge_label - 1, margin=self.margin)
