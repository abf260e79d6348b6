"""Caches of vectors and of token numbers, so that no text is encoded or tokenized twice."""

import hashlib
import json
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import tokenizers
from transformers import PreTrainedTokenizerBase

from gedbd.io.arrow_files import read_arrays, write_arrays
from gedbd.io.files import cache_folder, unusable_cache
from gedbd.io.sqlite_file import MARKS, CacheFile, DamagedFileError, delete_database
from gedbd.text.tokens import TokenTable, tokenize

BATCHES_A_COMMIT = 16
VALUE_BYTES = 4  # of a float32
# Of a new file. A vector of 384 numbers, or of 768, does not share SQLite's default page of 4,096 bytes with others,
# so each would take a page of its own.
PAGE_BYTES = 16_384
TABLE = "vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID"

EncodeRows = Callable[[np.ndarray], Iterator[tuple[np.ndarray, np.ndarray]]]
"""Encodes the texts of rows ``(M,)`` in batches: yields places ``(U,)`` among them and their vectors ``(U, size)``."""


def cached_vectors(file: Path, size: int, texts: list[str], encode: EncodeRows) -> np.ndarray:
    """The vectors of texts; those that the file lacks are encoded and stored.

    Args:
        file: The file, created if absent. All vectors in it come from the same encoder.
        size: Dimension of a vector.
        texts: N texts.
        encode: Encodes some of them.

    Returns:
        ``(N, size)`` float32.
    """
    keys = [hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest() for text in texts]
    row_of = {key: row for row, key in enumerate(keys)}
    try:
        stored = _look_up(file, size, row_of, encode)
    except DamagedFileError as error:
        warnings.warn(
            f"{file} is damaged ({error.__cause__}): it is deleted, and the texts are encoded again", stacklevel=3
        )
        delete_database(file)
        stored = _look_up(file, size, row_of, encode)
    content = bytearray().join(stored[key] for key in keys)
    return np.frombuffer(content, dtype=np.float32).reshape(len(keys), size)


def _look_up(file: Path, size: int, row_of: dict[bytes, int], encode: EncodeRows) -> dict[bytes, bytes]:
    """The vectors of texts by key, from the file or encoded now."""
    with closing(CacheFile(file, TABLE, PAGE_BYTES)) as cache:
        # Sorted keys follow the order of the file, so each of its pages is read once.
        stored, damaged = _read(cache, sorted(row_of), size * VALUE_BYTES)
        if damaged:
            warnings.warn(f"{file}: {damaged} damaged vectors are encoded again", stacklevel=4)
        missing = {key: row for key, row in row_of.items() if key not in stored}
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


def _encode(missing: dict[bytes, int], encode: EncodeRows, cache: CacheFile) -> dict[bytes, bytes]:
    """Encodes texts and stores their vectors."""
    keys = list(missing)
    encoded: dict[bytes, bytes] = {}
    unsaved: dict[bytes, bytes] = {}
    rows = np.fromiter(missing.values(), dtype=np.int64)
    for number, (places, vectors) in enumerate(encode(rows), start=1):
        if not np.isfinite(vectors).all():
            raise ValueError(
                "the encoder returns numbers that are not finite: choose another encoder= or checkpoint, or encode in"
                " float32 with backend.precision=float32"
            )
        for place, vector in zip(places, vectors, strict=True):
            unsaved[keys[place]] = vector.tobytes()
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


def cached_tokens(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int, cache_dir: str | Path
) -> TokenTable:
    """The result of ``tokenize``, from the cache if the same tokenizer has read the same texts before.

    Concurrent runs may share the folder: each writes a file of its own, and the last one to finish leaves the same
    bytes. A damaged file is written again. Slow tokenizers have no serializable state to identify them by, so their
    texts are tokenized each time.

    Raises:
        ValueError: If the folder cannot be created or written to, or the tokenizer has no padding token.
    """
    if not tokenizer.is_fast:
        return tokenize(texts, tokenizer, max_tokens)
    path = cache_folder(cache_dir) / f"tokens-{_key(texts, tokenizer, max_tokens)}.arrow"
    if path.exists():
        try:
            arrays, _ = read_arrays(path)
            return TokenTable(arrays["ids"], arrays["starts"], int(tokenizer.pad_token_id))
        except OSError as error:
            raise unusable_cache(path.parent, error) from error
        except ValueError as error:
            warnings.warn(f"{path} is damaged ({error}): the texts are tokenized again", stacklevel=2)
    table = tokenize(texts, tokenizer, max_tokens)
    try:
        write_arrays(path, {"ids": table.ids, "starts": table.starts}, {})
    except OSError as error:
        raise unusable_cache(path.parent, error) from error
    return table


def _key(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> str:
    """A hash of everything that the table depends on."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    # These two hold the state of the tokenizer's last call.
    del backend["truncation"], backend["padding"]
    description = {
        "class": f"{type(tokenizer).__module__}.{type(tokenizer).__qualname__}",
        "tokenizers": tokenizers.__version__,
        "backend": backend,
        "special_tokens": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        "sides": [tokenizer.padding_side, tokenizer.truncation_side],
        "pad_id": tokenizer.pad_token_id,
        "max_tokens": max_tokens,
        "texts": len(texts),
    }
    digest = hashlib.blake2b(json.dumps(description, sort_keys=True).encode(), digest_size=16)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        # With its length in front, "ab", "c" differs from "a", "bc".
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()
