"""On-disk cache of token tables: a corpus that was tokenized before is mapped into memory."""

import hashlib
import json
import warnings
from pathlib import Path

import tokenizers
from transformers import PreTrainedTokenizerBase

from gedbd.io.arrow_files import read_arrays, write_arrays
from gedbd.io.files import cache_folder, unusable_cache
from gedbd.text.tokens import TokenTable, tokenize


def cached_tokens(
    texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int, cache_dir: str | Path
) -> TokenTable:
    """The result of ``tokenize``, from the cache if the same tokenizer has read the same texts before.

    Concurrent runs may share the folder: each writes a file of its own, and the last one to finish leaves the same
    bytes. A damaged file is written again. Slow tokenizers have no serializable state to identify them by, so their
    texts are tokenized each time.

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
        "texts": len(texts),
    }
    digest = hashlib.blake2b(json.dumps(about, sort_keys=True).encode(), digest_size=16)
    for text in texts:
        content = text.encode("utf-8", "surrogatepass")
        # With its length in front, "ab", "c" differs from "a", "bc".
        digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()
