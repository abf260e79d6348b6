"""Where the features of reports are, after some were replaced or removed."""

from typing import NamedTuple

import numpy as np


class RowMap(NamedTuple):
    """Rows of reports and the places of their features, which stay where they are.

    A report that replaces another one keeps its row, and its features have the last place. So the large arrays need
    not be copied when a report is edited or deleted.

    Attributes:
        place: ``(N,)`` place of the features of each report; None where places are rows.
        row: ``(P,)`` the report of each place, -1 for features of none; likewise None.
    """

    place: np.ndarray | None = None
    row: np.ndarray | None = None

    @property
    def is_identity(self) -> bool:
        """Whether places are rows."""
        return self.place is None

    def places(self, rows: np.ndarray) -> np.ndarray:
        """The places of some reports."""
        return rows if self.place is None else self.place[rows]

    def rows(self, places: np.ndarray) -> np.ndarray:
        """The reports of some places, -1 for none."""
        return places if self.row is None else self.row[places]

    def grown(self, number: int) -> "RowMap":
        """With so many reports more at the end."""
        if self.place is None or self.row is None:
            return self
        rows = np.arange(len(self.place), len(self.place) + number)
        places = np.arange(len(self.row), len(self.row) + number)
        return RowMap(np.append(self.place, places), np.append(self.row, rows))

    def replaced(self, rows: list[int], num_places: int) -> "RowMap":
        """With other features of some reports, which come behind the first ``num_places``."""
        place, row = self._written_out(num_places)
        row[place[rows]] = -1
        place[rows] = num_places + np.arange(len(rows))
        return RowMap(place, np.append(row, rows))

    def without(self, removed: np.ndarray, num_places: int) -> "RowMap":
        """Without some reports, ``removed (N,)`` bool; later ones move up."""
        place = self._written_out(num_places)[0][~removed]
        row = np.full(num_places, -1, dtype=np.int64)
        row[place] = np.arange(len(place))
        return RowMap(place, row)

    def _written_out(self, num_places: int) -> tuple[np.ndarray, np.ndarray]:
        if self.place is None or self.row is None:
            return np.arange(num_places), np.arange(num_places)
        return self.place.copy(), self.row.copy()
