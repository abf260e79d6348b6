"""What the processes of a distributed run have in common. With a single process everything stays as it is."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor


def is_first() -> bool:
    """Whether this process is the one that tells and writes, as torchrun, SLURM or Lightning counts processes."""
    return rank_zero_only.rank == 0  # type: ignore[attr-defined, no-any-return]


def gather(module: pl.LightningModule, value: Tensor) -> Tensor:
    """The rows of all processes, one process after the other, however many each has; gradient flows back to each."""
    if module.trainer.world_size == 1:
        return value
    counts = module.all_gather(torch.tensor(len(value), device=value.device))
    assert isinstance(counts, Tensor)
    padded = torch.cat([value, value.new_zeros(int(counts.max()) - len(value), *value.shape[1:])])
    gathered = module.all_gather(padded, sync_grads=value.requires_grad)
    return torch.cat([rows[:count] for rows, count in zip(gathered, counts.tolist(), strict=True)])


def join(module: pl.LightningModule, batches: list[tuple[Tensor, ...]]) -> list[Tensor]:
    """The rows of all batches of all processes, for each place of a batch."""
    return [gather(module, torch.cat(values)) for values in zip(*batches, strict=True)]
