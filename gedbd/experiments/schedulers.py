"""Learning rate schedules with linear warm-up.

The first step of the schedules of transformers (``get_cosine_schedule_with_warmup``) has learning rate 0. Here the
warm-up starts above 0, so that every step trains.
"""

import math
from collections.abc import Callable

from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR

MakeScheduler = Callable[[Optimizer, Callable[[], int]], LambdaLR]
"""Builds the scheduler of an optimizer; the second argument returns the number of steps of the whole run."""


def constant(optimizer: Optimizer, total_steps: Callable[[], int], warmup_steps: int) -> LambdaLR:
    """Learning rates that rise over ``warmup_steps`` and stay there; ``total_steps`` is not called."""
    return LambdaLR(optimizer, lambda step: warmup_factor(step, warmup_steps))


def cosine(optimizer: Optimizer, total_steps: Callable[[], int], warmup_steps: int) -> LambdaLR:
    """Learning rates that rise over ``warmup_steps`` and then fall to 0; see ``cosine_factor``."""
    steps = total_steps()
    return LambdaLR(optimizer, lambda step: cosine_factor(step, warmup_steps, steps))


def warmup_factor(step: int, warmup_steps: int) -> float:
    """What the learning rate is multiplied by after ``step`` steps; reaches 1 after ``warmup_steps``.

    With 3 warm-up steps the factors are 1/4, 2/4, 3/4, 1, 1, ...
    """
    return min(1.0, (step + 1) / (warmup_steps + 1))


def cosine_factor(step: int, warmup_steps: int, total_steps: int) -> float:
    """The warm-up of ``warmup_factor``, then half a cosine wave that ends at 0 after ``total_steps``.

    Loshchilov and Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", 2017, without restarts.

    Args:
        step: Steps already taken.
        warmup_steps: Steps until the factor is 1.
        total_steps: Steps of the whole run, warm-up included.
    """
    if step < warmup_steps:
        return warmup_factor(step, warmup_steps)
    progress = (step - warmup_steps) / max(1, total_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
