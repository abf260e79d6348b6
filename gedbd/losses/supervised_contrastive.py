"""Supervised contrastive loss of groups."""

from torch import Tensor

from gedbd.losses.similarity import SimilarityLoss, excluded


class SupervisedContrastiveLoss(SimilarityLoss):
    """Mean over reports i with positives P(i) of -1/|P(i)| sum over p of log(e^(s_ip/t) / sum over a of e^(s_ia/t)).

    a runs over all other reports, positives included; s is the cosine. Reports of one group are positives of each
    other. Khosla et al., "Supervised Contrastive Learning", 2020, equation 2. Without any positives the loss is 0.

    Args:
        temperature: t, above 0.
    """

    def block_losses(self, logits: Tensor, positive: Tensor, same_group: Tensor) -> Tensor:
        """See ``SimilarityLoss``; a loss for each report with positives."""
        itself = same_group & ~positive
        log_probability = logits - excluded(logits, itself).logsumexp(1, keepdim=True)
        mean = (log_probability * positive).sum(1) / positive.sum(1).clamp(min=1)
        return -mean[positive.any(1)]
