"""Vectors of texts from an encoder as it was downloaded, kept on disk by content.

Titles make the graph's edges with them, and the untrained encoder is a baseline with them. One SQLite file an encoder:
a text that was seen before is never encoded again, an interrupted run keeps what it had, and concurrent runs may share
it. A vector is stored with a checksum; what is damaged is encoded again.
"""

import hashlib
import sqlite3
import warnings
import zlib
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backends.pytorch import Backend, Reader, Torch, encode_batches
from gedbd.encoders.encoder import TextEncoder, fingerprint
from gedbd.text.token_cache import cache_folder
from gedbd.text.tokens import TokenTable, tokenize

BATCHES_A_COMMIT = 16
QUESTION_MARKS = 500
CALIBRATION_TEXTS = 300
VALUE_BYTES = 4  # of a float32
DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR)  # the last one: of its tables' names
PRIMARY = 0xFF  # the part of an error code of SQLite that says what happened; the rest says where


def frozen_vectors(
    texts: list[str],
    encoder: TextEncoder,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    cache_dir: str | Path,
    label: str = "encode",
    backend: Backend | None = None,
    calibration: list[str] | None = None,
) -> np.ndarray:
    """Pooled vectors before the projection, in evaluation mode, without gradient.

    Args:
        texts: N texts.
        encoder: Encoder with the weights to use as they stand.
        tokenizer: Its tokenizer.
        max_tokens: Length that texts are cut to.
        cache_dir: Folder of the cache files, made if absent.
        label: What the progress bar says.
        backend: What reads the texts, by default PyTorch.
        calibration: What a calibrated backend is fitted to, by default some of the texts; see ``calibration_texts``.

    Returns:
        ``(N, hidden)`` float32.
    """
    folder = cache_folder(cache_dir)
    backend = backend or Torch()
    sample = (calibration or calibration_texts(texts)) if backend.calibrated else []
    reader = backend.prepare(encoder, tokenize(sample, tokenizer, max_tokens) if sample else None)
    name = "-".join(filter(None, (fingerprint(encoder.backbone), encoder.pooling, str(max_tokens), reader.key)))
    keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
    file, wanted = folder / f"{name}.sqlite", dict(zip(keys, texts, strict=True))
    hidden = encoder.projection.in_features

    def look_up() -> dict[bytes, bytes]:
        with closing(sqlite3.connect(file, timeout=60)) as cache:
            cache.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
            stored = _read(cache, keys, hidden * VALUE_BYTES, file)
            missing = {key: text for key, text in wanted.items() if key not in stored}
            if missing:
                tokens = tokenize(list(missing.values()), tokenizer, max_tokens)
                stored |= _encode(list(missing), tokens, reader, cache, label)
            return stored

    stored = _repaired(file, look_up)
    return np.frombuffer(bytearray().join(stored[key] for key in keys), dtype=np.float32).reshape(len(keys), hidden)


def report_vectors(
    texts: list[str],
    encoder: TextEncoder,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int,
    cache_dir: str | Path,
    backend: Backend | None,
    projected: bool,
    calibration: list[str] | None = None,
) -> np.ndarray:
    """Vectors by which reports are compared: cosines are their inner products.

    Args:
        texts: N texts.
        encoder: See ``frozen_vectors``, as the next four.
        tokenizer: Its tokenizer.
        max_tokens: Length that texts are cut to.
        cache_dir: Folder of the cache files.
        backend: What reads the texts.
        projected: Through the projection, which has been trained together with the encoder; it tells nothing before.
        calibration: See ``frozen_vectors``.

    Returns:
        Unit rows, ``(N, D)`` or, not projected, ``(N, hidden)`` float32; what is projected to zero stays zero.
    """
    vectors = frozen_vectors(texts, encoder, tokenizer, max_tokens, cache_dir, "encode reports", backend, calibration)
    if projected:
        with torch.no_grad():
            vectors = encoder.projection(torch.from_numpy(vectors)).numpy()
    return unit_rows(vectors)


def calibration_texts(texts: list[str]) -> list[str]:
    """Some of the texts, drawn at random but always the same; see ``Backend.prepare``."""
    count = min(len(texts), CALIBRATION_TEXTS)
    rows = np.random.default_rng(0).choice(len(texts), count, replace=False)
    return [texts[row] for row in np.sort(rows)]


def unit_rows(vectors: np.ndarray) -> np.ndarray:
    """Rows scaled to length 1; a zero row stays zero."""
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12))


def _repaired(file: Path, look_up: Callable[[], dict[bytes, bytes]]) -> dict[bytes, bytes]:
    """What is looked up in a file; one that is damaged is deleted first, which is said in a warning."""
    try:
        return look_up()
    except sqlite3.DatabaseError as error:
        # Python's own errors, such as that of a text that is no UTF-8, have no code.
        if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & PRIMARY not in DAMAGED:
            raise
        warnings.warn(f"{file} is damaged ({error}): it is deleted, and the texts are encoded again", stacklevel=3)
    _delete(file)
    return look_up()


def _read(cache: sqlite3.Connection, keys: list[bytes], size: int, file: Path) -> dict[bytes, bytes]:
    """The stored vectors among those asked for, without damaged ones, which are counted in a warning.

    In the order of the file each of its pages is read once.

    Args:
        cache: The open file.
        keys: Hashes of the texts.
        size: Bytes of a vector; a checksum follows it, but for vectors of older versions.
        file: Its path, for the warning.
    """
    stored: dict[bytes, bytes] = {}
    damaged = 0
    wanted = sorted(set(keys))
    for start in range(0, len(wanted), QUESTION_MARKS):
        some = wanted[start : start + QUESTION_MARKS]
        query = f"SELECT key, vector FROM vectors WHERE key IN ({','.join('?' * len(some))})"
        for key, content in cache.execute(query, some):
            vector = content[:size] if isinstance(content, bytes) else b""
            if content in (vector, vector + _checksum(vector)) and len(vector) == size:
                stored[key] = vector
            else:
                damaged += 1
    if damaged:
        warnings.warn(f"{file}: {damaged} damaged vectors are encoded again", stacklevel=4)
    return stored


def _checksum(vector: bytes) -> bytes:
    return zlib.crc32(vector).to_bytes(4, "little")


def _delete(file: Path) -> None:
    """Deletes a database with what SQLite keeps beside it. A process that has it open goes on with its own copy."""
    for name in (file.name, f"{file.name}-journal", f"{file.name}-wal", f"{file.name}-shm"):
        file.with_name(name).unlink(missing_ok=True)


def _encode(
    keys: list[bytes], tokens: TokenTable, reader: Reader, cache: sqlite3.Connection, label: str
) -> dict[bytes, bytes]:
    """Stores as it goes, all at once after some batches: another process may write while this one reads."""
    done: dict[bytes, bytes] = {}
    fresh: dict[bytes, bytes] = {}
    for number, (rows, vectors) in enumerate(encode_batches(tokens, reader, label), start=1):
        fresh |= {keys[row]: vector.tobytes() for row, vector in zip(rows, vectors, strict=True)}
        if number % BATCHES_A_COMMIT == 0:
            _store(fresh, cache)
            done |= fresh
            fresh = {}
    _store(fresh, cache)
    return done | fresh


def _store(vectors: dict[bytes, bytes], cache: sqlite3.Connection) -> None:
    with cache:
        rows = [(key, vector + _checksum(vector)) for key, vector in vectors.items()]
        cache.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)
