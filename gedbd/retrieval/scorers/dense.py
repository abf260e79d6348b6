"""The text encoder as it stands: untrained, or as a run has left it."""

from pathlib import Path

import numpy as np
import pandas as pd
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.corpus import Corpus
from gedbd.encoders.backends.pytorch import Backend
from gedbd.encoders.embedding_cache import report_vectors
from gedbd.encoders.encoder import TextEncoder, load_weights
from gedbd.text.templates import Text


class Frozen:
    """Cosine of pooled vectors; of projected ones where trained weights are given.

    Args:
        encoder: Encoder and tokenizer.
        text: How reports become texts.
        max_tokens: Length that texts are cut to.
        cache_dir: Where vectors are kept.
        checkpoint: Trained weights, ``checkpoints/best.ckpt`` of a run. Its graph branch is not used.
        backend: What reads the reports, by default PyTorch.
    """

    def __init__(
        self,
        encoder: tuple[TextEncoder, PreTrainedTokenizerBase],
        text: Text,
        max_tokens: int,
        cache_dir: str,
        checkpoint: str | Path | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.encoder, self.tokenizer = encoder
        self.text, self.max_tokens, self.cache_dir, self.checkpoint = text, max_tokens, cache_dir, checkpoint
        self.backend = backend

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Encodes all reports."""
        if self.checkpoint is not None:
            load_weights(self.encoder, self.checkpoint)
        texts, self.warnings_ = self.text(corpus.reports, self.tokenizer, self.max_tokens)
        reader = self.encoder, self.tokenizer, self.max_tokens, self.cache_dir, self.backend
        self.vectors_ = report_vectors(texts, *reader, projected=self.checkpoint is not None)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return np.asarray(self.vectors_[rows] @ self.vectors_.T)
