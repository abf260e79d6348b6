"""Duplicate groups as they were known at a moment of a tracker's history."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class KnownGroups(NamedTuple):
    """Duplicate groups among the first n reports.

    Attributes:
        group: ``(n,)`` group of each report; a report without a known duplicate is a group of its own.
        members: The rows of each group of two and more, ascending.
        size: ``(n,)`` how many reports the group of each number has.
    """

    group: np.ndarray
    members: Mapping[int, np.ndarray]
    size: np.ndarray

    @classmethod
    def of(cls, group: np.ndarray) -> "KnownGroups":
        """The groups of an array of group numbers, which are their lowest rows."""
        order = np.argsort(group, kind="stable")
        numbers, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
        several = sizes > 1
        ranges = zip(numbers[several].tolist(), starts[several].tolist(), sizes[several].tolist(), strict=True)
        members = {number: order[start : start + size] for number, start, size in ranges}
        return cls(group, members, np.bincount(group, minlength=len(group)))

    def members_of(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows of some groups, ``(C,)``.

        Returns:
            ``(M,)`` those of the first group, ascending, those of the second, and so on; and how many each has,
            ``(C,)``.
        """
        sizes = self.size[numbers]
        rows = numbers.repeat(sizes)
        several = sizes > 1
        if several.any():
            rows[several.repeat(sizes)] = np.concatenate([self.members[number] for number in numbers[several].tolist()])
        return rows, sizes

    def grown(self, number: int) -> "KnownGroups":
        """The groups with so many reports more, each a group of its own."""
        first = len(self.group)
        size = np.append(self.size, np.ones(number, dtype=self.size.dtype))
        return self._replace(group=np.append(self.group, np.arange(first, first + number)), size=size)


class GrowingGroups:
    """The groups that links connect, as the reports come in one after the other.

    A link counts as known as soon as both of its reports exist: exports seldom say when it was made. So a group that
    only a later report connects is still apart, but a link that a triager made weeks later counts too early.

    Args:
        links: ``(2, L)`` rows of linked reports.
        num_reports: Number N of reports.
    """

    def __init__(self, links: np.ndarray, num_reports: int) -> None:
        later = links.max(axis=0, initial=-1)
        order = np.argsort(later, kind="stable")
        self._links = links[:, order].T.tolist()
        self._later = later[order]
        self._num_reports = num_reports
        self._used = 0
        self._forget()

    def before(self, row: int) -> KnownGroups:
        """The groups among the reports before a row; valid until the next call, and quick if rows ascend."""
        known = int(np.searchsorted(self._later, row))
        if known < self._used:
            self._forget()
        for first, second in self._links[self._used : known]:
            self._join(int(self._group[first]), int(self._group[second]))
        self._used = known
        return KnownGroups(self._group[:row], self._members, self._size[:row])

    def _forget(self) -> None:
        self._group = np.arange(self._num_reports)
        self._size = np.ones(self._num_reports, dtype=np.int64)
        self._members: dict[int, np.ndarray] = {}
        self._used = 0

    def _join(self, first: int, second: int) -> None:
        if first == second:
            return
        master, joined = min(first, second), max(first, second)
        moved = self._members.pop(joined, np.array([joined]))
        self._group[moved] = master
        self._size[master] += len(moved)
        self._size[joined] = 0
        self._members[master] = np.union1d(self._members.get(master, [master]), moved)
