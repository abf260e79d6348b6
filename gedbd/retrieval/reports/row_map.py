"""Where the features of reports are, after some were replaced or removed."""

from copy import copy

import numpy as np

from gedbd.retrieval.growing import GrowingArray


class RowMap:
    """Rows of reports and the places of their features, which stay where they are. At first, places are rows.

    A report that replaces another one keeps its row, and its features have the last place. So the large arrays need
    not be copied when a report is edited or deleted.
    """

    def __init__(self) -> None:
        self._place: GrowingArray | None = None  # of each row
        self._row: GrowingArray | None = None  # of each place, -1 for features of no report

    @property
    def is_identity(self) -> bool:
        """Whether places are rows."""
        return self._place is None

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The places of some reports."""
        return rows if self._place is None else self._place.filled[rows]

    def in_rows(self, values: np.ndarray) -> np.ndarray:
        """The values of all reports, ``(N,)``, from those of all places, ``(P,)``."""
        return values if self._place is None else values[self._place.filled]

    def row(self, place: int) -> int:
        """The report of a place, -1 for none."""
        return place if self._row is None else int(self._row.filled[place])

    def grown(self, number: int) -> "RowMap":
        """With so many reports more at the end."""
        if self._place is None or self._row is None:
            return self
        other = copy(self)
        other._place, other._row = copy(self._place), copy(self._row)
        rows = np.arange(len(self._place), len(self._place) + number)
        places = np.arange(len(self._row), len(self._row) + number)
        other._place.extend(places)
        other._row.extend(rows)
        return other

    def replaced(self, rows: list[int], num_places: int) -> "RowMap":
        """With other features of some reports, which come behind the first ``num_places``."""
        place, row = self._written_out(num_places)
        row[place[rows]] = -1
        place[rows] = num_places + np.arange(len(rows))
        return _row_map(place, np.append(row, rows))

    def without(self, removed: np.ndarray, num_places: int) -> "RowMap":
        """Without some reports, ``removed (N,)`` bool; later ones move up."""
        place = self._written_out(num_places)[0][~removed]
        row = np.full(num_places, -1)
        row[place] = np.arange(len(place))
        return _row_map(place, row)

    def _written_out(self, num_places: int) -> tuple[np.ndarray, np.ndarray]:
        """Copies of places and rows."""
        if self._place is None or self._row is None:
            return np.arange(num_places), np.arange(num_places)
        return self._place.filled.copy(), self._row.filled.copy()


def _row_map(place: np.ndarray, row: np.ndarray) -> RowMap:
    rows = RowMap()
    rows._place, rows._row = GrowingArray(place), GrowingArray(row)
    return rows
