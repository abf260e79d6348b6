"""A cache of vectors by the content of their texts: one SQLite file for each encoder.

A text is encoded once. An interrupted run keeps the vectors that it has stored, and concurrent runs may share a file.
Every vector is stored with a checksum; damaged ones are encoded again.
"""

import hashlib
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np

from gedbd.io.sqlite_file import MARKS, CacheFile, DamagedFileError, delete_database

BATCHES_A_COMMIT = 16
VALUE_BYTES = 4  # of a float32
# Of a new file. A vector of 384 numbers, or of 768, does not fit into SQLite's usual page of 4,096 bytes beside others,
# so that each would take a page of its own.
PAGE_BYTES = 16_384
TABLE = "vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"

EncodeTexts = Callable[[list[str]], Iterator[tuple[np.ndarray, np.ndarray]]]
"""Encodes M texts in batches: yields rows ``(U,)`` of them and their vectors ``(U, size)``."""


def cached_vectors(file: Path, size: int, texts: list[str], encode: EncodeTexts) -> np.ndarray:
    """The vectors of texts; those that the file lacks are encoded and stored.

    Args:
        file: The file, which is made if absent. All vectors in it come from the same encoder.
        size: Numbers of a vector.
        texts: N texts.
        encode: Encodes some of them.

    Returns:
        ``(N, size)`` float32.
    """
    keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
    text_of = dict(zip(keys, texts, strict=True))
    try:
        stored = _look_up(file, size, text_of, encode)
    except DamagedFileError as error:
        warnings.warn(
            f"{file} is damaged ({error.__cause__}): it is deleted, and the texts are encoded again", stacklevel=3
        )
        delete_database(file)
        stored = _look_up(file, size, text_of, encode)
    content = bytearray().join(stored[key] for key in keys)
    return np.frombuffer(content, dtype=np.float32).reshape(len(keys), size)


def _look_up(file: Path, size: int, text_of: dict[bytes, str], encode: EncodeTexts) -> dict[bytes, bytes]:
    """The vectors of texts by key, from the file or encoded now."""
    with closing(CacheFile(file, TABLE, PAGE_BYTES)) as cache:
        # Sorted, that is in the order of the file, each of its pages is read once.
        stored, damaged = _read(cache, sorted(text_of), size * VALUE_BYTES)
        if damaged:
            warnings.warn(f"{file}: {damaged} damaged vectors are encoded again", stacklevel=4)
        missing = {key: text for key, text in text_of.items() if key not in stored}
        if missing:
            stored |= _encode(missing, encode, cache)
        return stored


def _read(cache: CacheFile, keys: list[bytes], length: int) -> tuple[dict[bytes, bytes], int]:
    """The vectors of ``length`` bytes that are stored and intact, and how many are damaged."""
    stored: dict[bytes, bytes] = {}
    damaged = 0
    for key, content in cache.select(f"SELECT key, vector FROM vectors WHERE key IN {MARKS}", keys):
        vector = content[:length] if isinstance(content, bytes) else b""
        is_whole = len(vector) == length and content[length:] == _checksum(vector)
        if is_whole and np.isfinite(np.frombuffer(vector, dtype=np.float32)).all():
            stored[key] = vector
        else:
            damaged += 1
    return stored, damaged


def _encode(missing: dict[bytes, str], encode: EncodeTexts, cache: CacheFile) -> dict[bytes, bytes]:
    """Encodes texts and stores their vectors."""
    keys = list(missing)
    encoded: dict[bytes, bytes] = {}
    unsaved: dict[bytes, bytes] = {}
    for number, (rows, vectors) in enumerate(encode(list(missing.values())), start=1):
        if not np.isfinite(vectors).all():
            raise ValueError(
                "the encoder returns numbers that are not finite: choose another encoder= or checkpoint, or encode in"
                " float32 with backend.precision=float32"
            )
        for row, vector in zip(rows, vectors, strict=True):
            unsaved[keys[row]] = vector.tobytes()
        # A transaction holds the file's lock, so none stays open while texts are encoded: other processes may write.
        if number % BATCHES_A_COMMIT == 0:
            _store(unsaved, cache)
            encoded |= unsaved
            unsaved = {}
    _store(unsaved, cache)
    return encoded | unsaved


def _store(vectors: dict[bytes, bytes], cache: CacheFile) -> None:
    cache.store((key, vector + _checksum(vector)) for key, vector in vectors.items())


def _checksum(vector: bytes) -> bytes:
    return zlib.crc32(vector).to_bytes(4, "little")
