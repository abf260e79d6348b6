"""The text encoder as it stands: untrained, or as a run has left it."""

from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.documents import Corpus
from gedbd.encoders.backends.backend import Backend
from gedbd.encoders.encoder import Encoder
from gedbd.text.templates import Text


class Frozen:
    """Cosine of pooled vectors; of projected ones where trained weights are given.

    Args:
        encoder: Encoder, untrained.
        text: How reports become texts.
        cache_dir: Where vectors are kept.
        checkpoint: Trained weights, ``checkpoints/best.ckpt`` of a run. Its graph branch is not used.
        backend: What reads the reports, by default PyTorch.
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

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Encodes all reports."""
        if self.checkpoint is not None:
            self.encoder.load_weights(self.checkpoint)
        texts = self.text(corpus.reports, self.encoder.tokenizer, self.encoder.max_tokens)
        self.notices_ = getattr(self.text, "notices_", ())
        self.vectors_ = self.encoder.encode(texts)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return np.asarray(self.vectors_[rows] @ self.vectors_.T)
