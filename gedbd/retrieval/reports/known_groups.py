"""Duplicate groups as they were known at a moment of a tracker's history."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np


class KnownGroups(NamedTuple):
    """Duplicate groups among the first n reports.

    Attributes:
        group: ``(n,)`` group of each report; a report without a known duplicate is a group of its own.
        members: The rows of each group of two and more, ascending.
    """

    group: np.ndarray
    members: Mapping[int, np.ndarray]

    @classmethod
    def of(cls, group: np.ndarray) -> "KnownGroups":
        """The groups of an array of group numbers."""
        order = np.argsort(group, kind="stable")
        numbers, starts, sizes = np.unique(group[order], return_index=True, return_counts=True)
        several = zip(numbers[sizes > 1].tolist(), starts[sizes > 1], sizes[sizes > 1], strict=True)
        return cls(group, {number: order[start : start + size] for number, start, size in several})


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
        return KnownGroups(self._group[:row], self._members)

    def _forget(self) -> None:
        self._group = np.arange(self._num_reports)
        self._members: dict[int, np.ndarray] = {}
        self._used = 0

    def _join(self, one: int, other: int) -> None:
        if one == other:
            return
        master, joined = min(one, other), max(one, other)
        moved = self._members.pop(joined, np.array([joined]))
        self._group[moved] = master
        self._members[master] = np.union1d(self._members.get(master, [master]), moved)
