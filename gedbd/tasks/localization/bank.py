"""Memory bank of keys."""

import torch
from torch import Tensor, nn

EMPTY = -1


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
