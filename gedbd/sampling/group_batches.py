"""Batches of whole duplicate groups and singletons, trained on the pairs between them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import faiss
import numpy as np

from gedbd.sampling.batches import BatchIndices, BatchSampler, SamplerInputs
from gedbd.sampling.pairs import positive_pairs


class GroupBatchSampler(BatchSampler):
    """Whole duplicate groups and singletons, ``batch_size`` reports at a time.

    Positives are all pairs inside the groups, negatives are drawn across them. Every report of an observed group is
    encoded once an epoch, however many pairs contain it. A group larger than a batch is cut into random pieces, which
    differ from epoch to epoch. For the arguments see ``GroupBatches``.
    """

    def __init__(self, inputs: SamplerInputs, settings: "GroupBatches", rank: int, world_size: int) -> None:
        self.inputs = inputs
        self.settings = settings
        rows = np.flatnonzero(inputs.training)
        sizes = np.bincount(inputs.observed_group[rows], minlength=len(inputs.observed_group))
        paired = rows[sizes[inputs.observed_group[rows]] > 1]
        self.singletons = np.setdiff1d(rows, paired)
        order = paired[np.argsort(inputs.observed_group[paired], kind="stable")]
        # A new group starts where the number changes: groups 2 2 2 7 7 are split at 3.
        self.groups = np.split(order, np.flatnonzero(np.diff(inputs.observed_group[order])) + 1)
        super().__init__(settings.seed, rank, world_size, num_batches=-(-self._total_batches() // world_size))

    def _total_batches(self) -> int:
        """Batches of an epoch, of all processes."""
        return -(-sum(map(len, self.groups)) // self.settings.capacity)

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        vectors = self.inputs.vectors
        nearest: dict[int, np.ndarray] = {}  # for each report of a group, the singletons most similar to it
        if vectors is not None and len(self.singletons) and self.settings.singletons:
            grouped = np.concatenate(self.groups)
            nearest = nearest_rows(vectors, grouped, self.singletons, self.settings.neighbours)
        for number, rows in enumerate(self._grouped_rows(rng)):
            if number % self.world_size == self.rank:
                # Draws of one batch have random numbers of their own, so that processes need not make all draws.
                own_rng = self.rng(number)
                rows = np.sort(np.concatenate([rows, self._draw_singletons(rows, nearest, own_rng)]))
                yield BatchIndices(rows, *self._pairs(rows, own_rng))

    def _grouped_rows(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The rows of groups in each batch of all processes: groups in random order, batches of about equal size."""
        pieces: list[np.ndarray] = []
        for number in rng.permutation(len(self.groups)):
            group = self.groups[number]
            num_pieces = -(-len(group) // self.settings.capacity)
            pieces += np.array_split(rng.permutation(group), num_pieces) if num_pieces > 1 else [group]
        num_batches = self.num_batches * self.world_size
        # With more processes than pieces, pieces are repeated, so that no process has an empty batch.
        pieces += [pieces[number % len(pieces)] for number in range(num_batches - len(pieces))]
        batches: list[list[np.ndarray]] = [[] for _ in range(num_batches)]
        for piece, batch in zip(pieces, balance([len(piece) for piece in pieces], num_batches), strict=True):
            batches[batch].append(piece)
        return [np.concatenate(batch) for batch in batches]

    def _draw_singletons(
        self, rows: np.ndarray, nearest: dict[int, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """Singletons of a batch: the fraction ``hard`` from among the nearest of its groups, the others at random."""
        count = min(round(self.settings.singletons * self.settings.batch_size), len(self.singletons))
        anchors = rng.permutation(rows)[: round(self.settings.hard * count)] if nearest else rows[:0]
        hard = np.unique([rng.choice(nearest[int(row)]) for row in anchors]).astype(np.int64)
        # Twice as many as needed: some may be among the hard ones already.
        easy = rng.choice(self.singletons, min(2 * count, len(self.singletons)), replace=False)
        easy = np.setdiff1d(easy, hard)
        return np.concatenate([hard, rng.permutation(easy)[: count - len(hard)]])

    def _pairs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """All pairs inside groups, and pairs across them: the most similar ones and random ones."""
        group = self.inputs.observed_group[rows]
        positive = np.stack(positive_pairs(group), axis=1)
        across = np.stack(np.triu_indices(len(rows), 1), axis=1)
        across = rng.permutation(across[group[across[:, 0]] != group[across[:, 1]]])
        count = round(self.settings.negatives_per_positive * len(positive))
        hard = min(round(self.settings.hard * count), len(across))
        vectors = self.inputs.vectors
        if hard and vectors is not None:
            z = vectors[rows]
            cosine = (z @ z.T)[across[:, 0], across[:, 1]]
            across = across[np.argsort(-cosine, kind="stable")]
            across = np.concatenate([across[:hard], rng.permutation(across[hard:])])
        pairs = np.concatenate([positive, across[:count]])
        return rows[pairs], np.repeat([1, 0], [len(positive), len(pairs) - len(positive)])


def balance(sizes: Sequence[int], num_batches: int) -> list[int]:
    """Assigns consecutive pieces to batches of about equal size, at least one piece to each.

    A piece goes where its first report would go if all reports were cut into equal batches. Sizes 2 5 2 3 in 3 batches
    of 4 reports: the pieces start at reports 0, 2, 7 and 9, which lie in batches 0, 0, 1 and 2.

    Args:
        sizes: Reports of each piece; ``num_batches`` of them or more.
        num_batches: Number of batches.

    Returns:
        The batch of each piece, ascending.
    """
    total = sum(sizes)
    assigned: list[int] = []
    start = 0
    batch = -1
    for number, size in enumerate(sizes):
        ideal = start * num_batches // total
        # A large piece may reach over a whole batch: sizes 9 1 1 in 3 batches start in 0, 2, 2. None is skipped.
        ideal = min(ideal, batch + 1)
        # The pieces that are left must suffice for the batches that are left: sizes 1 1 9 start in 0, 0, 0.
        batch = max(ideal, num_batches - (len(sizes) - number))
        assigned.append(batch)
        start += size
    return assigned


@dataclass(frozen=True)
class GroupBatches:
    """Batches of whole duplicate groups and singletons: see ``GroupBatchSampler``.

    Args:
        batch_size: Approximate number of reports of a batch, on each device: groups stay whole.
        seed: Determines all draws.
        singletons: Fraction of them that have no observed duplicate.
        negatives_per_positive: Pairs across groups for each pair inside one.
        hard: Fraction of these pairs, and of the singletons, that are the most similar by the vectors of the last
            epoch; the others are drawn at random. Hard singletons come from the ``neighbours`` nearest of a group.
        neighbours: See ``hard``. More of them lower the risk of drawing a duplicate that is not marked as one.
    """

    batch_size: int
    seed: int
    singletons: float
    negatives_per_positive: float
    hard: float
    neighbours: int

    provides: ClassVar[frozenset[str]] = frozenset({"pairs", "groups"})
    reads_groups: ClassVar[bool] = True
    sampler: ClassVar[type[GroupBatchSampler]] = GroupBatchSampler

    def __post_init__(self) -> None:
        if self.batch_size < 4:
            raise ValueError(f"batches.batch_size={self.batch_size} must be 4 or more")
        # With 2, a group of 3 would be cut into a pair and a single report.
        if self.capacity < 3:
            raise ValueError(
                f"batches.singletons={self.singletons} leaves {self.capacity} of batches.batch_size={self.batch_size}"
                " reports to duplicate groups: 3 or more are needed"
            )

    @property
    def capacity(self) -> int:
        """Reports of a batch that belong to groups."""
        return self.batch_size - round(self.singletons * self.batch_size)

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> BatchSampler:
        """The batches of one process of ``world_size``, in every epoch."""
        return self.sampler(inputs, self, rank, world_size)


class PKBatchSampler(GroupBatchSampler):
    """P groups in a batch, with K reports drawn from each in each epoch; every group is in a batch once an epoch.

    So a group of twenty weighs no more than one of two. A group with fewer than K observed reports contributes all of
    them. If the last batch is short, it is filled with groups that occurred before. For the arguments see
    ``PKBatches``.
    """

    settings: "PKBatches"

    def _total_batches(self) -> int:
        """Batches of an epoch, of all processes."""
        return -(-len(self.groups) // self.settings.groups_per_batch)

    def _grouped_rows(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The rows of groups in each batch of all processes."""
        num_groups = min(self.settings.groups_per_batch, len(self.groups))
        batches = []
        for numbers in self._arrange(num_groups, self.num_batches * self.world_size, rng):
            drawn = [rng.permutation(self.groups[number])[: self.settings.per_group] for number in numbers]
            batches.append(np.concatenate(drawn))
        return batches

    def _arrange(self, num_groups: int, num_batches: int, rng: np.random.Generator) -> list[list[int]]:
        """The groups of each batch: random ones, then the fraction ``hard`` from among their nearest."""
        hard = round(self.settings.hard * num_groups)
        nearest = None
        if hard and self.inputs.vectors is not None:
            nearest = nearest_groups(self.inputs.vectors, self.groups, self.settings.neighbours)
        # A dict serves as an ordered set: groups that wait, in random order, with fast removal.
        waiting = dict.fromkeys(rng.permutation(len(self.groups)).tolist())
        arranged = []
        for _ in range(num_batches):
            batch: list[int] = []
            self._take(list(waiting), num_groups - hard, batch, waiting)
            if nearest is not None:
                # Transposed: the nearest of each group in the batch first, then the second nearest of each, ...
                self._take(nearest[batch].T.flatten().tolist(), num_groups, batch, waiting)
            self._take(list(waiting), num_groups, batch, waiting)
            if len(batch) < num_groups:
                again = rng.permutation(np.setdiff1d(np.arange(len(self.groups)), batch)).tolist()
                waiting = dict.fromkeys(again)
                self._take(again, num_groups, batch, waiting)
            arranged.append(batch)
        return arranged

    @staticmethod
    def _take(candidates: list[int], max_groups: int, batch: list[int], waiting: dict[int, None]) -> None:
        """Moves the candidates that wait into the batch, until it has ``max_groups``."""
        for number in candidates:
            if len(batch) >= max_groups:
                return
            if number in waiting:
                del waiting[number]
                batch.append(number)


@dataclass(frozen=True)
class PKBatches(GroupBatches):
    """P x K batches: see ``PKBatchSampler``. P is ``capacity`` divided by K.

    Args:
        batch_size: Reports of a batch, on each device.
        seed: See ``GroupBatches``.
        singletons: Fraction of ``batch_size`` without an observed duplicate: further negatives.
        negatives_per_positive: Pairs across groups for each pair inside one; a loss that reads groups only logs them.
        hard: Fraction of a batch's groups that are the nearest of its other groups, and of its singletons.
        neighbours: Groups and singletons are hard if they are among so many nearest ones.
        per_group: K.
    """

    per_group: int

    sampler: ClassVar[type[GroupBatchSampler]] = PKBatchSampler

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_group < 2 or self.groups_per_batch < 2:
            raise ValueError(
                f"batches.per_group={self.per_group} must be 2 or more, and fit twice into the {self.capacity} reports"
                " of a batch that belong to groups (batch_size, batches.singletons)"
            )

    @property
    def groups_per_batch(self) -> int:
        """P."""
        return self.capacity // self.per_group


def nearest_rows(vectors: np.ndarray, rows: np.ndarray, candidates: np.ndarray, count: int) -> dict[int, np.ndarray]:
    """For each report the candidates most similar to it, nearest first.

    Args:
        vectors: ``(N, D)`` unit rows.
        rows: Reports.
        candidates: Other reports.
        count: Maximum number of candidates for each report.
    """
    count = min(count, len(candidates))
    _, found = faiss.knn(vectors[rows], vectors[candidates], count, metric=faiss.METRIC_INNER_PRODUCT)
    return dict(zip(rows.tolist(), candidates[found], strict=True))


def nearest_groups(vectors: np.ndarray, groups: list[np.ndarray], count: int) -> np.ndarray:
    """For each group the groups most similar to it, by the cosine of their mean vectors; a group is among its own.

    Args:
        vectors: ``(N, D)`` unit rows.
        groups: Rows of each of G groups.
        count: Number of other groups.

    Returns:
        ``(G, count + 1)`` group numbers, nearest first; fewer columns if there are fewer groups.
    """
    means = np.stack([vectors[rows].mean(axis=0) for rows in groups]).astype(np.float32)
    # A group's vectors may cancel out; the bound avoids a division by zero.
    means /= np.linalg.norm(means, axis=1, keepdims=True).clip(1e-12)
    _, found = faiss.knn(means, means, min(count + 1, len(means)), metric=faiss.METRIC_INNER_PRODUCT)
    return np.asarray(found)
