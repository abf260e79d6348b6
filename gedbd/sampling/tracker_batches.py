"""Batches of reports of one tracker, for a training on several trackers."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from gedbd.sampling.batches import BatchIndices, BatchSampler, SamplerInputs
from gedbd.sampling.group_batches import nearest_rows
from gedbd.sampling.pairs import positive_pairs

TRACKERS, ORDER, BATCH = range(3)  # what random numbers are for: each use has its own generator


class TrackerBatchSampler(BatchSampler[BatchIndices]):
    """Samples batches from one tracker each: groups with K random reports, and hard negatives of these reports.

    The tracker of a batch is random, with a probability proportional to a power of its number of groups. The groups of
    a tracker are drawn without replacement, over all epochs, until each has been drawn; then they are reshuffled. So a
    batch depends on the seed and on the numbers of its epoch and batch alone.

    A hard negative is one of the nearest reports of another group of the tracker, by the vectors of the untrained
    encoder. Pairs, which are logged, are all pairs inside groups and as many random ones across groups.
    """

    def __init__(self, inputs: SamplerInputs, settings: "TrackerBatches", rank: int, world_size: int) -> None:
        self.inputs = inputs
        self.settings = settings
        rows = np.flatnonzero(inputs.training)
        sizes = np.bincount(inputs.observed_group[rows], minlength=len(inputs.observed_group))
        paired = rows[sizes[inputs.observed_group[rows]] > 1]
        order = paired[np.argsort(inputs.observed_group[paired], kind="stable")]
        # A group starts where the number changes: 2 2 2 7 7 is split at 3.
        groups = np.split(order, np.flatnonzero(np.diff(inputs.observed_group[order])) + 1)
        by_tracker: dict[int, list[np.ndarray]] = {}
        for group in groups:
            by_tracker.setdefault(int(inputs.first_of_tracker[group[0]]), []).append(group)
        self.groups = list(by_tracker.values())  # the groups of each tracker
        weights = np.array([len(of_tracker) for of_tracker in self.groups]) ** settings.power
        self.probabilities = weights / weights.sum()
        super().__init__(settings.seed, rank, world_size, num_batches=-(-settings.batches_per_epoch // world_size))

    def __iter__(self) -> Iterator[BatchIndices]:
        drawn = np.zeros(len(self.groups), dtype=np.int64)  # batches of each tracker so far
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
        return rng.choice(len(self.groups), self.num_batches * self.world_size, p=self.probabilities)

    def _next_groups(self, tracker: int, number: int) -> list[np.ndarray]:
        """The groups of a tracker's batch ``number``; if it begins another round, none of them twice."""
        groups = self.groups[tracker]
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
        group = self.inputs.observed_group[rows]
        positive = np.stack(positive_pairs(group), axis=1)
        across = np.stack(np.triu_indices(len(rows), 1), axis=1)
        across = rng.permutation(across[group[across[:, 0]] != group[across[:, 1]]])
        pairs = np.concatenate([positive, across[: len(positive)]])
        return BatchIndices(rows, rows[pairs], np.repeat([1, 0], [len(positive), len(pairs) - len(positive)]))

    @cached_property
    def nearest(self) -> dict[int, np.ndarray]:
        """Of each report of a group, the reports of other groups among the nearest ones in its tracker."""
        group = self.inputs.observed_group
        skipped = self.settings.skip_nearest
        nearest: dict[int, np.ndarray] = {}
        for groups in self.groups:
            reports = np.concatenate(groups)
            is_candidate = self.inputs.training & (
                self.inputs.first_of_tracker == self.inputs.first_of_tracker[reports[0]]
            )
            count = skipped + self.settings.neighbours + 1  # itself
            assert self.inputs.vectors is not None
            found = nearest_rows(self.inputs.vectors, reports, np.flatnonzero(is_candidate), count)
            nearest |= {row: near[group[near] != group[row]][skipped:] for row, near in found.items()}
        return nearest


@dataclass(frozen=True)
class TrackerBatches:
    """Settings of ``TrackerBatchSampler``."""

    batch_size: int  # number of reports of a batch on each device, less where two of its choices are the same report
    seed: int  # seed of the random numbers
    batches_per_epoch: int  # of all devices together
    per_group: int  # number K of reports of each group; a smaller group contributes all of its reports
    hard_negatives: int  # number of hard negatives for each group
    neighbours: int  # number of nearest reports that they are drawn from, of which those of the own group do not count
    skip_nearest: int = 0  # number of the nearest ones to leave out, as they may be unmarked duplicates
    power: float = 0.5  # 1 draws all groups equally often, 0 all trackers
    hard: float = 0.0  # always 0: no negatives are chosen by the vectors of the last epoch

    provides: ClassVar[frozenset[str]] = frozenset({"pairs", "groups"})
    reads_groups: ClassVar[bool] = True
    reads_untrained: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.per_group < 2 or self.groups_per_batch < 2:
            raise ValueError(
                f"batches.per_group={self.per_group} must be 2 or more, and with batches.hard_negatives="
                f"{self.hard_negatives} fit twice into batch_size={self.batch_size}"
            )

    @property
    def groups_per_batch(self) -> int:
        """Number of groups in a batch."""
        return self.batch_size // (self.per_group + self.hard_negatives)

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> BatchSampler[BatchIndices]:
        """The batches of one process of ``world_size``, in every epoch."""
        return TrackerBatchSampler(inputs, self, rank, world_size)
