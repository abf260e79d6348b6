"""What batch samplers read and yield, and their common base class."""

from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import pandas as pd
from torch.utils.data import Sampler


class BatchIndices(NamedTuple):
    """What one process reads in one training step.

    Attributes:
        rows: ``(U,)`` distinct reports, ascending.
        pairs: ``(P, 2)`` rows of the corpus, all of them among ``rows``.
        label: ``(P,)`` 1 for duplicates, else 0.
        negatives: ``(P,)`` a non-duplicate of the first report of each pair, for losses of triplets, or None.
    """

    rows: np.ndarray
    pairs: np.ndarray
    label: np.ndarray
    negatives: np.ndarray | None = None


class SamplerInputs(NamedTuple):
    """What batches are drawn from.

    Attributes:
        pairs: Training pairs with ``earlier``, ``later`` and ``label``.
        observed_group: ``(N,)`` groups that training may see.
        training: ``(N,)`` bool: the reports of the training part.
        vectors: ``(N, D)`` unit rows as last encoded, or None where no hard negatives are drawn.
    """

    pairs: pd.DataFrame
    observed_group: np.ndarray
    training: np.ndarray
    vectors: np.ndarray | None


class Batches(Protocol):
    """Settings of a batch sampler.

    Attributes:
        hard: Fraction of the negatives that are chosen by the vectors of the last epoch.
        provides: Labels of a batch that losses may read: ``pairs``, ``groups``, ``triplets``.
        reads_groups: Whether batches are built from whole duplicate groups.
    """

    hard: float
    provides: ClassVar[frozenset[str]]
    reads_groups: ClassVar[bool]

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> "BatchSampler":
        """The batches of one process of ``world_size``, in every epoch."""
        ...


class BatchSampler(Sampler[BatchIndices]):
    """Yields the batches of an epoch, which depend only on the seed and the epoch.

    All epochs and all processes have equally many batches: in distributed training each process waits for the others.

    Args:
        seed: Determines all draws.
        rank: Number of this process.
        world_size: Number of processes.
        num_batches: Batches of this process in an epoch.
    """

    def __init__(self, seed: int, rank: int, world_size: int, num_batches: int) -> None:
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.num_batches = num_batches
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_batches

    def rng(self, *more: int) -> np.random.Generator:
        """A generator of random numbers that is the same in all processes for one epoch and ``more``."""
        return np.random.default_rng([self.seed, self.epoch, *more])
