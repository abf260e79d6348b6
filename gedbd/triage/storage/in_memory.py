"""What an open index holds in memory, which every search reads and only additions change."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.fields import products
from gedbd.corpora.relevance import find_groups
from gedbd.retrieval.feature_store import Codes, Columns, Numbers, Vocabulary
from gedbd.triage.storage.damage import check_features
from gedbd.triage.storage.rows import usable_days
from gedbd.triage.storage.store import Store

COMMON, FEW = 0.2, 2

Links = Sequence[tuple[str, str, str]]


class Groups(NamedTuple):
    """Duplicate groups.

    Attributes:
        of: ``(N,)`` the group of each report.
        order: ``(N,)`` reports by group.
        starts: ``(N + 1,)`` where each group's reports begin in ``order``.
    """

    of: np.ndarray
    order: np.ndarray
    starts: np.ndarray


class Memory:
    """Ids, numbers and groups of all stored reports. Row i is the i-th report of the file.

    Searches may run while reports are added: what they see is all of an addition or nothing, if they take ``groups``
    once and look at as many reports as it counts. Every other change gives another memory, equal to the one that is
    read when the file is opened: answers do not depend on what was stored before.

    Args:
        dim: Size of the vectors.
        vocabulary: Numbers of terms.

    Attributes:
        groups: The duplicate groups of all N reports; it is replaced, never changed.
        undated: Ids of reports whose date cannot be used, see ``usable_days``.
    """

    def __init__(self, dim: int, vocabulary: Vocabulary) -> None:
        self.columns, self.vocabulary, self.codes = Columns(dim), vocabulary, (Codes(), Codes())
        self.ids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.groups = find_members([], {}, 0)
        self.undated: list[str] = []

    def __len__(self) -> int:
        return len(self.groups.of)

    @classmethod
    def of(cls, store: Store) -> "Memory":
        """What a file holds.

        Raises:
            ValueError: If its numbers do not fit together.
        """
        with store.snapshot():
            memory = cls(store.dim(), Vocabulary(store.terms()))
            rows, links = store.features(), store.links()
        if not rows:
            return memory
        check_features(rows, memory.columns.vectors.shape[1], len(memory.vocabulary.terms), store.path)
        ids, dates, product, component, vectors, text, title = zip(*rows, strict=True)
        table = pd.DataFrame({"issue_id": ids, "product": product, "component": component}, dtype=str)
        days = usable_days(dates)
        memory.undated = [one for one, date, day in zip(ids, dates, days, strict=True) if date and np.isnan(day)]
        numbers = Numbers(
            np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(rows), -1),
            [np.frombuffer(terms, dtype=np.int32) for terms in text],
            [np.frombuffer(terms, dtype=np.int32) for terms in title],
            memory.codes[0](products(table), True),
            memory.codes[1](table["component"], True),
            days,
        )
        memory.append(list(ids), numbers, links)
        return memory

    def append(self, ids: list[str], numbers: Numbers, links: Links) -> None:
        """Adds reports at the end, none of which is there yet."""
        self.columns.add(numbers)
        self.row_of |= {one: row for row, one in enumerate(ids, start=len(self.ids))}
        self.ids += ids
        self.groups = find_members(links, self.row_of, len(self.ids))

    def changed(self, ids: list[str], numbers: Numbers, links: Links) -> "Memory":
        """A memory with these reports: those that are there are replaced where they stand, others added at the end."""
        old = [place for place, one in enumerate(ids) if one in self.row_of]
        fresh = [place for place, one in enumerate(ids) if one not in self.row_of]
        other = self
        if old:
            rows = [self.row_of[ids[place]] for place in old]
            other = self._with(self.columns.replaced(rows, numbers.take(old)), self.ids.copy())
        other.append([ids[place] for place in fresh], numbers.take(fresh), links)
        return other

    def without(self, issue_id: str, links: Links) -> "Memory":
        """A memory without a report; its links go on tying others."""
        gone = np.zeros(len(self), dtype=bool)
        gone[self.row_of[issue_id]] = True
        other = self._with(self.columns.without(gone), [one for one in self.ids if one != issue_id])
        other.regroup(links)
        return other

    def regroup(self, links: Links) -> None:
        """Finds the duplicate groups again."""
        self.groups = find_members(links, self.row_of, len(self.ids))

    def _with(self, columns: Columns, ids: list[str]) -> "Memory":
        """Other numbers and ids, whose words and values have the same codes."""
        other = Memory(columns.vectors.shape[1], self.vocabulary)
        other.columns, other.codes, other.ids = columns, self.codes, ids
        other.row_of = dict(zip(ids, range(len(ids)), strict=True))
        return other

    def members(self, groups: Groups, row: int) -> list[int]:
        """The rows of a report's group, the oldest first; without dates in the order of rows."""
        group = groups.of[row]
        rows = groups.order[groups.starts[group] : groups.starts[group + 1]]
        days = self.columns.day[rows]
        return list((rows if np.isnan(days).any() else rows[np.argsort(days, kind="stable")]).tolist())

    def rarity(self, some: Sequence[str], count: int) -> np.ndarray:
        """log(N / reports with the word); 0 for stop words, for words in over a fifth of them, and for unknown ones.

        Args:
            some: The words.
            count: Only the first so many reports exist.
        """
        numbers = self.vocabulary([[word] for word in some], learn=False)
        asked, place = np.unique(np.concatenate([np.empty(0, dtype=np.int32), *numbers]), return_inverse=True)
        frequency = self.columns.text.frequency(asked, count)[place]
        rare = (frequency > 0) & (frequency <= max(COMMON * count, FEW))
        return np.where(rare, np.log((count + 1) / frequency.clip(1)), 0)


def find_members(links: Links, row_of: dict[str, int], count: int) -> Groups:
    """Groups of reports that are tied by links, directly or by way of others, be these deleted."""
    named = [one for link in links for one in link[:2]]
    absent = {one: place for place, one in enumerate(dict.fromkeys(one for one in named if one not in row_of), count)}
    ends = [row_of[one] if one in row_of else absent[one] for one in named]
    group = find_groups(np.array(ends, dtype=np.int64).reshape(-1, 2).T, count + len(absent))[:count]
    order = np.argsort(group, kind="stable")
    return Groups(group, order, np.searchsorted(group[order], np.arange(count + 1)))
