"""The momentum twin of a module."""

import copy
from typing import Self

import torch
from torch import Tensor, nn

EMPTY = -1


class MomentumTwin(nn.Module):
    """A copy of a module whose weights follow it slowly: new = m * old + (1 - m) * followed.

    He et al., "Momentum Contrast", 2020. The twin has no gradients. It stays in evaluation mode: a key depends on its
    own text alone, not on dropout or on the other texts of its batch. Buffers, such as the statistics of batch
    normalization, are copied: they are running means already, and counters have no mean.

    Args:
        followed: The module at the beginning.
        momentum: m, at least 0 and below 1.
    """

    def __init__(self, followed: nn.Module, momentum: float) -> None:
        super().__init__()
        self.module = copy.deepcopy(followed).requires_grad_(False)
        self.momentum = momentum
        self.train(False)

    def train(self, mode: bool = True) -> Self:
        """Stays in evaluation mode."""
        return super().train(False)

    @torch.no_grad()
    def follow(self, followed: nn.Module) -> None:
        """Moves the weights towards those of a module, and copies its buffers."""
        for mine, theirs in zip(self.module.parameters(), followed.parameters(), strict=True):
            mine.lerp_(theirs.to(mine), 1 - self.momentum)
        for kept, current in zip(self.module.buffers(), followed.buffers(), strict=True):
            kept.copy_(current)


class MemoryBank(nn.Module):
    """The last keys of a momentum twin, first in, first out. He et al., "Momentum Contrast", 2020.

    Everything is in buffers, so that a checkpoint holds it.

    Args:
        size: K, the number of keys.
        dim: D, their size.

    Attributes:
        keys: ``(K, D)`` unit rows.
        rows: ``(K,)`` the rows of the corpus that the keys came from; ``EMPTY`` where there is no key yet.
        place: ``()`` where the next key goes.
    """

    keys: Tensor
    rows: Tensor
    place: Tensor

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("rows", torch.full((size,), EMPTY))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def add(self, keys: Tensor, rows: Tensor) -> None:
        """Puts keys in the place of the oldest ones.

        Args:
            keys: ``(M, D)``; of more than K the last K are kept.
            rows: ``(M,)`` what they came from.
        """
        size = len(self.keys)
        keys = keys[-size:]
        # A bank of 5 with 3 as the next place takes 4 keys to 3 4 0 1.
        places = (self.place + torch.arange(len(keys), device=keys.device)) % size
        self.keys[places] = keys.to(self.keys.dtype)
        self.rows[places] = rows[-size:]
        self.place.copy_((self.place + len(keys)) % size)
