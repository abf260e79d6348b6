"""TF-IDF vectors of the fields of documents over one vocabulary, so that fields can be compared with each other."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

from gedbd.corpora.fields import number_tags, occurrence_matrix, tags_of
from gedbd.retrieval.scorers.bm25 import has_words

MAX_CHARACTERS = 2000
FIELDS = ("title", "body", "tags", "code")


class TermVectors:
    """Unit TF-IDF vectors of title, body, tags and code, without English stop words (scikit-learn).

    Document frequencies are those of the documents' four fields together. Words are not stemmed.

    Args:
        max_characters: Length that descriptions and code are cut to.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self.max_characters = max_characters

    def fit(self, documents: pd.DataFrame) -> None:
        """Learns the words of N documents, and how many documents have each."""
        from sklearn.feature_extraction.text import TfidfVectorizer

        fields = [field_texts(documents, field, self.max_characters) for field in FIELDS]
        texts = ["\n".join(parts) for parts in zip(*fields, strict=True)]
        self.counter_ = TfidfVectorizer(stop_words="english", dtype=np.float32)
        self.is_empty_ = not has_words(self.counter_, texts)
        if not self.is_empty_:
            self.counter_.fit(texts)

    def __call__(self, table: pd.DataFrame, field: str) -> csr_array:
        """The vectors of a field of N documents, ``(N, V)`` float32 unit rows; zeros for an empty field."""
        if self.is_empty_:
            return csr_array((len(table), 1), dtype=np.float32)
        return csr_array(self.counter_.transform(field_texts(table, field, self.max_characters)))


def field_texts(table: pd.DataFrame, field: str, max_characters: int) -> list[str]:
    """A field of N documents as text. A table without the column ``code`` has empty code."""
    if field == "tags":
        return [" ".join(tags) for tags in tags_of(table)]
    column = "description" if field == "body" else field
    if column not in table:
        return [""] * len(table)
    return [str(text) for text in table[column].str[: None if field == "title" else max_characters]]


def tag_vectors(documents: pd.DataFrame, queries: pd.DataFrame) -> tuple[csr_array, csr_array]:
    """Unit vectors of tag sets, ``(N, T)`` and ``(Q, T)``: the product of two is shared / sqrt(count * count)."""
    of_documents = tags_of(documents)
    places = number_tags(of_documents)
    return _unit_sets(of_documents, places), _unit_sets(tags_of(queries), places)


def _unit_sets(sets: list[tuple[str, ...]], places: dict[str, int]) -> csr_array:
    """One row for each set, 1 / sqrt(its size) at each known member; unknown ones count in the size alone."""
    matrix = occurrence_matrix(sets, places).astype(np.float32)
    values = [max(1, len(tags)) ** -0.5 for tags in sets]
    matrix.data = np.repeat(np.array(values, dtype=np.float32), np.diff(matrix.indptr))
    return matrix
