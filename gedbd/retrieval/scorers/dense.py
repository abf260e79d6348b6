"""Scores by the cosine of a text encoder's vectors, the encoder as it was downloaded or trained."""

from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.encoders.backends.backend import Backend
from gedbd.encoders.encoder import Encoder
from gedbd.retrieval.scorers.cosine import cosines
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs
from gedbd.text.templates import Text


class DenseScorer(Scorer):
    """Cosine of an encoder's pooled vectors; of its projected vectors where trained weights are given.

    Args:
        encoder: Encoder, untrained.
        text: How reports become texts.
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
        self.encoder = encoder
        self.encoder.cache_dir = cache_dir
        self.encoder.backend = backend or encoder.backend
        self.text = text
        self.checkpoint = checkpoint

    def vectors_before_training(self, documents: pd.DataFrame) -> np.ndarray:
        """Vectors of documents by the encoder without the trained weights, ``(N, D)`` unit rows; before ``fit``.

        Raises:
            ValueError: After ``fit``, which has loaded the weights.
        """
        if self.encoder.is_trained:
            raise ValueError("the trained weights are loaded: encode without them before fit")
        texts, _ = self.text(documents, self.encoder.tokenizer, self.encoder.text_tokens)
        return self.encoder.encode(texts)

    def fit(self, inputs: ScorerInputs) -> None:
        """Encodes all documents and queries."""
        if self.checkpoint is not None:
            self.encoder.load_weights(self.checkpoint)
        self.warnings_ = ()
        self.documents_ = self._encode(inputs.documents)
        self.queries_ = self.documents_ if inputs.one_table else self._encode(inputs.queries)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return cosines(self.documents_, self.queries_[rows])

    def _encode(self, table: pd.DataFrame) -> np.ndarray:
        texts, warnings = self.text(table, self.encoder.tokenizer, self.encoder.text_tokens)
        self.warnings_ += warnings
        return self.encoder.encode(texts)
