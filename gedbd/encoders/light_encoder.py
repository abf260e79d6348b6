"""A BERT for single short texts, computed by NumPy alone.

Importing transformers takes four seconds and PyTorch one: more than a command that encodes one text may take. This
module imports neither; ``write_light_encoder`` in ``gedbd.encoders.light_folder`` stores an ``Encoder`` for it.
"""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from gedbd.encoders.light_layers import bert, weight_names
from gedbd.io.files import read_object
from gedbd.text.heads import CHARACTERS_PER_TOKEN, first_words

FORMAT = 1
WEIGHTS = "model.safetensors"
TOKENIZER = "tokenizer.json"
SETTINGS = "settings.json"
COUNTS = ("num_heads", "num_layers", "max_tokens")
NEEDED = ("fingerprint", "tokenizer_hash", "pooling", "epsilon", *COUNTS)


class LightEncoder:
    """Encodes texts one by one, as ``Encoder.encode`` does with the backend PyTorch.

    Args:
        folder: What ``write_light_encoder`` wrote.
        num_threads: Threads of the products of matrices. A second one gains little where the machine has other work to
            do, and may lose much.

    Attributes:
        fingerprint: Hash of the encoder's weights and settings, see ``light_fingerprint``.
        dim: Size D of the vectors.

    Raises:
        ValueError: If a file is damaged.
        OSError: If a file is missing.
    """

    def __init__(self, folder: str | Path, num_threads: int = 1) -> None:
        from threadpoolctl import ThreadpoolController
        from tokenizers import Tokenizer

        folder = Path(folder)
        self._settings = read_object(folder / SETTINGS, "format", *NEEDED)
        tokenizer = (folder / TOKENIZER).read_text(encoding="utf-8", errors="replace")
        # The tokenizers library raises bare exceptions for damaged files.
        if not _is_valid(self._settings) or self._settings["tokenizer_hash"] != text_hash(tokenizer):
            raise ValueError(f"{folder} is damaged or of another version: delete it, and it is written again")
        self._num_threads = num_threads
        self._threads = ThreadpoolController()
        self.fingerprint = str(self._settings["fingerprint"])
        self._max_tokens = self._settings["max_tokens"]
        self._tokenizer = Tokenizer.from_str(tokenizer)
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(self._max_tokens)
        self._weights = _read_weights(folder / WEIGHTS, self._settings["num_layers"])
        last = self._weights.get("projection.weight", self._weights["embeddings.norm.weight"])
        self.dim = len(last)

    def encode(self, texts: list[str]) -> np.ndarray:
        """Unit vectors of texts, ``(N, D)`` float32. A vector that is projected to zero stays zero."""
        vectors = np.zeros((len(texts), self.dim), dtype=np.float32)
        with self._threads.limit(limits=self._num_threads):
            for row, text in enumerate(texts):
                vector = self._pool(text)
                if "projection.weight" in self._weights:
                    vector = self._weights["projection.weight"] @ vector + self._weights["projection.bias"]
                vectors[row] = vector / max(float(np.linalg.norm(vector)), 1e-12)
        return vectors

    def _pool(self, text: str) -> np.ndarray:
        settings = self._settings
        hidden = bert(
            self._weights, self._token_ids(text), settings["num_layers"], settings["num_heads"], settings["epsilon"]
        )
        return np.asarray(hidden[0] if settings["pooling"] == "cls" else hidden.mean(axis=0))

    def _token_ids(self, text: str) -> np.ndarray:
        """Ids of the tokens, ``(L,)``, with special tokens, cut to ``max_tokens``."""
        head = first_words(text, self._max_tokens * CHARACTERS_PER_TOKEN)
        ids = self._tokenizer.encode(head).ids
        if len(head) < len(text) and len(ids) < self._max_tokens:
            ids = self._tokenizer.encode(text).ids
        return np.array(ids, dtype=np.int64)


def text_hash(text: str) -> str:
    """A hash of a text."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()


def _is_valid(settings: dict[str, Any]) -> bool:
    """Whether settings are of this version, and of the right types."""
    counts = [settings[name] for name in COUNTS]
    are_counts = all(type(count) is int and count > 0 for count in counts)
    return settings["format"] == FORMAT and are_counts and type(settings["epsilon"]) is float


def _read_weights(path: Path, num_layers: int) -> dict[str, np.ndarray]:
    """Reads weights. Raises ValueError if the file is damaged or lacks one."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        weights: dict[str, np.ndarray] = load_file(path)
    except SafetensorError as error:
        raise ValueError(f"{path} is damaged: delete its folder, and it is written again ({error})") from error
    missing = [name for name in weight_names(num_layers) if name not in weights]
    if missing:
        raise ValueError(f"{path} is damaged: it lacks {missing[0]}; delete its folder, and it is written again")
    return weights
