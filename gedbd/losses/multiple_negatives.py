"""Multiple negatives ranking loss of groups."""

from torch import Tensor
from torch.nn.functional import softplus

from gedbd.losses.similarity import SimilarityLoss, excluded


class MultipleNegativesLoss(SimilarityLoss):
    """Mean over ordered pairs (i, p) of positives of -log(e^(s_ip/t) / (e^(s_ip/t) + sum over n of e^(s_in/t))).

    n runs over the reports of other groups: further positives of i are masked. s is the cosine. Henderson et al.,
    "Efficient Natural Language Response Suggestion for Smart Reply", 2017. Without any positives the loss is 0.

    Args:
        temperature: t, above 0.
    """

    def block_losses(self, logits: Tensor, positive: Tensor, same_group: Tensor) -> Tensor:
        """See ``SimilarityLoss``; a loss for each pair of positives."""
        negatives = excluded(logits, same_group).logsumexp(1, keepdim=True)
        # -log(e^p / (e^p + e^n)) = log(1 + e^(n - p)), which does not overflow.
        return softplus(negatives - logits)[positive]
