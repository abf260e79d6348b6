"""Many strings in arrays: opened at once from files, and searched without a dictionary in memory."""

import zlib
from collections.abc import Mapping, Sequence
from copy import copy

import numpy as np

from gedbd.retrieval.growing_arrays import RowMap
from gedbd.retrieval.vocabulary import Vocabulary


class StringTable:
    """Distinct strings with the numbers 0, 1, 2, ... in arrays, which may be files.

    Args:
        arrays: Those of ``as_arrays``.
    """

    def __init__(self, arrays: Mapping[str, np.ndarray]) -> None:
        self._memory = arrays["bytes"].data  # slices of it take less time than those of an array
        self._starts = arrays["starts"]
        self._hashes = arrays["hashes"]
        self._order = arrays["order"]

    def __len__(self) -> int:
        return len(self._order)

    def __getitem__(self, number: int) -> str:
        return self._encoded(number).decode()

    def find(self, text: str) -> int | None:
        """The number of a string; None if it is not there."""
        encoded = text.encode()
        wanted = np.uint32(zlib.crc32(encoded))
        return self._find(encoded, wanted, int(self._hashes.searchsorted(wanted)))

    def find_all(self, texts: Sequence[str]) -> list[int | None]:
        """The number of each string, None if it is not there."""
        if not len(self):
            return [None] * len(texts)
        encoded = [text.encode() for text in texts]
        wanted = np.fromiter(map(zlib.crc32, encoded), dtype=np.uint32, count=len(encoded))
        places = self._hashes.searchsorted(wanted)
        # The string with this hash, if there is one, or else any: the bytes decide.
        numbers = self._order.take(places, mode="clip")
        starts = self._starts.take(numbers)
        ends = self._starts.take(numbers + 1)
        found: list[int | None] = []
        for text, number, start, end in zip(encoded, numbers.tolist(), starts.tolist(), ends.tolist(), strict=True):
            found.append(number if self._memory[start:end] == text else None)
        # Another string may have the same hash.
        is_shared = self._hashes.take(places + 1, mode="clip") == wanted
        for one in np.flatnonzero(is_shared).tolist():
            found[one] = self._find(encoded[one], wanted[one], int(places[one]))
        return found

    def _find(self, encoded: bytes, wanted: np.uint32, place: int) -> int | None:
        """The number of a string whose hash would be first at a place of the hashes."""
        while place < len(self._hashes) and self._hashes[place] == wanted:
            number = int(self._order[place])
            if self._encoded(number) == encoded:
                return number
            place += 1  # another string with the same hash
        return None

    def _encoded(self, number: int) -> bytes:
        return bytes(self._memory[self._starts[number] : self._starts[number + 1]])


def as_arrays(strings: Sequence[str]) -> dict[str, np.ndarray]:
    """The arrays of a ``StringTable``.

    Returns:
        ``bytes``: all strings as UTF-8, one after the other; ``starts (N + 1,)``; ``hashes (N,)`` uint32, ascending;
        ``order (N,)`` the number of the string of each hash.
    """
    encoded = [text.encode() for text in strings]
    sizes = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    hashes = np.fromiter(map(zlib.crc32, encoded), dtype=np.uint32, count=len(encoded))
    order = np.argsort(hashes, kind="stable")
    return {
        "bytes": np.frombuffer(b"".join(encoded), dtype=np.uint8),
        "starts": np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(sizes)]),
        "hashes": hashes[order],
        "order": order.astype(np.int32),
    }


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


class StoredVocabulary(Vocabulary):
    """A vocabulary that continues a table of terms.

    Args:
        fixed: The first terms.

    Attributes:
        terms: The terms behind them.
    """

    def __init__(self, fixed: StringTable) -> None:
        super().__init__()
        self._fixed = fixed

    def __len__(self) -> int:
        return len(self._fixed) + len(self.terms)

    def __getitem__(self, number: int) -> str:
        known = len(self._fixed)
        return self._fixed[number] if number < known else self.terms[number - known]

    def since(self, count: int) -> list[str]:
        """See ``Vocabulary``; ``count`` includes all terms of the table."""
        return self.terms[count - len(self._fixed) :]

    def find(self, term: str) -> int | None:
        """See ``Vocabulary``."""
        number = super().find(term)
        return self._fixed.find(term) if number is None else number

    def find_all(self, terms: Sequence[str]) -> list[int | None]:
        """See ``Vocabulary``."""
        numbers = super().find_all(terms)
        others = [place for place, number in enumerate(numbers) if number is None]
        found = self._fixed.find_all([terms[place] for place in others])
        for place, number in zip(others, found, strict=True):
            numbers[place] = number
        return numbers

    def extend(self, terms: list[str]) -> None:
        """Adds terms that are not there yet."""
        for term in terms:
            self._numbers[term] = len(self)
            self.terms.append(term)
