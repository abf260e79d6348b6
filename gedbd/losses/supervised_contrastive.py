"""Supervised contrastive loss of groups."""

import torch
from torch import Tensor, nn

from gedbd.losses.loss import StepLabels
from gedbd.losses.similarity import excluded, mean_or_zero, similarity_blocks


class SupervisedContrastiveLoss(nn.Module):
    """Mean over reports i with positives P(i) of -1/|P(i)| sum over p of log(e^(s_ip/t) / sum over a of e^(s_ia/t)).

    a runs over all other reports, positives included; s is the cosine. Reports of one group are positives of each
    other. Khosla et al., "Supervised Contrastive Learning", 2020, equation 2. Without any positives the loss is 0.

    Args:
        temperature: t, above 0.
    """

    reads = frozenset({"groups"})

    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, z: Tensor, step: StepLabels) -> Tensor:
        """See ``Loss``."""
        losses = []
        for logits, positive, same_group in similarity_blocks(z, step.group, self.temperature):
            itself = same_group & ~positive
            log_probability = logits - excluded(logits, itself).logsumexp(1, keepdim=True)
            mean = (log_probability * positive).sum(1) / positive.sum(1).clamp(min=1)
            losses.append(-mean[positive.any(1)])
        return mean_or_zero(torch.cat(losses))
