"""How the learning rate changes over the steps of a run."""

import math

SCHEDULES = ("constant", "cosine")


def check_schedule(schedule: str) -> None:
    """Raises ValueError if there is no such schedule."""
    if schedule not in SCHEDULES:
        raise ValueError(f"optimizer.schedule={schedule} is unknown: choose {' or '.join(SCHEDULES)}")


def rate_factor(step: int, warmup_steps: int, cosine_steps: int | None) -> float:
    """What the learning rate is multiplied by.

    It rises linearly to 1 over ``warmup_steps``. Then it stays there or, as half a cosine wave, falls to 0 at
    ``cosine_steps`` (Loshchilov and Hutter, "SGDR", 2017, without restarts).

    Args:
        step: Steps already taken.
        warmup_steps: Steps until the factor is 1.
        cosine_steps: Steps of the whole run, warm-up included; None keeps the factor at 1.
    """
    if step < warmup_steps or cosine_steps is None:
        return min(1.0, (step + 1) / (warmup_steps + 1))
    progress = (step - warmup_steps) / max(1, cosine_steps - warmup_steps)
    return 0.5 * (1 + math.cos(math.pi * min(1.0, progress)))
