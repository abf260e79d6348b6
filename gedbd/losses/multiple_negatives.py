"""Multiple negatives ranking loss of groups."""

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from gedbd.losses.loss import StepLabels
from gedbd.losses.similarity import excluded, mean_or_zero, similarity_blocks


class MultipleNegativesLoss(nn.Module):
    """Mean over ordered pairs (i, p) of positives of -log(e^(s_ip/t) / (e^(s_ip/t) + sum over n of e^(s_in/t))).

    n runs over the reports of other groups: further positives of i are masked. s is the cosine. Henderson et al.,
    "Efficient Natural Language Response Suggestion for Smart Reply", 2017. Without any positives the loss is 0.

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
            negatives = excluded(logits, same_group).logsumexp(1, keepdim=True)
            # -log(e^p / (e^p + e^n)) = log(1 + e^(n - p)), which does not overflow.
            losses.append(softplus(negatives - logits)[positive])
        return mean_or_zero(torch.cat(losses))
