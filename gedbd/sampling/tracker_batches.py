"""Batches of reports of one tracker, for a training on several trackers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gedbd.sampling.batches import BatchIndices, SamplerInputs
from gedbd.sampling.group_batches import GroupBatchSampler, PKBatches, nearest_rows

TRACKERS, ORDER, BATCH = range(3)  # what random numbers are for: each use has its own generator


class TrackerBatchSampler(GroupBatchSampler):
    """Samples batches from one tracker each: groups with K random reports, and hard negatives of these reports.

    The tracker of a batch is random, with a probability proportional to a power of its number of groups. The groups of
    a tracker are drawn without replacement, over all epochs, until each has been drawn; then they are reshuffled. So a
    batch depends on the seed and on the numbers of its epoch and batch alone.

    A hard negative is one of the nearest reports of another group of the tracker, by the vectors of the untrained
    encoder.
    """

    settings: "TrackerBatches"

    def __init__(self, inputs: SamplerInputs, settings: "TrackerBatches", rank: int, world_size: int) -> None:
        super().__init__(inputs, settings, rank, world_size)
        by_tracker: dict[int, list[np.ndarray]] = {}
        for group in self.groups:
            by_tracker.setdefault(int(inputs.first_of_tracker[group[0]]), []).append(group)
        self.by_tracker = list(by_tracker.values())  # the groups of each tracker
        weights = np.array([len(groups) for groups in self.by_tracker]) ** settings.power
        self.probabilities = weights / weights.sum()

    def _total_batches(self) -> int:
        """Batches per epoch of all processes."""
        return self.settings.batches_per_epoch

    def __iter__(self) -> Iterator[BatchIndices]:
        drawn = np.zeros(len(self.by_tracker), dtype=np.int64)  # batches of each tracker so far
        for epoch in range(self.epoch):
            drawn += np.bincount(self._trackers(epoch), minlength=len(drawn))
        for number, tracker in enumerate(self._trackers(self.epoch)):
            if number % self.world_size == self.rank:
                rng = np.random.default_rng([self.seed, self.epoch, BATCH, number])
                yield self._batch(self._next_groups(tracker, drawn[tracker]), rng)
            drawn[tracker] += 1

    def _trackers(self, epoch: int) -> np.ndarray:
        """The tracker of each batch of all processes."""
        rng = np.random.default_rng([self.seed, epoch, TRACKERS])
        return rng.choice(len(self.by_tracker), self.num_batches * self.world_size, p=self.probabilities)

    def _next_groups(self, tracker: int, number: int) -> list[np.ndarray]:
        """The groups of a tracker's batch ``number``; if it begins another round, none of them twice."""
        groups = self.by_tracker[tracker]
        # Batches of 2 from 5 groups: the third one takes the last group of round 0 and the first one of round 1.
        places = np.arange(number * self.settings.groups_per_batch, (number + 1) * self.settings.groups_per_batch)
        chosen: dict[int, np.ndarray] = {}
        for place in places:
            shuffle, position = divmod(int(place), len(groups))
            order = np.random.default_rng([self.seed, shuffle, ORDER, tracker]).permutation(len(groups))
            chosen[int(order[position])] = groups[order[position]]
        return list(chosen.values())

    def _batch(self, groups: list[np.ndarray], rng: np.random.Generator) -> BatchIndices:
        """The reports of some groups, hard negatives, and pairs of these."""
        drawn = []
        for members in groups:
            reports = rng.permutation(members)[: self.settings.per_group]
            near = self.nearest[int(rng.choice(reports))]
            drawn += [reports, rng.permutation(near)[: self.settings.hard_negatives]]
        rows = np.unique(np.concatenate(drawn))
        return BatchIndices(rows, *self._pairs(rows, rng))

    @cached_property
    def nearest(self) -> dict[int, np.ndarray]:
        """Of each report of a group, the reports of other groups among the nearest ones in its tracker."""
        group = self.inputs.observed_group
        skipped = self.settings.skip_nearest
        nearest: dict[int, np.ndarray] = {}
        assert self.inputs.vectors is not None
        count = skipped + self.settings.neighbours + 1  # itself
        for groups in self.by_tracker:
            reports = np.concatenate(groups)
            in_tracker = self.inputs.first_of_tracker == self.inputs.first_of_tracker[reports[0]]
            is_candidate = self.inputs.training & in_tracker
            found = nearest_rows(self.inputs.vectors, reports, np.flatnonzero(is_candidate), count)
            nearest |= {row: near[group[near] != group[row]][skipped:] for row, near in found.items()}
        return nearest


@dataclass(frozen=True)
class TrackerBatches(PKBatches):
    """Settings of ``TrackerBatchSampler``; a group with fewer than K reports contributes all of them.

    ``singletons`` and ``hard`` are 0: hard negatives are drawn from the ``neighbours`` nearest reports by the untrained
    encoder, less those of the own group.
    """

    batches_per_epoch: int  # of all devices together
    hard_negatives: int  # number of hard negatives for each group
    skip_nearest: int  # number of the nearest reports to leave out, as they may be unmarked duplicates
    power: float  # 1 draws all groups equally often, 0 all trackers

    reads_untrained: ClassVar[bool] = True
    sampler: ClassVar[type[GroupBatchSampler]] = TrackerBatchSampler

    def __post_init__(self) -> None:
        if self.singletons or self.hard:
            raise ValueError(
                "pairs=trackers draws hard negatives by batches.hard_negatives: leave singletons and hard 0"
            )
        if self.per_group < 2 or self.groups_per_batch < 2:
            raise ValueError(
                f"batches.per_group={self.per_group} must be 2 or more, and with batches.hard_negatives="
                f"{self.hard_negatives} fit twice into batch_size={self.batch_size}"
            )

    @property
    def groups_per_batch(self) -> int:
        """Number of groups in a batch."""
        return self.batch_size // (self.per_group + self.hard_negatives)
