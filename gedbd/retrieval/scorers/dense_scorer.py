"""Scores by the cosine of a text encoder's vectors, the encoder as it was downloaded or trained."""

from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.splits import PARTS, TRAIN, VAL
from gedbd.corpora.templates import Text
from gedbd.encoders.backends.backend import Backend
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.retrieval.scorers.cosine import cosines
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs


class DenseScorer(Scorer):
    """Cosine of an encoder's pooled vectors; of its projected vectors where trained weights are given.

    Args:
        encoder: LoadedEncoder, untrained.
        text: How reports become texts.
        cache_dir: Folder in which vectors are kept.
        checkpoint: Trained weights, ``checkpoints/best.ckpt`` of a run. Its graph branch is not used.
        val_checkpoint: Weights that have not learnt from the validation part, where those of ``checkpoint`` have; only
            a ranker that learns from validation queries reads their vectors. None where they are the same.
        backend: What runs the encoder, by default PyTorch.
    """

    on_training_grid = True  # its cosines are those that training compares its encoder with

    def __init__(
        self,
        encoder: LoadedEncoder,
        text: Text,
        cache_dir: str,
        checkpoint: str | Path | None = None,
        val_checkpoint: str | Path | None = None,
        backend: Backend | None = None,
    ) -> None:
        self.encoder = encoder
        self.encoder.cache_dir = cache_dir
        self.encoder.backend = backend or encoder.backend
        self.text = text
        self.checkpoint = checkpoint
        self.val_checkpoint = val_checkpoint

    def vectors_to_learn_from(self, documents: pd.DataFrame) -> dict[str, np.ndarray]:
        """Vectors of documents by encoders that have not learnt from a part, by that part; before ``fit``.

        They are the encoder's before its training for the training part, and those of ``val_checkpoint``, if it is
        given, for the validation part, each ``(N, D)`` unit rows. Without trained weights there are none.

        Raises:
            ValueError: After ``fit``, which has loaded the weights.
        """
        if self.checkpoint is None:
            return {}
        if hasattr(self, "documents_"):
            raise ValueError("the trained weights are loaded: encode without them before fit")
        texts, _ = self.text(documents, self.encoder.tokenizer, self.encoder.text_tokens)
        vectors = {PARTS[TRAIN]: self.encoder.encode(texts)}
        if self.val_checkpoint is not None:
            self.encoder.load_weights(self.val_checkpoint)
            vectors[PARTS[VAL]] = self.encoder.encode(texts)
        return vectors

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
