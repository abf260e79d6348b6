"""Vectors of tokens from a frozen encoder, for late interaction."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import pandas as pd
import torch

from gedbd.encoders.backends.pytorch import process_device
from gedbd.encoders.encoder import Encoder, unit_rows
from gedbd.io.progress import track
from gedbd.text.templates import Text
from gedbd.text.tokens import split_by_tokens, token_budget

TEXTS_AT_ONCE = 1000
SAMPLED_DOCUMENTS = 2000


class FrozenTokens:
    """Unit vectors of the tokens of texts, without special tokens and the encoder's prefix; see ``TokenVectors``.

    Args:
        encoder: Its last layer gives the vectors.
        text: How documents and queries become texts.
        dim: Size D of the vectors: they are projected to the D directions in which their squared length is largest
            (principal components without a mean, so that products stay close). They are learnt from the first 2,000
            documents. None, or the size of the encoder or more, keeps them as they are.
    """

    def __init__(self, encoder: Encoder, text: Text, dim: int | None = 128) -> None:
        if dim is not None and dim < 1:
            raise ValueError(f"FrozenTokens' dim={dim} must be 1 or more, or null")
        self.encoder = encoder
        self.text = text
        self.dim = dim
        self.directions_: np.ndarray | None = None

    def __call__(self, table: pd.DataFrame, kind: Literal["document", "query"]) -> Iterator[np.ndarray]:
        """The vectors of each row's tokens, ``(L, D)`` float32 each. Documents come first: they fix the projection."""
        texts, _ = self.text(table, self.encoder.tokenizer, self.encoder.text_tokens)
        if kind == "document":
            self.directions_ = self._directions(texts[:SAMPLED_DOCUMENTS])
        for vectors in self._last_layer(texts, f"encode tokens of {len(texts):,} texts"):
            yield unit_rows(vectors if self.directions_ is None else vectors @ self.directions_)

    def _directions(self, texts: list[str]) -> np.ndarray | None:
        """The projection, ``(hidden, D)``; None if there is none."""
        hidden = int(self.encoder.model.backbone.config.hidden_size)
        if self.dim is None or self.dim >= hidden:
            return None
        moments = np.zeros((hidden, hidden))
        for vectors in self._last_layer(texts, "learn the directions of tokens"):
            own = unit_rows(vectors)
            moments += own.T @ own
        _, directions = np.linalg.eigh(moments)  # eigenvalues ascend
        return np.asarray(directions[:, -self.dim :], dtype=np.float32)

    def _last_layer(self, texts: list[str], label: str) -> Iterator[np.ndarray]:
        """The vectors of each text's tokens, ``(L, hidden)`` float32, in the order of the texts."""
        starts = range(0, len(texts), TEXTS_AT_ONCE)
        for start in track(starts, label, transient=True, disable=len(starts) < 2):
            yield from self._chunk(texts[start : start + TEXTS_AT_ONCE])

    def _chunk(self, texts: list[str]) -> list[np.ndarray]:
        model = self.encoder.model.to(process_device()).eval()
        tokens = self.encoder.tokenize(texts)
        device = process_device()
        order = np.argsort(tokens.lengths, kind="stable")
        special = np.array(self.encoder.tokenizer.all_special_ids)
        found: list[np.ndarray] = [np.empty(0)] * len(texts)
        for first, last in split_by_tokens(tokens.lengths[order].tolist(), token_budget(device)):
            rows = order[first:last]
            input_ids, attention_mask = tokens.batch(rows)
            with torch.no_grad():
                vectors = model.token_vectors(input_ids.to(device), attention_mask.to(device))
            for row, own in zip(rows.tolist(), vectors, strict=True):
                ids = tokens.ids[tokens.starts[row] : tokens.starts[row + 1]]
                found[row] = own.cpu().numpy()[~np.isin(ids, special)][self.encoder.prefix_tokens :]
        return found
