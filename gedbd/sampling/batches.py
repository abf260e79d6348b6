"""Inputs and outputs of batch samplers; batches of a fixed list of pairs, and of documents of similar length."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
import pandas as pd
from torch.utils.data import Sampler

POOL_BATCHES = 50  # more of them pad less, fewer of them mix lengths more
NO_PAIRS = np.zeros((0, 2), dtype=np.int64)
NO_LABEL = np.zeros(0, dtype=np.int64)
Keys = TypeVar("Keys")


class BatchIndices(NamedTuple):
    """A batch of one process, as rows and pairs."""

    rows: np.ndarray  # ``(U,)`` distinct reports, ascending
    pairs: np.ndarray  # ``(P, 2)`` rows of the corpus, all of them among ``rows``
    label: np.ndarray  # ``(P,)`` 1 for duplicates, else 0
    # ``(P,)`` a non-duplicate of the first report of each pair, for losses of triplets, or None
    negatives: np.ndarray | None = None


class SamplerInputs(NamedTuple):
    """The data that batches are drawn from."""

    pairs: pd.DataFrame  # training pairs with ``earlier``, ``later`` and ``label``
    observed_group: np.ndarray  # ``(N,)`` groups that training may use
    training: np.ndarray  # ``(N,)`` bool: the reports of the training split
    # ``(N, D)`` unit rows as last encoded, or by the untrained encoder with ``Batches.reads_untrained``; None where no
    # hard negatives are drawn
    vectors: np.ndarray | None
    first_of_tracker: np.ndarray  # ``(N,)`` the first row of each report's tracker


class Batches(Protocol):
    """Settings of a batch sampler.

    Attributes:
        hard: Fraction of the negatives that are chosen by the vectors of the last epoch.
        provides: Labels of a batch that losses may read: ``pairs``, ``groups``, ``triplets``.
        reads_groups: Whether batches are built from whole duplicate groups.
        reads_untrained: Whether hard negatives are chosen by the vectors of the untrained encoder.
    """

    hard: float
    provides: ClassVar[frozenset[str]]
    reads_groups: ClassVar[bool]
    reads_untrained: ClassVar[bool]

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> "BatchSampler[BatchIndices]":
        """The batches of one process of ``world_size``, in every epoch."""
        ...


@dataclass(eq=False)
class BatchSampler(Sampler[Keys]):
    """Yields the batches of an epoch, which depend only on the seed and the epoch.

    All epochs and all processes have equally many batches: in distributed training each process waits for the others.
    """

    seed: int  # determines all draws
    rank: int  # number of this process
    world_size: int  # number of processes
    num_batches: int  # number of batches of this process in an epoch

    def __post_init__(self) -> None:
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch; Lightning calls it at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.num_batches

    def rng(self, *more: int) -> np.random.Generator:
        """A generator of random numbers that is the same in all processes for one epoch and ``more``."""
        return np.random.default_rng([self.seed, self.epoch, *more])


class LengthBatchSampler(BatchSampler[BatchIndices]):
    """Documents in random order, sorted by length within pools of ``POOL_BATCHES`` batches; batches in random order.

    In an epoch, each document is drawn once. The processes share each batch and get documents of about the same length;
    if the last batch is short, it is filled with documents of the same epoch.

    Raises:
        ValueError: If there is no document.
    """

    def __init__(
        self,
        rows: np.ndarray,
        lengths: np.ndarray,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
    ) -> None:
        if len(rows) == 0:
            raise ValueError("there is no document to draw batches from: the training split is empty")
        super().__init__(seed, rank, world_size, num_batches=-(-len(rows) // (batch_size * world_size)))
        self.rows = rows
        self.lengths = lengths
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        # np.resize repeats from the start: 5 documents for 2 processes become 0 1 2 3 4 0.
        order = rng.permutation(len(self.rows))
        order = np.resize(order, -(-len(order) // self.world_size) * self.world_size)
        global_batch_size = self.batch_size * self.world_size
        batches: list[np.ndarray] = []
        for start in range(0, len(order), global_batch_size * POOL_BATCHES):
            pool = order[start : start + global_batch_size * POOL_BATCHES]
            pool = pool[np.argsort(self.lengths[pool], kind="stable")]
            batches += [pool[first : first + global_batch_size] for first in range(0, len(pool), global_batch_size)]
        for number in rng.permutation(len(batches)):
            chosen = batches[number][self.rank :: self.world_size]
            yield BatchIndices(np.unique(self.rows[chosen]), NO_PAIRS, NO_LABEL)


class PairBatchSampler(BatchSampler[BatchIndices]):
    """A fixed list of pairs, ``batch_size`` at a time, ordered so that pairs of one report share a batch.

    A report of a duplicate group occurs in every pair of its group and in their anchor negatives. These pairs follow
    each other, the groups in random order, so that most reports are encoded once per epoch; with ``shuffle`` all pairs
    are in random order. The processes share each batch; if the last batch is short, it repeats pairs of the first.
    """

    def __init__(self, inputs: SamplerInputs, settings: "PairBatches", rank: int, world_size: int) -> None:
        self.ends = inputs.pairs[["earlier", "later"]].to_numpy()
        self.label = inputs.pairs["label"].to_numpy()
        self.settings = settings
        # The group of a pair is that of its earlier report, unless this one is a singleton and the later one is not:
        # an anchor negative belongs with the group of its anchor.
        is_singleton = np.bincount(inputs.observed_group)[inputs.observed_group[self.ends]] == 1
        side = np.where(is_singleton[:, 0] & ~is_singleton[:, 1], 1, 0)
        self.group = inputs.observed_group[self.ends[np.arange(len(side)), side]]
        pairs_per_process = -(-len(self.ends) // world_size)
        super().__init__(settings.seed, rank, world_size, num_batches=-(-pairs_per_process // settings.batch_size))

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        order_of_group = rng.permutation(self.group.max(initial=0) + 1)
        order = rng.permutation(len(self.ends))
        if not self.settings.shuffle:
            order = order[np.argsort(order_of_group[self.group[order]], kind="stable")]
        # np.resize repeats from the start: 5 pairs for 2 processes become 0 1 2 3 4 0.
        order = np.resize(order, -(-len(order) // self.world_size) * self.world_size)
        global_batch_size = self.settings.batch_size * self.world_size
        for first in range(0, len(order), global_batch_size):
            share = np.array_split(order[first : first + global_batch_size], self.world_size)[self.rank]
            yield BatchIndices(np.unique(self.ends[share]), self.ends[share], self.label[share])


@dataclass(frozen=True)
class PairBatches:
    """Batches of a fixed list of pairs: see ``PairBatchSampler``."""

    batch_size: int  # number of pairs in a batch, on each device
    seed: int  # determines the order
    shuffle: bool = False  # all pairs in random order; by default those of a group follow each other
    hard: float = 0.0  # always 0: the list is fixed, so there are no hard negatives to choose

    provides: ClassVar[frozenset[str]] = frozenset({"pairs", "groups"})
    reads_groups: ClassVar[bool] = False
    reads_untrained: ClassVar[bool] = False

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> BatchSampler[BatchIndices]:
        """The batches of one process of ``world_size``, in every epoch."""
        return PairBatchSampler(inputs, self, rank, world_size)
