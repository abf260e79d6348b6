"""Baselines that count words: TF-IDF and BM25."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from gedbd.corpora.documents import Corpus
from gedbd.text.templates import title_description

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

MAX_CHARACTERS = 2000


class TfIdf:
    """Cosine of TF-IDF vectors (scikit-learn), with English stop words left out.

    Args:
        max_characters: Of the description, so that a long log does not drown the rest.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self.max_characters = max_characters

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Counts words. Document frequencies are those of all reports: they are text without labels."""
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = short_texts(corpus.reports, self.max_characters)
        counter = TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32)
        self.vectors_ = csr_array((len(corpus), 1), dtype=np.float32)
        if has_words(counter, texts):
            self.vectors_ = counter.fit_transform(texts)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        return np.asarray((self.vectors_[rows] @ self.vectors_.T).toarray())


class Bm25:
    """BM25 as Lucene scores it (bm25s), with English stop words left out.

    Args:
        field: ``text`` for title and description, ``title`` for the title alone.
        max_characters: Of the description.
        square_root: Score its root, which tames long queries where scores are to be summed with others.
    """

    def __init__(self, field: str = "text", max_characters: int = MAX_CHARACTERS, square_root: bool = False) -> None:
        if field not in ("text", "title"):
            raise ValueError(f"BM25's field={field} is unknown: choose text or title")
        self.field, self.max_characters, self.square_root = field, max_characters, square_root

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Indexes all reports. Document frequencies are those of all reports: they are text without labels."""
        import bm25s

        reports = corpus.reports
        texts = list(reports["title"]) if self.field == "title" else short_texts(reports, self.max_characters)
        tokens: Any = bm25s.tokenize(texts, stopwords="en", show_progress=False)
        self.ids_ = tokens.ids
        self.index_ = bm25s.BM25()
        if any(len(ids) for ids in self.ids_):
            self.index_.index(tokens, show_progress=False)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        scores = np.zeros((len(rows), len(self.ids_)), dtype=np.float32)
        for place, row in enumerate(rows):
            if len(self.ids_[row]):
                scores[place] = self.index_.get_scores_from_ids(self.ids_[row])
        return np.sqrt(scores) if self.square_root else scores


def has_words(counter: "CountVectorizer", texts: Iterable[str]) -> bool:
    """Whether a counter finds anything to count; scikit-learn refuses to fit where it does not."""
    analyse = counter.build_analyzer()
    return any(analyse(text) for text in texts)


def short_texts(reports: pd.DataFrame, max_characters: int) -> list[str]:
    """Title and the beginning of the description of each report."""
    return title_description(reports.assign(description=reports["description"].str[:max_characters]))
