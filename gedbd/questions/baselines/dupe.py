"""Dupe: logistic regression over cosines of the fields of two questions."""

import numpy as np
import pandas as pd
from scipy.sparse import csr_array, hstack

from gedbd.questions.baselines.term_vectors import FIELDS, MAX_CHARACTERS, TermVectors
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs

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


class Dupe(Scorer):
    """Dupe (Ahasanuzzaman et al., "Mining Duplicate Questions in Stack Overflow", MSR 2016).

    Seven cosines of TF-IDF vectors are compared by logistic regression: title with title, body with body, title with
    body, body with title, title with tags, tags with tags, and code with code; the query's field comes first. The
    classes are weighted to count the same, as negatives outnumber positives. Unlike there, words are not stemmed, the
    candidates are not cut to those of a common tag, and the pairs are those that the pair sampler draws.

    Args:
        c: Inverse strength of the penalty on squared weights.
        max_characters: Length that descriptions and code are cut to.

    Attributes:
        weights_: Learned weight of each comparison, by name.
        intercept_: Log odds of a pair whose cosines are all 0.
    """

    def __init__(self, c: float = 1.0, max_characters: int = MAX_CHARACTERS) -> None:
        if c <= 0:
            raise ValueError(f"dupe: c={c} must be above 0")
        self.c = c
        self.max_characters = max_characters

    def fit(self, inputs: ScorerInputs) -> None:
        """Learns the weights from the training pairs.

        Raises:
            ValueError: If the training part has no positive or no negative pair.
        """
        train = inputs.train
        if train["label"].nunique() < 2:
            raise ValueError("dupe needs a positive and a negative pair in the training part to learn from")
        terms = TermVectors(self.max_characters)
        terms.fit(inputs.documents)
        documents = {field: terms(inputs.documents, field) for field in FIELDS}
        queries = documents
        if not inputs.one_table:
            queries = {field: terms(inputs.queries, field) for field in FIELDS}
        self.warnings_ = _empty_fields(documents)
        cosines = pair_cosines(queries, documents, train)
        weights = self._learn(cosines, train["label"].to_numpy())
        self.weights_ = dict(zip(map(" - ".join, COMPARISONS), weights.tolist(), strict=True))
        # All comparisons are one product of longer vectors: [title, body] [0.2 title, 0.8 body] is their weighted sum.
        parts = zip(weights, COMPARISONS, strict=True)
        self.queries_ = hstack([weight * queries[field] for weight, (field, _) in parts], format="csr")
        self.documents_ = hstack([documents[field] for _, field in COMPARISONS], format="csr").T.tocsr()

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` log odds of being duplicates."""
        products = (self.queries_[rows] @ self.documents_).toarray()
        return np.asarray(products + self.intercept_, dtype=np.float32)

    def _learn(self, cosines: np.ndarray, labels: np.ndarray) -> np.ndarray:
        """Weights ``(7,)`` float32 of the comparisons, from ``(P, 7), (P,)``."""
        from sklearn.linear_model import LogisticRegression

        model = LogisticRegression(C=self.c, class_weight="balanced", max_iter=1000)
        model.fit(cosines, labels)
        self.intercept_ = np.float32(model.intercept_[0])
        return np.asarray(model.coef_[0], dtype=np.float32)


def pair_cosines(queries: dict[str, csr_array], documents: dict[str, csr_array], pairs: pd.DataFrame) -> np.ndarray:
    """The seven cosines of P pairs, ``(P, 7)``.

    Args:
        queries: Unit vectors of each field of the queries.
        documents: Unit vectors of each field of the documents.
        pairs: Pairs with ``query`` and ``document``.
    """
    columns = []
    for query_field, document_field in COMPARISONS:
        first = queries[query_field][pairs["query"].to_numpy()]
        second = documents[document_field][pairs["document"].to_numpy()]
        columns.append(np.asarray(first.multiply(second).sum(axis=1)).ravel())
    return np.stack(columns, axis=1)


def _empty_fields(documents: dict[str, csr_array]) -> tuple[str, ...]:
    """A warning for each field that no document has."""
    empty = [field for field in FIELDS if documents[field].nnz == 0]
    return tuple(f"dupe: no document has words in {field}: its comparisons are 0" for field in empty)
