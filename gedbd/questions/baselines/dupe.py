"""Dupe: logistic regression over cosines of the fields of two questions."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from gedbd.corpora.fields import number_tags, occurrence_matrix, tags_of
from gedbd.retrieval.scorers.bm25 import has_words
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

MAX_CHARACTERS = 2000
FIELDS = ("title", "body", "tags", "code")
# Field of the query and field of the document.
COMPARISONS = (
    ("title", "title"),
    ("body", "body"),
    ("title", "body"),
    ("body", "title"),
    ("title", "tags"),
    ("tags", "tags"),
    ("code", "code"),
)


@dataclass(eq=False)
class TermVectors:
    """Unit TF-IDF vectors of title, body, tags and code, without English stop words (scikit-learn).

    Document frequencies are those of the documents' four fields together. Words are not stemmed.
    """

    max_characters: int = MAX_CHARACTERS  # length that descriptions and code are cut to

    def fit(self, documents: pd.DataFrame) -> None:
        """Learns the words of N documents and their document frequencies."""
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
    """Unit vectors of tag sets, ``(N, T)`` and ``(Q, T)``: a dot product is shared tags / sqrt(count * count)."""
    document_tags = tags_of(documents)
    tag_numbers = number_tags(document_tags)
    return _unit_sets(document_tags, tag_numbers), _unit_sets(tags_of(queries), tag_numbers)


def _unit_sets(sets: list[tuple[str, ...]], tag_numbers: dict[str, int]) -> csr_array:
    """One row for each set: 1 / sqrt(size) at each known tag; unknown tags only add to the size."""
    matrix = occurrence_matrix(sets, tag_numbers).astype(np.float32)
    values = [max(1, len(tags)) ** -0.5 for tags in sets]
    matrix.data = np.repeat(np.array(values, dtype=np.float32), np.diff(matrix.indptr))
    return matrix


@dataclass(eq=False)
class Dupe(Scorer):
    """Dupe (Ahasanuzzaman et al., "Mining Duplicate Questions in Stack Overflow", MSR 2016).

    Logistic regression over seven cosines of TF-IDF vectors: title with title, body with body, title with
    body, body with title, title with tags, tags with tags, and code with code; the query's field comes first. The
    classes are balanced by weights, as negatives outnumber positives. Unlike in the paper, words are not stemmed,
    candidates need not share a tag with the query, and the pair sampler draws the pairs.

    Attributes:
        weights_: Learned weight of each comparison, by name.
        intercept_: Log odds of a pair whose cosines are all 0.
    """

    c: float = 1.0  # inverse strength of the penalty on squared weights
    max_characters: int = MAX_CHARACTERS  # length that descriptions and code are cut to

    def __post_init__(self) -> None:
        if self.c <= 0:
            raise ValueError(f"dupe: c={self.c} must be above 0")

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns the weights from the training pairs.

        Raises:
            ValueError: If the training split has no positive or no negative pair.
        """
        from sklearn.linear_model import LogisticRegression

        train = inputs.train
        if train["label"].nunique() < 2:
            raise ValueError("dupe needs a positive and a negative pair in the training split to learn from")
        terms = TermVectors(self.max_characters)
        terms.fit(inputs.documents)
        documents = {field: terms(inputs.documents, field) for field in FIELDS}
        queries = documents
        if not inputs.one_table:
            queries = {field: terms(inputs.queries, field) for field in FIELDS}
        empty = [field for field in FIELDS if documents[field].nnz == 0]
        self.warnings_ = tuple(f"dupe: no document has words in {field}: its comparisons are 0" for field in empty)
        cosines = pair_cosines(queries, documents, train)
        model = LogisticRegression(C=self.c, class_weight="balanced", max_iter=1000)
        model.fit(cosines, train["label"].to_numpy())
        self.intercept_ = np.float32(model.intercept_[0])
        weights = np.asarray(model.coef_[0], dtype=np.float32)
        self.weights_ = dict(zip(map(" - ".join, COMPARISONS), weights.tolist(), strict=True))
        # One product of longer vectors computes the weighted sum: [0.2 title, 0.8 body] [title, body].
        weighted_comparisons = zip(weights, COMPARISONS, strict=True)
        self.queries_ = hstack([weight * queries[field] for weight, (field, _) in weighted_comparisons], format="csr")
        self.documents_ = hstack([documents[field] for _, field in COMPARISONS], format="csr").T.tocsr()

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` log odds of being duplicates."""
        products = (self.queries_[rows] @ self.documents_).toarray()
        return np.asarray(products + self.intercept_, dtype=np.float32)


def pair_cosines(queries: dict[str, csr_array], documents: dict[str, csr_array], pairs: pd.DataFrame) -> np.ndarray:
    """The seven cosines of P pairs, ``(P, 7)``."""
    columns = []
    for query_field, document_field in COMPARISONS:
        first = queries[query_field][pairs["query"].to_numpy()]
        second = documents[document_field][pairs["document"].to_numpy()]
        columns.append(np.asarray(first.multiply(second).sum(axis=1)).ravel())
    return np.stack(columns, axis=1)
