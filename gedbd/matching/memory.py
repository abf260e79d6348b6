"""What an open index holds in memory, which every search reads and only additions change."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.data.dates import stored_dates
from gedbd.data.fields import products
from gedbd.data.groups import find_groups
from gedbd.matching.columns import Codes, Columns, Numbers, Vocabulary, days_of
from gedbd.matching.store import Store

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
    """Ids, numbers and groups of all stored reports. Row i is the report that was read or added as number i.

    Searches may run while reports are added or forgotten: what they see is all of a change or nothing, if they take
    ``now`` once, and only look at so many reports.

    Args:
        dim: Size of the vectors.
        vocabulary: Numbers of terms.

    Attributes:
        now: ``(N,)`` bool, the reports that are alive, neither deleted nor replaced by a later row; and the groups of
            all N. Both are replaced together, and never changed.
    """

    def __init__(self, dim: int, vocabulary: Vocabulary) -> None:
        self.columns, self.vocabulary, self.codes = Columns(dim), vocabulary, (Codes(), Codes())
        self.ids: list[str] = []
        self.row_of: dict[str, int] = {}
        self.now = np.empty(0, dtype=bool), find_members([], {}, 0)

    def __len__(self) -> int:
        return len(self.now[0])

    @classmethod
    def of(cls, store: Store) -> "Memory":
        """What a file holds."""
        with store.moment():
            memory = cls(int(store.about()["dim"]), Vocabulary(store.terms()))
            rows, links = list(store.numbers()), store.links()
        if not rows:
            return memory
        ids, dates, product, component, vectors, text, title = zip(*rows, strict=True)
        table = pd.DataFrame({"issue_id": ids, "product": product, "component": component}, dtype=str)
        numbers = Numbers(
            np.frombuffer(b"".join(vectors), dtype=np.float32).reshape(len(rows), -1),
            [np.frombuffer(terms, dtype=np.int32) for terms in text],
            [np.frombuffer(terms, dtype=np.int32) for terms in title],
            memory.codes[0](products(table), True),
            memory.codes[1](table["component"], True),
            days_of(stored_dates(dates)),
        )
        memory.append(list(ids), numbers, links)
        return memory

    def append(self, ids: list[str], numbers: Numbers, links: Links) -> None:
        """Adds reports at the end; those they replace are forgotten."""
        alive = np.concatenate([self.now[0], np.ones(len(ids), dtype=bool)])
        alive[[self.row_of[one] for one in ids if one in self.row_of]] = False
        self.columns.add(numbers)
        self.row_of |= {one: row for row, one in enumerate(ids, start=len(self.ids))}
        self.ids += ids
        self.now = alive, find_members(links, self.row_of, len(alive))

    def forget(self, issue_id: str, links: Links) -> None:
        """Leaves a report out of searches; its words count in statistics until the index is opened anew."""
        alive = self.now[0].copy()
        alive[self.row_of.pop(issue_id)] = False
        self.now = alive, find_members(links, self.row_of, len(alive))

    def regroup(self, links: Links) -> None:
        """Finds the duplicate groups anew."""
        self.now = self.now[0], find_members(links, self.row_of, len(self))

    def members(self, groups: Groups, alive: np.ndarray, row: int) -> list[int]:
        """The rows of a report's group that are alive, the oldest first; without dates in the order of rows."""
        group = groups.of[row]
        rows = groups.order[groups.starts[group] : groups.starts[group + 1]]
        rows = rows[rows < len(alive)]
        rows = rows[alive[rows]]
        days = self.columns.day[rows]
        return list((rows if np.isnan(days).any() else rows[np.argsort(days, kind="stable")]).tolist())

    def rarity(self, some: Sequence[str]) -> np.ndarray:
        """log(N / reports with the word); 0 for stop words, for words in over a fifth of them, and for unknown ones."""
        count = len(self)
        numbers = self.vocabulary([[word] for word in some], learn=False)
        asked, place = np.unique(np.concatenate([np.empty(0, dtype=np.int32), *numbers]), return_inverse=True)
        frequency = self.columns.text.frequency(asked)[place]
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
