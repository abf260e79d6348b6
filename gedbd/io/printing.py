"""Lines that a command prints only once, in one of its processes."""

import os
from functools import cache


@cache
def say_once(line: str) -> None:
    """Prints a line unless this process has printed it before."""
    print(line, flush=True)


def is_first_process() -> bool:
    """Whether this is the first of the processes that torchrun, SLURM or Lightning started."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))
