import numpy as np
import pandas as pd
import pytest
from scipy.special import logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import cosine_similarity

from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.tasks.questions.baselines.dupe import COMPARISONS, Dupe
from gedbd.tasks.questions.baselines.term_vectors import tag_vectors

ROWS = [
    ("How to sort a list", "quick sort of numbers", "sorting;list", "sorted(list)"),
    ("Sorting numbers", "how do I sort a list quickly", "sorting", "sorted(numbers)"),
    ("Graph search", "breadth first of a tree", "graphs", "queue.pop()"),
    ("Search a tree", "graph and breadth", "graphs;trees", ""),
    ("", "", "", ""),
    ("Prove halting", "undecidable problem of numbers", "proof", "while true"),
]
TABLE = pd.DataFrame(ROWS, columns=["title", "description", "labels", "code"]).assign(component="")
TRAIN = pd.DataFrame({"query": [1, 3, 3, 5, 2], "document": [0, 2, 0, 1, 1], "label": [1, 1, 0, 0, 0]})


def inputs_of(table: pd.DataFrame, train: pd.DataFrame = TRAIN) -> ScorerInputs:
    return ScorerInputs(table, table, train)


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
    dupe = Dupe(c=2.0)
    dupe.fit(inputs_of(TABLE))
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


def test_queries_of_another_table_score_like_their_copies():
    dupe = Dupe()
    dupe.fit(ScorerInputs(TABLE, TABLE.copy(), TRAIN))
    same = Dupe()
    same.fit(inputs_of(TABLE))
    np.testing.assert_allclose(dupe.scores(np.arange(6)), same.scores(np.arange(6)), rtol=1e-6)


def test_a_corpus_without_code_compares_the_other_fields_and_says_so():
    dupe = Dupe()
    dupe.fit(inputs_of(TABLE.drop(columns="code")))
    assert dupe.weights_["code - code"] == 0
    assert dupe.warnings_ == ("dupe: no document has words in code: its comparisons are 0",)


@pytest.mark.parametrize("label", [0, 1])
def test_pairs_of_one_kind_are_refused(label):
    with pytest.raises(ValueError, match=r"^dupe needs a positive and a negative pair in the training part"):
        Dupe().fit(inputs_of(TABLE, TRAIN.assign(label=label)))


def test_a_corpus_without_words_scores_all_alike():
    empty = TABLE.assign(title="", description="", labels="", code="")
    dupe = Dupe()
    dupe.fit(inputs_of(empty))
    assert len(np.unique(dupe.scores(np.arange(6)))) == 1
    assert len(dupe.warnings_) == 4


def test_a_penalty_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"^dupe: c=0 must be above 0$"):
        Dupe(c=0)


def test_tag_sets_compare_by_what_they_share():
    documents, queries = tag_vectors(TABLE, TABLE[:1].assign(labels="list;sorting;unknown"))
    # Row 0 shares both of its tags with a query of three, row 1 its only one.
    expected = [2 / 6**0.5, 1 / 3**0.5, 0, 0, 0, 0]
    np.testing.assert_allclose((queries @ documents.T).toarray()[0], expected, rtol=1e-6)
