"""The momentum twin of a module."""

import copy
from typing import Self

import torch
from torch import nn


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
