"""Optimizers, with separate learning rates for pretrained and untrained weights or with one for all."""

from collections.abc import Callable

from torch import nn
from torch.optim import Adam, AdamW, Optimizer

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
    # AdamW's own lr is not used: each group has its own.
    groups = [{"params": pretrained, "lr": lr}, {"params": untrained, "lr": head_lr}]
    return AdamW(groups, weight_decay=weight_decay, fused=fused)


def adam(
    pretrained: list[nn.Parameter], untrained: list[nn.Parameter], lr: float, eps: float, weight_decay: float
) -> Adam:
    """Adam with one learning rate.

    Args:
        pretrained: Parameters of the pretrained encoder, if it is trained.
        untrained: All other parameters.
        lr: Learning rate.
        eps: Added to the denominator of a step.
        weight_decay: Weight of the penalty on squared weights.
    """
    return Adam([*pretrained, *untrained], lr=lr, eps=eps, weight_decay=weight_decay)
