"""Optimizers with separate learning rates for pretrained and untrained weights."""

from collections.abc import Callable

from torch import nn
from torch.optim import AdamW, Optimizer

MakeOptimizer = Callable[[list[nn.Parameter], list[nn.Parameter]], Optimizer]
"""Builds an optimizer of pretrained and untrained parameters; ``conf/optimizer`` sets everything else."""


def adamw(
    pretrained: list[nn.Parameter],
    untrained: list[nn.Parameter],
    lr: float,
    head_lr: float,
    weight_decay: float,
    fused: bool,
) -> AdamW:
    """AdamW with two learning rates.

    Args:
        pretrained: Parameters of the pretrained encoder.
        untrained: All other parameters: projection, graph branch, fusion.
        lr: Learning rate of pretrained parameters.
        head_lr: Learning rate of untrained parameters.
        weight_decay: Weight decay of all parameters.
        fused: Whether one kernel updates all parameters.
    """
    groups = [{"params": pretrained, "lr": lr}, {"params": untrained, "lr": head_lr}]
    return AdamW(groups, weight_decay=weight_decay, fused=fused)
