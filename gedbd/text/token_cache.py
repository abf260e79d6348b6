"""Token tables kept on disk by content: a corpus that was tokenised before is mapped into memory, not read again."""

import hashlib
import json
import time
import warnings
from pathlib import Path
from uuid import uuid4

import numpy as np
import tokenizers
from transformers import PreTrainedTokenizerBase

from gedbd.text.tokens import TokenTable, tokenize

NUMBER = np.dtype("<i4")
CHECKSUM_NUMBERS = 4  # as many numbers as its bytes take the place of
UNFINISHED = ".part"
ABANDONED_AFTER_SECONDS = 3600.0


def cached_tokens(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int, cache_dir: str | Path
) -> TokenTable:
    """What ``tokenize`` returns, from the cache if the same tokenizer has read the same texts before.

    A file holds a checksum of what follows, the N lengths, then all ids, as int32, and appears under its name only when
    it is whole. Concurrent runs may share the folder: each writes a file of its own, and the last one to finish leaves
    the same bytes. One that does not fit its checksum is written again. A tokenizer without a serialisable backend
    cannot be told from another, so it reads its texts each time.

    Args:
        texts: N texts.
        tokenizer: The encoder's tokenizer.
        max_tokens: Length that texts are cut to.
        cache_dir: Folder of the cache files, made if absent.

    Raises:
        ValueError: If the folder cannot be made or written to, or the tokenizer has no padding token.
    """
    if not tokenizer.is_fast:
        return tokenize(texts, tokenizer, max_tokens)
    path = cache_folder(cache_dir) / f"tokens-{_key(texts, tokenizer, max_tokens)}.int32"
    if path.exists():
        try:
            return _read(path, len(texts), tokenizer)
        except OSError as error:
            raise _unusable(path.parent, error) from error
        except ValueError as error:
            warnings.warn(f"{path} is damaged ({error}): the texts are tokenised anew", stacklevel=2)
    table = tokenize(texts, tokenizer, max_tokens)
    _write(path, table)
    return table


def cache_folder(cache_dir: str | Path) -> Path:
    """The folder of cached files, made if absent.

    Raises:
        ValueError: If it cannot be made.
    """
    folder = Path(cache_dir).expanduser()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unusable(folder, error) from error
    return folder


def _unusable(folder: Path, error: OSError) -> ValueError:
    return ValueError(f"cache_dir={folder} cannot be used ({error.strerror}): name a folder that can be written to")


def _key(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> str:
    """A hash of all that the table depends on."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    # These two change with each call of the tokenizer: they are what the last call asked for.
    del backend["truncation"], backend["padding"]
    about = {
        "class": f"{type(tokenizer).__module__}.{type(tokenizer).__qualname__}",
        "tokenizers": tokenizers.__version__,
        "backend": backend,
        "special_tokens": {name: str(token) for name, token in tokenizer.special_tokens_map.items()},
        "sides": [tokenizer.padding_side, tokenizer.truncation_side],
        "pad_id": tokenizer.pad_token_id,
        "max_tokens": max_tokens,
        "layout": "checksum, lengths, ids",
        "texts": len(texts),
    }
    digest = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _read(path: Path, count: int, tokenizer: PreTrainedTokenizerBase) -> TokenTable:
    """Maps a file.

    Raises:
        ValueError: If it is not as long as its ``count`` lengths say, or differs from its checksum.
    """
    # A plain view of the map: slices of it are cheaper than a memmap's, and it is pickled as any other array.
    whole = np.memmap(path, dtype=NUMBER, mode="r").view(np.ndarray)
    noted, numbers = whole[:CHECKSUM_NUMBERS], whole[CHECKSUM_NUMBERS:]
    if noted.tobytes() != _checksum(numbers):
        raise ValueError("it differs from its checksum")
    starts = np.concatenate([[0], np.cumsum(numbers[:count], dtype=np.int64)])
    if len(numbers) < count or len(numbers) - count != starts[-1]:
        raise ValueError(f"it holds {len(numbers):,} numbers, {count + starts[-1]:,} were expected")
    return TokenTable(numbers[count:], starts, int(tokenizer.pad_token_id))


def _checksum(*parts: np.ndarray) -> bytes:
    digest = hashlib.blake2b(digest_size=CHECKSUM_NUMBERS * NUMBER.itemsize)
    for part in parts:
        digest.update(part.data)
    return digest.digest()


def _write(path: Path, table: TokenTable) -> None:
    """Writes a file beside its place, then moves it there; removes what runs that were killed have left behind."""
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}{UNFINISHED}")
    try:
        for other in path.parent.glob(f"tokens-*{UNFINISHED}"):
            _remove_abandoned(other)
        parts = [np.ascontiguousarray(numbers, dtype=NUMBER) for numbers in (table.lengths, table.ids)]
        with unfinished.open("xb") as file:
            file.write(_checksum(*parts))
            for part in parts:
                file.write(part.data)
        unfinished.replace(path)
    except OSError as error:
        raise _unusable(path.parent, error) from error
    finally:
        unfinished.unlink(missing_ok=True)


def _remove_abandoned(unfinished: Path) -> None:
    """Removes a file that nobody has written to for long. Another process may be quicker."""
    try:
        if time.time() - unfinished.stat().st_mtime > ABANDONED_AFTER_SECONDS:
            unfinished.unlink()
    except FileNotFoundError:
        pass
