"""Limits on the unpacked size of packed files.

A few hundred kilobytes can unpack to gigabytes. Exports of trackers unpack to 5 to 20 times their size. More than
``MAX_RATIO`` times, or more than ``MAX_BYTES``, is refused as an attack or a mistake.
"""

import io
import math
import os
import shutil
from pathlib import Path
from typing import IO

MAX_BYTES = 4_000_000_000
MAX_RATIO = 100
ALWAYS_BYTES = 1 << 25  # any file may unpack to this size, however small it is
HEAD_BYTES = 1 << 23  # that are given out before a file is unpacked to its end, to know its size
CHUNK_BYTES = 1 << 20
GIGABYTE = 1_000_000_000
RESERVE_BYTES = 100_000_000  # that downloads and unpacked files must leave free on the disk
MAX_GB_VARIABLE = "GEDBD_MAX_UNPACKED_GB"  # the environment variable
CURE = f"if you trust it, set {MAX_GB_VARIABLE} to a number of gigabytes"


class UnpackLimit:
    """The limit for all packed files of one export together.

    If the environment variable ``GEDBD_MAX_UNPACKED_GB`` is set, it replaces both limits.

    Raises:
        ValueError: If the variable is not a number above 0.
    """

    def __init__(self) -> None:
        self.asked_bytes = asked_bytes()
        self._packed = 0
        self._unpacked = 0

    def open(self, path: Path) -> None:
        """Counts the packed size of a file."""
        self._packed += path.stat().st_size

    def add(self, path: Path, count: int) -> None:
        """Counts unpacked bytes.

        Raises:
            ValueError: If they exceed the limit; the message names the file.
        """
        self._unpacked += count
        max_bytes = MAX_BYTES if self.asked_bytes is None else self.asked_bytes
        maximum = f"{max_bytes / GIGABYTE:g} GB"
        if self.asked_bytes is None and MAX_RATIO * self._packed < max_bytes:
            max_bytes = max(MAX_RATIO * self._packed, ALWAYS_BYTES)
            maximum = f"{MAX_RATIO} times its size (trackers' exports: 5 to 20 times)"
        if self._unpacked > max_bytes:
            raise ValueError(f"{path}: it unpacks to more than {maximum}; {CURE}")


def check_size(path: Path, unpacked: int) -> None:
    """Raises ValueError if a file that states its unpacked size in bytes exceeds the limit."""
    limit = UnpackLimit()
    limit.open(path)
    limit.add(path, unpacked)


def asked_bytes() -> int | None:
    """The limit of the environment variable; None if it is not set.

    Raises:
        ValueError: If it is not a number above 0.
    """
    value = os.environ.get(MAX_GB_VARIABLE)
    if value is None:
        return None
    try:
        gigabytes = float(value)
    except ValueError:
        gigabytes = math.nan
    if not 0 < gigabytes < math.inf:
        raise ValueError(f"{MAX_GB_VARIABLE}={value} must be a number of gigabytes above 0")
    return int(gigabytes * GIGABYTE)


class LimitedStream(io.RawIOBase):
    """The bytes of an unpacked file, up to a limit.

    Parsing takes up to 100 times as long as unpacking. So after ``HEAD_BYTES`` the file is unpacked to its end once,
    and is refused at once if it is too large.

    Args:
        stream: The unpacked file.
        path: The packed file, for messages.
        limit: Counts the bytes; those read again after ``seek`` count once.
    """

    def __init__(self, stream: IO[bytes], path: Path, limit: UnpackLimit) -> None:
        super().__init__()
        self._stream = stream
        self._path = path
        self._limit = limit
        self._position = 0
        self._furthest = 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        """Reads as many bytes as fit.

        Raises:
            ValueError: If the limit is exceeded.
        """
        content = self._stream.read(len(buffer))
        buffer[: len(content)] = content
        self._position += len(content)
        self._count(self._position)
        if HEAD_BYTES < self._position == self._furthest:
            while chunk := self._stream.read(CHUNK_BYTES):
                self._count(self._furthest + len(chunk))
            self._stream.seek(self._position)
        return len(content)

    def _count(self, position: int) -> None:
        """Counts the bytes up to a position that were not counted before."""
        if position > self._furthest:
            self._limit.add(self._path, position - self._furthest)
            self._furthest = position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Moves to a position that was read before, or to the beginning."""
        self._position = self._stream.seek(offset, whence)
        return self._position


def check_space(folder: Path, needed: int, option: str = "data_dir=") -> None:
    """Checks that writing ``needed`` bytes leaves ``RESERVE_BYTES`` free.

    Raises:
        ValueError: If it does not; the message names the option of the folder.
    """
    free = shutil.disk_usage(folder).free
    if free < needed + RESERVE_BYTES:
        raise ValueError(
            f"{folder}: only {free:,} bytes are free, but {needed + RESERVE_BYTES:,} are needed; free some space, or"
            f" set {option} to a folder on a larger disk"
        )
