"""Scores by the cosine of a text encoder's vectors, the encoder as it was downloaded or trained."""

from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.encoders.backends.pytorch import Backend
from gedbd.encoders.embedding_cache import report_vectors
from gedbd.encoders.encoder import TextEncoder, load_weights
from gedbd.retrieval.scorers.cosine import cosines
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs
from gedbd.text.templates import Text


class DenseScorer(Scorer):
    """Cosine of an encoder's pooled vectors; of its projected vectors where trained weights are given.

    Args:
        encoder: Encoder, untrained.
        text: How reports become texts.
        max_tokens: Length that texts are cut to.
        cache_dir: Folder in which vectors are kept.
        checkpoint: Trained weights, ``checkpoints/best.ckpt`` of a run. Its graph branch is not used.
        backend: What runs the encoder, by default PyTorch.
    """

    def __init__(
        self,
        encoder: Encoder,
        text: Text,
        cache_dir: str,
        checkpoint: str | Path | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.encoder, self.tokenizer = encoder
        self.text = text
        self.max_tokens = max_tokens
        self.cache_dir = cache_dir
        self.checkpoint = checkpoint
        self.backend = backend

    def fit(self, inputs: ScorerInputs) -> None:
        """Encodes all documents and queries."""
        if self.checkpoint is not None:
            load_weights(self.encoder, self.checkpoint)
        self.documents_ = self._encode(inputs.documents)
        self.queries_ = self.documents_ if inputs.one_table else self._encode(inputs.queries)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents_, self.queries_[rows])

    def _encode(self, table: pd.DataFrame) -> np.ndarray:
        texts = self.text(table, self.tokenizer, self.max_tokens)
        self.warnings_ = tuple(getattr(self.text, "notices_", ()))
        options = self.encoder, self.tokenizer, self.max_tokens, self.cache_dir, self.backend
        return report_vectors(texts, *options, projected=self.checkpoint is not None)
