"""How training pairs are put into batches: the paper's pair list, or whole duplicate groups."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, Protocol

import numpy as np
import pandas as pd
from torch.utils.data import Sampler

from gedbd.sampling.hard_negatives import nearest_rows
from gedbd.sampling.pairs import positive_pairs


class Step(NamedTuple):
    """One process's share of a training step.

    ``rows (U,)`` distinct reports in the order of the corpus, ``pairs (P, 2)`` rows of the corpus, ``label (P,)``.
    """

    rows: np.ndarray
    pairs: np.ndarray
    label: np.ndarray


class Labelled(NamedTuple):
    """What steps are made of: training pairs with ``earlier``, ``later``, ``label``; known groups and vectors.

    ``group (N,)``, ``training (N,)`` bool, ``vectors (N, D)``: unit rows as last encoded, or None where not needed.
    """

    pairs: pd.DataFrame
    group: np.ndarray
    training: np.ndarray
    vectors: np.ndarray | None


class Share(NamedTuple):
    """The part that falls to this process, of ``world``."""

    world: int = 1
    rank: int = 0


class Batches(Protocol):
    """A way of dealing. ``hard`` is the share of negatives that are chosen by the vectors of the last epoch.

    Attributes:
        provides: Labels of a batch that losses may read: ``pairs``, ``groups``.
        reads_groups: Whether batches are built from whole duplicate groups.
    """

    hard: float
    provides: ClassVar[frozenset[str]]
    reads_groups: ClassVar[bool]

    def __call__(self, labelled: Labelled, share: Share) -> "Steps":
        """The steps of every epoch."""
        ...


class Steps(Sampler[Step]):
    """The steps of an epoch, which depend on the seed and the epoch alone; all epochs have equally many."""

    def __init__(self, seed: int, share: Share, count: int) -> None:
        self.seed, self.share, self.count, self.epoch = seed, share, count, 0

    def set_epoch(self, epoch: int) -> None:
        """Lightning tells the epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return self.count

    def rng(self, *more: int) -> np.random.Generator:
        """Random numbers of this epoch."""
        return np.random.default_rng([self.seed, self.epoch, *more])


