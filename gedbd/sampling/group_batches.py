"""Batches of whole duplicate groups and singletons."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import faiss
import numpy as np

from gedbd.sampling.batches import BatchIndices, BatchSampler, SamplerInputs
from gedbd.sampling.pairs import positive_pairs


class GroupBatchSampler(BatchSampler[BatchIndices]):
    """Samples batches of whole duplicate groups and singletons.

    Positives are all pairs inside groups, negatives are sampled across groups. Each report of an observed group is
    encoded once per epoch. A group larger than a batch is split at random in each epoch.
    """

    def __init__(self, inputs: SamplerInputs, settings: "GroupBatches", rank: int, world_size: int) -> None:
        self.inputs = inputs
        self.settings = settings
        rows = np.flatnonzero(inputs.training)
        sizes = np.bincount(inputs.observed_group[rows], minlength=len(inputs.observed_group))
        paired = rows[sizes[inputs.observed_group[rows]] > 1]
        self.singletons = np.setdiff1d(rows, paired)
        order = paired[np.argsort(inputs.observed_group[paired], kind="stable")]
        # A group starts where the number changes: 2 2 2 7 7 is split at 3.
        self.groups = np.split(order, np.flatnonzero(np.diff(inputs.observed_group[order])) + 1)
        super().__init__(settings.seed, rank, world_size, num_batches=-(-self._total_batches() // world_size))

    def _total_batches(self) -> int:
        """Batches per epoch of all processes."""
        return -(-sum(map(len, self.groups)) // self.settings.capacity)

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        vectors = self.inputs.vectors
        nearest: dict[int, np.ndarray] = {}  # the nearest singletons of each grouped report
        if vectors is not None and len(self.singletons) and self.settings.singletons:
            grouped = np.concatenate(self.groups)
            nearest = nearest_rows(vectors, grouped, self.singletons, self.settings.neighbours)
        for number, rows in enumerate(self._grouped_rows(rng)):
            if number % self.world_size == self.rank:
                # A generator for each batch, so that a process need not sample the batches of other processes.
                batch_rng = self.rng(number)
                rows = np.sort(np.concatenate([rows, self._draw_singletons(rows, nearest, batch_rng)]))
                yield BatchIndices(rows, *self._pairs(rows, batch_rng))

    def _grouped_rows(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The grouped rows of each batch of all processes: shuffled groups in batches of about equal size."""
        pieces: list[np.ndarray] = []
        for number in rng.permutation(len(self.groups)):
            group = self.groups[number]
            num_pieces = -(-len(group) // self.settings.capacity)
            pieces += np.array_split(rng.permutation(group), num_pieces) if num_pieces > 1 else [group]
        num_batches = self.num_batches * self.world_size
        # Pieces are repeated if there are fewer than processes, so that no batch is empty.
        pieces += [pieces[number % len(pieces)] for number in range(num_batches - len(pieces))]
        batches: list[list[np.ndarray]] = [[] for _ in range(num_batches)]
        for piece, batch in zip(pieces, balance([len(piece) for piece in pieces], num_batches), strict=True):
            batches[batch].append(piece)
        return [np.concatenate(batch) for batch in batches]

    def _draw_singletons(
        self, rows: np.ndarray, nearest: dict[int, np.ndarray], rng: np.random.Generator
    ) -> np.ndarray:
        """The singletons of a batch: the fraction ``hard`` are near its groups, the others random."""
        count = min(round(self.settings.singletons * self.settings.batch_size), len(self.singletons))
        anchors = rng.permutation(rows)[: round(self.settings.hard * count)] if nearest else rows[:0]
        hard = np.unique([rng.choice(nearest[int(row)]) for row in anchors]).astype(np.int64)
        # Twice as many as needed, since some may be hard ones.
        easy = rng.choice(self.singletons, min(2 * count, len(self.singletons)), replace=False)
        easy = np.setdiff1d(easy, hard)
        return np.concatenate([hard, rng.permutation(easy)[: count - len(hard)]])

    def _pairs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """All pairs inside groups, and similar and random pairs across groups."""
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
    """Assigns consecutive pieces to nonempty batches of about equal size.

    A piece belongs to the batch of its first report in equal batches. Sizes 2 5 2 3 in 3 batches of 4 reports: the
    pieces start at reports 0, 2, 7 and 9, in batches 0, 0, 1 and 2.

    Args:
        sizes: Number of reports of each piece; at least ``num_batches`` pieces.
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
        # A large piece may span a whole batch, which must not stay empty: sizes 9 1 1 in 3 batches start in 0, 2, 2.
        ideal = min(ideal, batch + 1)
        # The remaining pieces must suffice for the remaining batches: sizes 1 1 9 start in 0, 0, 0.
        batch = max(ideal, num_batches - (len(sizes) - number))
        assigned.append(batch)
        start += size
    return assigned


@dataclass(frozen=True)
class GroupBatches:
    """Settings of ``GroupBatchSampler``."""

    batch_size: int  # approximate number of reports of a batch on each device, as groups stay whole
    seed: int  # seed of the random numbers
    singletons: float  # fraction of reports without an observed duplicate
    negatives_per_positive: float  # number of pairs across groups for each pair inside a group
    # fraction of these pairs, and of the singletons, that are the most similar by the vectors of the last epoch; the
    # others are random. Hard singletons come from the ``neighbours`` nearest of a group
    hard: float
    neighbours: int  # see ``hard``. More neighbours lower the risk of sampling an unmarked duplicate

    provides: ClassVar[frozenset[str]] = frozenset({"pairs", "groups"})
    reads_groups: ClassVar[bool] = True
    reads_untrained: ClassVar[bool] = False
    sampler: ClassVar[type[GroupBatchSampler]] = GroupBatchSampler

    def __post_init__(self) -> None:
        if self.batch_size < 4:
            raise ValueError(f"batches.batch_size={self.batch_size} must be 4 or more")
        # With 2, a group of 3 would be split into a pair and a single report.
        if self.capacity < 3:
            raise ValueError(
                f"batches.singletons={self.singletons} leaves {self.capacity} of batches.batch_size={self.batch_size}"
                " reports to duplicate groups: 3 or more are needed"
            )

    @property
    def capacity(self) -> int:
        """Number of grouped reports of a batch."""
        return self.batch_size - round(self.singletons * self.batch_size)

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> BatchSampler[BatchIndices]:
        """The batches of a process."""
        return self.sampler(inputs, self, rank, world_size)


class PKBatchSampler(GroupBatchSampler):
    """Samples batches of P groups with K random reports each; each group occurs once per epoch.

    So large groups have no more weight than small ones. A group with fewer than K observed reports contributes all of
    them. A short last batch is filled with groups that occurred before.
    """

    settings: "PKBatches"

    def _total_batches(self) -> int:
        """Batches per epoch of all processes."""
        return -(-len(self.groups) // self.settings.groups_per_batch)

    def _grouped_rows(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The grouped rows of each batch of all processes."""
        num_groups = min(self.settings.groups_per_batch, len(self.groups))
        batches = []
        for numbers in self._arrange(num_groups, self.num_batches * self.world_size, rng):
            drawn = [rng.permutation(self.groups[number])[: self.settings.per_group] for number in numbers]
            batches.append(np.concatenate(drawn))
        return batches

    def _arrange(self, num_groups: int, num_batches: int, rng: np.random.Generator) -> list[list[int]]:
        """The groups of each batch: random ones, then the fraction ``hard`` of their nearest."""
        hard = round(self.settings.hard * num_groups)
        nearest = None
        if hard and self.inputs.vectors is not None:
            nearest = nearest_groups(self.inputs.vectors, self.groups, self.settings.neighbours)
        # A dict as an ordered set of the remaining groups, in random order, with fast removal.
        waiting = dict.fromkeys(rng.permutation(len(self.groups)).tolist())
        arranged = []
        for _ in range(num_batches):
            batch: list[int] = []
            self._take(list(waiting), num_groups - hard, batch, waiting)
            if nearest is not None:
                # Transposed: the nearest group of each group of the batch, then the second nearest, ...
                self._take(nearest[batch].T.flatten().tolist(), num_groups, batch, waiting)
            self._take(list(waiting), num_groups, batch, waiting)
            if len(batch) < num_groups:
                reshuffled = rng.permutation(np.setdiff1d(np.arange(len(self.groups)), batch)).tolist()
                waiting = dict.fromkeys(reshuffled)
                self._take(reshuffled, num_groups, batch, waiting)
            arranged.append(batch)
        return arranged

    @staticmethod
    def _take(candidates: list[int], max_groups: int, batch: list[int], waiting: dict[int, None]) -> None:
        """Moves remaining candidates into the batch, until it has ``max_groups``."""
        for number in candidates:
            if len(batch) >= max_groups:
                return
            if number in waiting:
                del waiting[number]
                batch.append(number)


@dataclass(frozen=True)
class PKBatches(GroupBatches):
    """Settings of ``PKBatchSampler``; P is ``capacity`` divided by K.

    ``hard`` is the fraction of the groups, too, that are among the ``neighbours`` nearest of the others. A loss that
    reads groups only logs the pairs across groups.
    """

    per_group: int  # number K of reports of each group

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
        """Number P of groups in a batch."""
        return self.capacity // self.per_group


def nearest_rows(vectors: np.ndarray, rows: np.ndarray, candidates: np.ndarray, count: int) -> dict[int, np.ndarray]:
    """The ``count`` nearest candidates of each row, by unit vectors ``(N, D)``, nearest first."""
    count = min(count, len(candidates))
    _, indices = faiss.knn(vectors[rows], vectors[candidates], count, metric=faiss.METRIC_INNER_PRODUCT)
    return dict(zip(rows.tolist(), candidates[indices], strict=True))


def nearest_groups(vectors: np.ndarray, groups: list[np.ndarray], count: int) -> np.ndarray:
    """The nearest groups of each group, itself included, by the cosine of the means of their unit rows ``(N, D)``.

    Returns:
        ``(G, count + 1)`` group numbers, nearest first; fewer columns if there are fewer groups.
    """
    means = np.stack([vectors[rows].mean(axis=0) for rows in groups]).astype(np.float32)
    # The mean may be zero.
    means /= np.linalg.norm(means, axis=1, keepdims=True).clip(1e-12)
    _, numbers = faiss.knn(means, means, min(count + 1, len(means)), metric=faiss.METRIC_INNER_PRODUCT)
    return np.asarray(numbers)
