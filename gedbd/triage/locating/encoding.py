"""Vectors of commits and of reports by an encoder that is loaded when the first text arrives."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gedbd.io.library_logs import silence_library_logs

if TYPE_CHECKING:  # it imports torch
    from gedbd.encoders.encoder import Encoder


class LazyEncoder:
    """Encodes the message and the paths of commits, and the text of reports.

    Args:
        load: Loads the encoder, which takes seconds.
        settings: Plain values that tell encoders apart whose vectors cannot be compared.
    """

    def __init__(self, load: "Callable[[], Encoder]", settings: Mapping[str, Any]) -> None:
        self._load = load
        content = json.dumps(dict(settings), sort_keys=True).encode()
        self._key = hashlib.blake2b(content, digest_size=16).hexdigest()

    @property
    def key(self) -> str:
        """A hash of the settings."""
        return self._key

    def commits(self, table: pd.DataFrame) -> np.ndarray:
        """``(N, D)`` unit vectors of a table of commits."""
        texts = table["title"] + "\n" + table["description"] + "\n" + table["paths"]
        return self._encoder.encode(list(texts), kind="document", label="encode commits")

    def query(self, text: str) -> tuple[np.ndarray, tuple[str, ...]]:
        """``(D,)`` unit vector of a report, and a warning if the encoder does not read all of it."""
        encoder = self._encoder
        num_tokens = len(encoder.tokenizer(text, truncation=False, verbose=False)["input_ids"])
        told = f"the encoder reads the first {encoder.max_tokens:,} of the report's {num_tokens:,} tokens"
        warnings = (f"{told}; words are compared in all of it",) if num_tokens > encoder.max_tokens else ()
        return encoder.encode([text], kind="query")[0], warnings

    @cached_property
    def _encoder(self) -> "Encoder":
        silence_library_logs()
        return self._load()