class PairSteps(Steps):
    """A fixed list of pairs, ``batch_size`` at a time, in an order that lets a report's pairs meet.

    A report of a duplicate group is named by every pair of its group and by their anchor negatives. These lie together,
    the groups in random order, so that most reports are encoded once an epoch; with ``shuffle`` all pairs are in random
    order. Processes share each step; a last one that falls short repeats pairs of the first.
    """

    def __init__(self, labelled: Labelled, batch_size: int, seed: int, share: Share, shuffle: bool) -> None:
        self.ends = labelled.pairs[["earlier", "later"]].to_numpy()
        self.label = labelled.pairs["label"].to_numpy()
        self.batch_size, self.shuffle = batch_size, shuffle
        lone = np.bincount(labelled.group)[labelled.group[self.ends]] == 1
        side = np.where(lone[:, 0] & ~lone[:, 1], 1, 0)
        self.group = labelled.group[self.ends[np.arange(len(side)), side]]
        each = -(-len(self.ends) // share.world)
        super().__init__(seed, share, -(-each // batch_size))

    def __iter__(self) -> Iterator[Step]:
        rng = self.rng()
        place = rng.permutation(self.group.max(initial=0) + 1)
        order = rng.permutation(len(self.ends))
        if not self.shuffle:
            order = order[np.argsort(place[self.group[order]], kind="stable")]
        order = np.resize(order, -(-len(order) // self.share.world) * self.share.world)
        together = self.batch_size * self.share.world
        for first in range(0, len(order), together):
            mine = np.array_split(order[first : first + together], self.share.world)[self.share.rank]
            yield Step(np.unique(self.ends[mine]), self.ends[mine], self.label[mine])


class GroupSteps(Steps):
    """Whole duplicate groups and single reports, ``batch_size`` of them; supervision is what is between them.

    Positives are all pairs inside the groups, negatives are drawn across. Every report of a known group is encoded once
    an epoch, however many pairs name it. A group that a step cannot hold is dealt out in parts, anew in each epoch.
    For the arguments see ``Groups``.
    """

    def __init__(self, labelled: Labelled, settings: "Groups", share: Share) -> None:
        self.labelled, self.settings = labelled, settings
        rows = np.flatnonzero(labelled.training)
        sizes = np.bincount(labelled.group[rows], minlength=len(labelled.group))
        paired = rows[sizes[labelled.group[rows]] > 1]
        self.singles = np.setdiff1d(rows, paired)
        order = paired[np.argsort(labelled.group[paired], kind="stable")]
        self.groups = np.split(order, np.flatnonzero(np.diff(labelled.group[order])) + 1)
        super().__init__(settings.seed, share, -(-self._size() // share.world))

    def _size(self) -> int:
        """Steps of an epoch, of all processes."""
        return -(-sum(map(len, self.groups)) // self.settings.room)

    def __iter__(self) -> Iterator[Step]:
        rng = self.rng()
        near = self._near()
        for number, rows in enumerate(self._deal(rng)):
            if number % self.share.world == self.share.rank:
                own = self.rng(number)
                rows = np.sort(np.concatenate([rows, self._draw_singles(rows, near, own)]))
                yield Step(rows, *self._pairs(rows, own))

    def _deal(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The groups in random order, in steps of about the same size, none without one.

        A group too large for a step is cut at random. If there are more processes than parts, some parts are repeated.
        """
        parts: list[np.ndarray] = []
        for number in rng.permutation(len(self.groups)):
            group = self.groups[number]
            pieces = -(-len(group) // self.settings.room)
            parts += np.array_split(rng.permutation(group), pieces) if pieces > 1 else [group]
        steps = self.count * self.share.world
        parts += [parts[number % len(parts)] for number in range(steps - len(parts))]
        before, place = np.cumsum([0, *map(len, parts)]), np.arange(len(parts))
        step = before[:-1] * steps // before[-1]
        step = place + np.minimum.accumulate(step - place)  # a large part may have leapt over a step
        step = np.maximum(step, place - (len(parts) - steps))  # nor may the last steps go without
        return [np.concatenate([parts[i] for i in np.flatnonzero(step == k)]) for k in range(steps)]

    def _near(self) -> dict[int, np.ndarray]:
        """For each report of a group, the single reports most like it by the vectors of the last epoch."""
        vectors = self.labelled.vectors
        if vectors is None or not len(self.singles) or not self.settings.singletons:
            return {}
        return nearest_rows(vectors, np.concatenate(self.groups), self.singles, self.settings.neighbours)

    def _draw_singles(self, rows: np.ndarray, near: dict[int, np.ndarray], rng: np.random.Generator) -> np.ndarray:
        """Single reports of a step: the share ``hard`` from among the nearest of its groups, the others at random."""
        count = min(round(self.settings.singletons * self.settings.batch_size), len(self.singles))
        anchors = rng.permutation(rows)[: round(self.settings.hard * count)] if near else rows[:0]
        hard = np.unique([rng.choice(near[int(row)]) for row in anchors]).astype(np.int64)
        easy = np.setdiff1d(rng.choice(self.singles, min(2 * count, len(self.singles)), replace=False), hard)
        return np.concatenate([hard, rng.permutation(easy)[: count - len(hard)]])

    def _pairs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """All pairs inside groups, and pairs across: the most alike of a sample, and random ones."""
        group = self.labelled.group[rows]
        positive = np.stack(positive_pairs(group), axis=1)
        across = np.stack(np.triu_indices(len(rows), 1), axis=1)
        across = rng.permutation(across[group[across[:, 0]] != group[across[:, 1]]])
        count = round(self.settings.negatives_per_positive * len(positive))
        hard, vectors = min(round(self.settings.hard * count), len(across)), self.labelled.vectors
        if hard and vectors is not None:
            z = vectors[rows]
            cosine = (z @ z.T)[across[:, 0], across[:, 1]]
            across = across[np.argsort(-cosine, kind="stable")]
            across = np.concatenate([across[:hard], rng.permutation(across[hard:])])
        pairs = np.concatenate([positive, across[:count]])
        return rows[pairs], np.repeat([1, 0], [len(positive), len(pairs) - len(positive)])


@dataclass(frozen=True)
class Pairs:
    """Deals the fixed list of pairs out: see ``PairSteps``.

    Args:
        batch_size: Pairs of a step, on each device.
        seed: Fixes the order.
        shuffle: All pairs in random order; by default those of a group lie together.
    """

    batch_size: int
    seed: int
    shuffle: bool = False
    hard: float = 0.0

    provides: ClassVar[frozenset[str]] = frozenset({"pairs", "groups"})
    reads_groups: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"batches.batch_size={self.batch_size} must be 1 or more")

    def __call__(self, labelled: Labelled, share: Share) -> Steps:
        """The steps of every epoch."""
        return PairSteps(labelled, self.batch_size, self.seed, share, self.shuffle)


@dataclass(frozen=True)
class Groups:
    """Deals whole duplicate groups out: see ``GroupSteps``.

    Args:
        batch_size: Reports M of a step, on each device, more or less: groups stay whole.
        seed: Fixes all draws.
        singletons: Share of them that are reports without a known duplicate.
        negatives_per_positive: Pairs across groups for each pair inside one.
        hard: Share of these pairs, and of the single reports, that the vectors of the last epoch take for most alike;
            the others are drawn at random. Hard single reports come from the ``neighbours`` nearest of a group.
        neighbours: See ``hard``. More of them lower the risk of meeting a duplicate that nobody has marked.
    """

    batch_size: int
    seed: int
    singletons: float
    negatives_per_positive: float
    hard: float
    neighbours: int

    provides: ClassVar[frozenset[str]] = frozenset({"pairs", "groups"})
    reads_groups: ClassVar[bool] = True

    def __post_init__(self) -> None:
        for name, value, most in (("singletons", self.singletons, 0.9), ("hard", self.hard, 1.0)):
            if not 0 <= value <= most:
                raise ValueError(f"batches.{name}={value} must lie between 0 and {most}")
        for name, value, least in (("batch_size", self.batch_size, 4), ("neighbours", self.neighbours, 1)):
            if value < least:
                raise ValueError(f"batches.{name}={value} must be {least} or more")
        if self.negatives_per_positive <= 0:
            raise ValueError(f"batches.negatives_per_positive={self.negatives_per_positive} must be above 0")
        if self.room < 3:  # a group of 3 would be cut into a pair and a report alone
            share = f"batches.singletons={self.singletons} leaves {self.room} of batches.batch_size={self.batch_size}"
            raise ValueError(f"{share} reports to duplicate groups: 3 or more are needed")

    @property
    def room(self) -> int:
        """Reports of a step that belong to groups."""
        return self.batch_size - round(self.singletons * self.batch_size)

    def __call__(self, labelled: Labelled, share: Share) -> Steps:
        """The steps of every epoch."""
        return GroupSteps(labelled, self, share)
