"""Scorers that count words: TF-IDF and BM25."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.scorers.scorer import Scorer, ScorerInputs
from gedbd.retrieval.vocabulary import Vocabulary, words
from gedbd.text.templates import join_texts

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

MAX_CHARACTERS = 2000


class TfIdf(Scorer):
    """Cosine of TF-IDF vectors (scikit-learn), without English stop words.

    Args:
        max_characters: Length that descriptions are cut to, so that a long log does not outweigh the rest.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self.max_characters = max_characters

    def fit(self, inputs: ScorerInputs) -> None:
        """Counts words. Document frequencies are those of all documents: they are text without labels."""
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = short_texts(inputs.documents, self.max_characters)
        counter = TfidfVectorizer(stop_words="english", sublinear_tf=True, dtype=np.float32)
        if not has_words(counter, texts):
            self.documents_ = csr_array((len(texts), 1), dtype=np.float32)
            self.queries_ = csr_array((len(inputs.queries), 1), dtype=np.float32)
            return
        self.documents_ = counter.fit_transform(texts)
        self.queries_ = self.documents_
        if not inputs.one_table:
            self.queries_ = counter.transform(short_texts(inputs.queries, self.max_characters))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        # Rows have length 1, so that products are cosines.
        return np.asarray((self.queries_[rows] @ self.documents_.T).toarray())


class Bm25(Scorer):
    """BM25 as Lucene scores it, without English stop words.

    Args:
        field: ``text`` for title and description, ``title`` for the title alone.
        max_characters: Length that descriptions are cut to.
        square_root: Return the root of the score. It compresses the scores of long queries, which would dominate a sum
            with other scores.
    """

    def __init__(self, field: str = "text", max_characters: int = MAX_CHARACTERS, square_root: bool = False) -> None:
        if field not in ("text", "title"):
            raise ValueError(f"BM25's field={field} is unknown: choose text or title")
        self.field = field
        self.max_characters = max_characters
        self.square_root = square_root

    def fit(self, inputs: ScorerInputs) -> None:
        """Indexes all documents. Document frequencies are those of all documents: they are text without labels."""
        vocabulary = Vocabulary()
        documents = vocabulary(words(self._texts(inputs.documents)), learn=True)
        self.index_ = InvertedIndex()
        self.index_.add(documents)
        self.queries_ = documents
        if not inputs.one_table:
            # Words that no document has get numbers that the index does not know, and score nothing.
            self.queries_ = vocabulary(words(self._texts(inputs.queries)), learn=False)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        scores = np.empty((len(rows), len(self.index_)), dtype=np.float32)
        for place, row in enumerate(rows):
            scores[place] = self.index_.scores(self.queries_[row])
        return np.sqrt(scores) if self.square_root else scores

    def _texts(self, table: pd.DataFrame) -> list[str]:
        return list(table["title"]) if self.field == "title" else short_texts(table, self.max_characters)


def has_words(counter: "CountVectorizer", texts: Iterable[str]) -> bool:
    """Whether a counter finds anything to count; scikit-learn refuses to fit where it does not."""
    analyse = counter.build_analyzer()
    return any(analyse(text) for text in texts)


def short_texts(table: pd.DataFrame, max_characters: int) -> list[str]:
    """Title and the beginning of the description of each row."""
    descriptions = [text[:max_characters] for text in table["description"]]
    return join_texts(table["title"], descriptions)
