"""Batches of a fixed list of pairs, those of a group together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from gedbd.sampling.batches import BatchIndices, BatchSampler, SamplerInputs


class PairBatchSampler(BatchSampler):
    """A fixed list of pairs, ``batch_size`` at a time, ordered so that pairs of one report share a batch.

    A report of a duplicate group occurs in every pair of its group and in their anchor negatives. These pairs follow
    each other, the groups in random order, so that most reports are encoded once an epoch; with ``shuffle`` all pairs
    are in random order. The processes share each step; if the last step is short, it repeats pairs of the first.
    """

    def __init__(
        self, inputs: SamplerInputs, batch_size: int, seed: int, rank: int, world_size: int, shuffle: bool
    ) -> None:
        self.ends = inputs.pairs[["earlier", "later"]].to_numpy()
        self.label = inputs.pairs["label"].to_numpy()
        self.batch_size = batch_size
        self.shuffle = shuffle
        # The group of a pair is that of its earlier report, unless this one is a singleton and the later one is not:
        # an anchor negative belongs with the group of its anchor.
        is_singleton = np.bincount(inputs.observed_group)[inputs.observed_group[self.ends]] == 1
        side = np.where(is_singleton[:, 0] & ~is_singleton[:, 1], 1, 0)
        self.group = inputs.observed_group[self.ends[np.arange(len(side)), side]]
        pairs_each = -(-len(self.ends) // world_size)
        super().__init__(seed, rank, world_size, num_batches=-(-pairs_each // batch_size))

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        place = rng.permutation(self.group.max(initial=0) + 1)
        order = rng.permutation(len(self.ends))
        if not self.shuffle:
            order = order[np.argsort(place[self.group[order]], kind="stable")]
        # np.resize repeats from the start: 5 pairs for 2 processes become 0 1 2 3 4 0.
        order = np.resize(order, -(-len(order) // self.world_size) * self.world_size)
        together = self.batch_size * self.world_size
        for first in range(0, len(order), together):
            own = np.array_split(order[first : first + together], self.world_size)[self.rank]
            yield BatchIndices(np.unique(self.ends[own]), self.ends[own], self.label[own])


@dataclass(frozen=True)
class PairBatches:
    """Batches of a fixed list of pairs: see ``PairBatchSampler``.

    Args:
        batch_size: Pairs of a batch, on each device.
        seed: Determines the order.
        shuffle: All pairs in random order; by default those of a group follow each other.
        hard: Always 0: the list is fixed, so there are no hard negatives to choose.
    """

    batch_size: int
    seed: int
    shuffle: bool = False
    hard: float = 0.0

    provides: ClassVar[frozenset[str]] = frozenset({"pairs", "groups"})
    reads_groups: ClassVar[bool] = False

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> BatchSampler:
        """The batches of one process of ``world_size``, in every epoch."""
        return PairBatchSampler(inputs, self.batch_size, self.seed, rank, world_size, self.shuffle)
