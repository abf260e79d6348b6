"""Many strings in arrays: opened at once from files, and searched without a dictionary in memory."""

import zlib
from collections.abc import Mapping, Sequence

import numpy as np


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
        starts, ends = self._starts.take(numbers), self._starts.take(numbers + 1)
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
