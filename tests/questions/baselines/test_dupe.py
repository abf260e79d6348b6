import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import cosine_similarity
from small_questions import TABLE, TRAIN, fitted

from gedbd.questions.baselines.dupe import COMPARISONS, Dupe, tag_vectors


def all_cosines(table: pd.DataFrame) -> np.ndarray:
    """The seven cosines of all pairs, one field with another at a time, ``(N, N, 7)``."""
    texts = {
        "title": table["title"],
        "body": table["description"],
        "tags": table["labels"].str.replace(";", " "),
        "code": table["code"],
    }
    counter = TfidfVectorizer(stop_words="english")
    counter.fit([" ".join(parts) for parts in zip(*texts.values(), strict=True)])
    vectors = {field: counter.transform(column) for field, column in texts.items()}
    return np.stack([cosine_similarity(vectors[one], vectors[two]) for one, two in COMPARISONS], axis=-1)


def test_scores_are_those_of_scikit_learn():
    dupe = fitted(Dupe(c=2.0))
    cosines = all_cosines(TABLE)
    model = LogisticRegression(C=2.0, class_weight="balanced", max_iter=1000)
    model.fit(cosines[TRAIN["query"], TRAIN["document"]], TRAIN["label"])
    expected = logit(model.predict_proba(cosines.reshape(-1, 7))[:, 1]).reshape(6, 6)
    rows = np.array([4, 1, 3])
    found = dupe.scores(rows)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected[rows], atol=1e-3)
    assert list(dupe.weights_)[4] == "title - tags"
    assert dupe.warnings_ == ()


def test_a_corpus_without_code_compares_the_other_fields_and_says_so():
    dupe = fitted(Dupe(), TABLE.drop(columns="code"))
    assert dupe.weights_["code - code"] == 0
    assert dupe.warnings_ == ("dupe: no document has words in code: its comparisons are 0",)


def test_a_penalty_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"^dupe: c=0 must be above 0$"):
        Dupe(c=0)


def test_tag_sets_compare_by_what_they_share():
    documents, queries = tag_vectors(TABLE, TABLE[:1].assign(labels="list;sorting;unknown"))
    # Row 0 shares both of its tags with a query of three, row 2 its only one.
    expected = [2 / 6**0.5, 0, 1 / 3**0.5, 0, 0, 0]
    np.testing.assert_allclose((queries @ documents.T).toarray()[0], expected, rtol=1e-6)
