from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.documents import FIELDS, Corpus
from gedbd.encoders.encoder import load_tiny_encoder
from gedbd.encoders.text_encoder import TextEncoder


@pytest.fixture(autouse=True)
def _seed() -> None:
    """The same numbers in every run, whatever ran before."""
    torch.manual_seed(0)


@pytest.fixture
def make_corpus() -> Callable[..., Corpus]:
    """Builds a corpus from group numbers and, where there are dates, the day of 2024 on which each report was filed."""

    def make(group: Sequence[int] | np.ndarray, days: Sequence[int] | None = None) -> Corpus:
        reports = pd.DataFrame("", index=range(len(group)), columns=list(FIELDS), dtype=str)
        reports["issue_id"] = [str(1000 + row) for row in range(len(group))]
        since = pd.to_timedelta(pd.Series(days if days is not None else [None] * len(group), dtype=float), unit="D")
        reports["created_at"] = pd.Timestamp("2024-01-01", tz="UTC") + since
        return Corpus("small", reports, np.asarray(group, dtype=np.int64))

    return make


@pytest.fixture
def tiny() -> tuple[TextEncoder, PreTrainedTokenizerBase]:
    """A tiny random encoder without dropout, and its tokenizer."""
    encoder = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=0)
    return encoder.model, encoder.tokenizer
