"""Exchange of tensors between the processes of a distributed run; a single process keeps its own.

Also what happens when one of the processes ends.
"""

import logging
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor

OBSERVER_LOG = "lightning_fabric.strategies.launchers.subprocess_script"

DEATH_S = 5.0  # after the connection to a process has failed, it has this long to end


def is_first() -> bool:
    """Whether this process prints and writes: the first one by the count of torchrun, SLURM or Lightning."""
    return rank_zero_only.rank == 0  # type: ignore[attr-defined, no-any-return]


def gather(module: pl.LightningModule, value: Tensor) -> Tensor:
    """Concatenates the rows of all processes, which may have different numbers of rows; differentiable."""
    if module.trainer.world_size == 1:
        return value
    counts = module.all_gather(torch.tensor(len(value), device=value.device))
    assert isinstance(counts, Tensor)
    # all_gather needs equal shapes: rows are padded to the largest count and cut afterwards.
    padded = torch.cat([value, value.new_zeros(int(counts.max()) - len(value), *value.shape[1:])])
    gathered = module.all_gather(padded, sync_grads=value.requires_grad)
    return torch.cat([rows[:count] for rows, count in zip(gathered, counts.tolist(), strict=True)])


def join(module: pl.LightningModule, batches: list[tuple[Tensor, ...]]) -> list[Tensor]:
    """Concatenates batches over all processes: of tuples ``(a, b)`` it returns all rows of a and all rows of b."""
    return [gather(module, torch.cat(values)) for values in zip(*batches, strict=True)]


@contextmanager
def all_end_together(trainer: pl.Trainer) -> Iterator[None]:
    """Ends the processes that a trainer has started if this one fails, and names one that ended before.

    Lightning also looks every 5 seconds whether one has ended, and then kills this process: what it logs is shown.

    Raises:
        ValueError: If another process has ended, so that the exchange with it failed.
    """
    logger = logging.getLogger(OBSERVER_LOG)
    if not logger.handlers:
        shown = logging.StreamHandler()
        shown.setFormatter(logging.Formatter("error: %(message)s"))
        logger.addHandler(shown)
        logger.setLevel(logging.INFO)
    try:
        yield
    except BaseException as error:
        processes: list[subprocess.Popen[bytes]] = getattr(trainer.strategy.launcher, "procs", [])
        # Gloo and NCCL report a lost connection as a RuntimeError.
        ended = _ended(processes) if isinstance(error, RuntimeError) else None
        for process in processes:
            process.kill()
            process.wait()
        processes.clear()  # so that Lightning does not kill this process before it has told the error
        if ended:
            raise ValueError(ended) from error
        raise


def _ended(processes: list[subprocess.Popen[bytes]]) -> str | None:
    """Which of the processes has failed, and what to do; None if all still run after ``DEATH_S``."""
    deadline = time.monotonic() + DEATH_S
    while time.monotonic() < deadline:
        for rank, process in enumerate(processes, start=1):
            status = process.poll()
            if status:
                how = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
                cause = "too little memory is a common cause" if status == -signal.SIGKILL else "see its message above"
                return (
                    f"the process of rank {rank} {how} ({cause}), so the others were ended too; continue with"
                    " ckpt_path= and checkpoints/last.ckpt of the run folder"
                )
        time.sleep(0.05)
    return None
