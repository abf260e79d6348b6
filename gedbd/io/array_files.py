"""A folder of arrays that are opened as memory-mapped files, with facts about them.

The folder gets its name last: one that is there is complete, whatever killed the process that wrote it.
"""

import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import numpy as np

FACTS = "facts.json"
UNFINISHED = ".unfinished"
ABANDONED_S = 3600  # since the last file of a folder was begun: whoever wrote it was killed


class ArrayFolderWriter:
    """Writes arrays, piece by piece. Used as a context manager: at an error, nothing is left behind.

    Args:
        path: The folder, which must not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._unfinished = path.with_name(f"{path.name}.{os.getpid()}{UNFINISHED}")
        self._files: dict[str, BinaryIO] = {}
        self._dtypes: dict[str, str] = {}
        self._shapes: dict[str, list[int]] = {}

    def __enter__(self) -> "ArrayFolderWriter":
        shutil.rmtree(self._unfinished, ignore_errors=True)
        self._unfinished.mkdir(parents=True)
        return self

    def append(self, name: str, rows: np.ndarray) -> None:
        """Adds rows at the end of an array; those of one array have one dtype and one shape besides their number."""
        if name not in self._files:
            self._files[name] = (self._unfinished / f"{name}.bin").open("wb")
            self._dtypes[name] = rows.dtype.str
            self._shapes[name] = [0, *rows.shape[1:]]
        self._files[name].write(np.ascontiguousarray(rows).data)
        self._shapes[name][0] += len(rows)

    def read(self, name: str) -> np.ndarray:
        """The rows of an array that were written so far."""
        self._files[name].flush()
        return _mapped(self._unfinished / f"{name}.bin", self._dtypes[name], self._shapes[name])

    def finish(self, facts: Mapping[str, Any]) -> None:
        """Writes facts and gives the folder its name.

        Raises:
            OSError: If it cannot be written, or the folder exists.
        """
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        arrays = {name: [dtype, self._shapes[name]] for name, dtype in self._dtypes.items()}
        text = json.dumps({"arrays": arrays, **facts})
        (self._unfinished / FACTS).write_text(text, encoding="utf-8")
        self._unfinished.rename(self._path)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for file in self._files.values():
            file.close()
        shutil.rmtree(self._unfinished, ignore_errors=True)


def remove_abandoned(parent: Path, prefix: str) -> None:
    """Deletes what was left behind by processes that were killed while they wrote folders with such names."""
    for path in parent.glob(f"{prefix}*{UNFINISHED}"):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > ABANDONED_S:
                shutil.rmtree(path, ignore_errors=True)


def read_facts(path: Path) -> dict[str, Any]:
    """The facts about the arrays of a folder.

    Raises:
        OSError: If they cannot be read.
        ValueError: If they are damaged.
    """
    facts = json.loads((path / FACTS).read_text(encoding="utf-8"))
    if not isinstance(facts, dict):
        raise ValueError(f"{path / FACTS} is damaged")
    return facts


def read_arrays(path: Path, facts: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The arrays of a folder, read from its files where they are used.

    Raises:
        OSError: If a file cannot be read.
        ValueError: If a file has another size than it was written with.
    """
    arrays = {}
    for name, (dtype, shape) in facts["arrays"].items():
        file = path / f"{name}.bin"
        wanted = int(np.prod(shape)) * np.dtype(dtype).itemsize
        if file.stat().st_size != wanted:
            raise ValueError(f"{file} has {file.stat().st_size:,} bytes, not {wanted:,}")
        arrays[name] = _mapped(file, dtype, shape)
    return arrays


def _mapped(path: Path, dtype: str, shape: list[int]) -> np.ndarray:
    if not np.prod(shape):  # an empty file cannot be mapped
        return np.empty(shape, dtype=dtype)
    # A plain view of the map: slices of it are cheaper than a memmap's.
    return np.memmap(path, dtype=dtype, mode="r", shape=tuple(shape)).view(np.ndarray)
