"""On-disk cache of token tables: a corpus that was tokenized before is mapped into memory."""

import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import tokenizers
from transformers import PreTrainedTokenizerBase

from gedbd.io.files import cache_folder, replacing, unusable_cache
from gedbd.text.tokens import TokenTable, tokenize

NUMBER = np.dtype("<i4")
CHECKSUM_NUMBERS = 4  # length of the checksum, in numbers of the file: 16 bytes


def cached_tokens(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int, cache_dir: str | Path
) -> TokenTable:
    """The result of ``tokenize``, from the cache if the same tokenizer has read the same texts before.

    A file contains a checksum, the N lengths and all ids, as int32, and gets its name only when it is complete.
    Concurrent runs may share the folder: each writes a file of its own, and the last one to finish leaves the same
    bytes. A file that contradicts its checksum is written again. Slow tokenizers have no serializable state to
    identify them by, so their texts are tokenized each time.

    Args:
        texts: N texts.
        tokenizer: The encoder's tokenizer.
        max_tokens: Length that texts are truncated to.
        cache_dir: Folder of the cache files, created if absent.

    Raises:
        ValueError: If the folder cannot be created or written to, or the tokenizer has no padding token.
    """
    if not tokenizer.is_fast:
        return tokenize(texts, tokenizer, max_tokens)
    path = cache_folder(cache_dir) / f"tokens-{_key(texts, tokenizer, max_tokens)}.int32"
    if path.exists():
        try:
            return _read(path, len(texts), tokenizer)
        except OSError as error:
            raise unusable_cache(path.parent, error) from error
        except ValueError as error:
            warnings.warn(f"{path} is damaged ({error}): the texts are tokenized again", stacklevel=2)
    table = tokenize(texts, tokenizer, max_tokens)
    lengths = np.ascontiguousarray(table.lengths, dtype=NUMBER)
    ids = np.ascontiguousarray(table.ids, dtype=NUMBER)
    try:
        with replacing(path) as unfinished:
            unfinished.write_bytes(_checksum(lengths, ids) + lengths.tobytes() + ids.tobytes())
    except OSError as error:
        raise unusable_cache(path.parent, error) from error
    return table


def _key(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> str:
    """A hash of everything that the table depends on."""
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    # The state of these two is that of the tokenizer's last call.
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
        # With its length in front, "ab", "c" differs from "a", "bc".
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def _read(path: Path, count: int, tokenizer: PreTrainedTokenizerBase) -> TokenTable:
    """Maps a file of ``count`` texts into memory.

    Raises:
        ValueError: If its length contradicts its lengths of texts, or its content its checksum.
    """
    # A plain view of the map: slices of it are cheaper than a memmap's, and it is pickled like any other array.
    whole = np.memmap(path, dtype=NUMBER, mode="r").view(np.ndarray)
    numbers = whole[CHECKSUM_NUMBERS:]
    if whole[:CHECKSUM_NUMBERS].tobytes() != _checksum(numbers):
        raise ValueError("it differs from its checksum")
    # The first ``count`` numbers are lengths; lengths 3 and 2 make starts 0, 3, 5.
    starts = np.concatenate([[0], np.cumsum(numbers[:count], dtype=np.int64)])
    if len(numbers) < count or len(numbers) - count != starts[-1]:
        raise ValueError(f"it has {len(numbers):,} numbers instead of {count + starts[-1]:,}")
    return TokenTable(numbers[count:], starts, int(tokenizer.pad_token_id))


def _checksum(*parts: np.ndarray) -> bytes:
    digest = hashlib.blake2b(digest_size=CHECKSUM_NUMBERS * NUMBER.itemsize)
    for part in parts:
        digest.update(part.data)
    return digest.digest()
