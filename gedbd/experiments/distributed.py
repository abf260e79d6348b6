"""Exchange of tensors between the processes of a distributed run; a single process keeps its own."""

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_only
from torch import Tensor


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
