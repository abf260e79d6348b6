"""The ids of stored reports."""

from collections.abc import Sequence
from copy import copy

import numpy as np

from gedbd.retrieval.reports.row_map import RowMap
from gedbd.triage.storage.string_table import StringTable, as_arrays


class Ids:
    """The id of each of N reports, and the row of each id.

    A copy by ``copy.copy`` can grow without changing these, and shares what it can; of several copies only one may
    grow.

    Args:
        fixed: Ids to start with, in a file perhaps.
    """

    def __init__(self, fixed: StringTable | None = None) -> None:
        self._fixed = StringTable(as_arrays([])) if fixed is None else fixed
        self._added: list[str] = []
        self._place_of: dict[str, int] = {}  # of the added ids
        self._count = len(self._fixed)
        self._num_places = self._count  # of deleted ones too
        self._rows = RowMap()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, row: int) -> str:
        place = int(self._rows.places(np.array([row]))[0])
        known = len(self._fixed)
        return self._fixed[place] if place < known else self._added[place - known]

    def row(self, issue_id: str) -> int | None:
        """The row of an id; None if no report has it."""
        return self._row(issue_id, self._fixed.find(issue_id))

    def rows(self, ids: Sequence[str]) -> list[int | None]:
        """The row of each id, None if no report has it."""
        return [self._row(*one) for one in zip(ids, self._fixed.find_all(ids), strict=True)]

    def _row(self, issue_id: str, fixed: int | None) -> int | None:
        """The row of an id whose place among the first ids is ``fixed``."""
        place = self._place_of.get(issue_id)
        if place is None or place >= self._num_places:  # of a copy that has grown since
            place = fixed
        if place is None:
            return None
        row = self._rows.row(place)
        return row if row >= 0 else None

    def __contains__(self, issue_id: str) -> bool:
        return self.row(issue_id) is not None

    def add(self, ids: Sequence[str]) -> None:
        """Adds ids at the end."""
        first = self._num_places
        # A copy that was given up may have left ids behind the last place.
        del self._added[first - len(self._fixed) :]
        self._added += ids
        self._place_of |= {issue_id: place for place, issue_id in enumerate(ids, start=first)}
        self._rows = self._rows.grown(len(ids))
        self._count += len(ids)
        self._num_places += len(ids)

    def without(self, removed: np.ndarray) -> "Ids":
        """The ids without some rows, ``removed (N,)`` bool; later ones move up."""
        other = copy(self)
        other._rows = self._rows.without(removed, self._num_places)
        other._count = self._count - int(removed.sum())
        return other
