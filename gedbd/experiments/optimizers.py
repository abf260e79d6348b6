"""Optimizers, with separate learning rates for pretrained and untrained weights or with one for all."""

import math
from collections.abc import Callable
from typing import Any

import pytorch_lightning as pl
from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR

# Builds an optimizer of pretrained and untrained parameters; ``conf/optimizer`` sets everything else.
MakeOptimizer = Callable[[list[nn.Parameter], list[nn.Parameter]], Optimizer]
# Builds the scheduler of an optimizer; the second argument returns the number of steps of the whole run.
MakeScheduler = Callable[[Optimizer, Callable[[], int]], LambdaLR]


def optimization(
    module: pl.LightningModule,
    make_optimizer: MakeOptimizer,
    make_scheduler: MakeScheduler,
    pretrained: list[nn.Parameter],
    untrained: list[nn.Parameter],
) -> dict[str, Any]:
    """What ``configure_optimizers`` returns: the optimizer, and a scheduler that is advanced after every step."""
    optimizer = make_optimizer(pretrained, untrained)
    scheduler = make_scheduler(optimizer, lambda: int(module.trainer.estimated_stepping_batches))
    return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def adamw(
    pretrained: list[nn.Parameter],
    untrained: list[nn.Parameter],
    lr: float,
    head_lr: float,
    weight_decay: float,
    fused: bool,
) -> AdamW:
    """AdamW with two learning rates. ``head_lr`` is that of untrained parameters: projection, graph branch, fusion."""
    # AdamW's own lr is not used: each group has its own.
    groups = [{"params": pretrained, "lr": lr}, {"params": untrained, "lr": head_lr}]
    return AdamW(groups, weight_decay=weight_decay, fused=fused)


def adam(
    pretrained: list[nn.Parameter], untrained: list[nn.Parameter], lr: float, eps: float, weight_decay: float
) -> Adam:
    """Adam with one learning rate. ``eps`` is added to the denominator of a step."""
    return Adam([*pretrained, *untrained], lr=lr, eps=eps, weight_decay=weight_decay)


def constant(optimizer: Optimizer, total_steps: Callable[[], int], warmup_steps: int) -> LambdaLR:
    """Learning rates that rise over ``warmup_steps`` and then stay constant; ``total_steps`` is not called."""
    return LambdaLR(optimizer, lambda step: warmup_factor(step, warmup_steps))


def cosine(optimizer: Optimizer, total_steps: Callable[[], int], warmup_steps: int) -> LambdaLR:
    """Learning rates that rise over ``warmup_steps`` and then fall to 0; see ``cosine_factor``."""
    steps = total_steps()
    return LambdaLR(optimizer, lambda step: cosine_factor(step, warmup_steps, steps))


def warmup_factor(step: int, warmup_steps: int) -> float:
    """Factor of the learning rate after ``step`` steps; reaches 1 after ``warmup_steps``.

    With 3 warm-up steps the factors are 1/4, 2/4, 3/4, 1, 1, ...
    """
    return min(1.0, (step + 1) / (warmup_steps + 1))


def cosine_factor(step: int, warmup_steps: int, total_steps: int) -> float:
    """The warm-up of ``warmup_factor``, then half a cosine wave that ends at 0 after ``total_steps``.

    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017, without restarts.
    """
    if step < warmup_steps:
        return warmup_factor(step, warmup_steps)
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
