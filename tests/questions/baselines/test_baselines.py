"""What all baselines of duplicate questions do alike, and Dupe and DupPredictor against scikit-learn."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.special import logit
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics.pairwise import cosine_similarity

from gedbd.questions.baselines.bilstm import BiLstmScorer
from gedbd.questions.baselines.dup_predictor import (
    SIMILARITIES,
    CandidateLists,
    DupPredictor,
    recall_sum,
    search_weights,
)
from gedbd.questions.baselines.dupe import COMPARISONS, Dupe, tag_vectors
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs
from gedbd.retrieval.scorers.word_vectors import Word2Vec

QUESTIONS = [
    ("How to sort a list", "quick sort of numbers", "sorting;list", "sorted(list)"),
    ("Graph search", "breadth first search of a tree", "graphs", "queue.pop()"),
    ("Sorting numbers", "how do I sort a list quickly", "sorting", "sorted(numbers)"),
    ("Search a tree", "graph and breadth", "graphs;trees", ""),
    ("", "", "", ""),
    ("Prove halting", "undecidable problem of numbers", "proof", "while true"),
]
TABLE = pd.DataFrame(QUESTIONS, columns=["title", "description", "labels", "code"]).assign(
    component="", created_at=pd.NaT
)
TRAIN = pd.DataFrame({"query": [2, 3, 3, 5], "document": [0, 1, 0, 1], "label": [1, 1, 0, 0]})


def fitted(scorer: Scorer, table: pd.DataFrame = TABLE, train: pd.DataFrame = TRAIN) -> Scorer:
    scorer.fit(ScorerInputs(table, table, train))
    return scorer


ROWS = np.arange(len(TABLE))
MAKE = {
    "bilstm": lambda: BiLstmScorer(Word2Vec(dim=6, min_count=1, epochs=1, sample=0), hidden=4, dim=5, epochs=2),
    "dup_predictor": lambda: DupPredictor(num_topics=3, topic_epochs=2, topic_min_count=1, starts=2, steps=4),
    "dupe": Dupe,
}
ONE_PAIR = pd.DataFrame({"query": [1], "document": [0], "label": [1]})


@pytest.mark.parametrize("name", MAKE)
def test_another_fit_is_the_same_and_leaves_the_random_numbers_of_others_alone(name):
    state = torch.get_rng_state()
    first = fitted(MAKE[name]()).scores(ROWS)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(5)
    assert (fitted(MAKE[name]()).scores(ROWS) == first).all()


@pytest.mark.parametrize("name", ["dup_predictor", "dupe"])
def test_queries_of_another_table_score_like_their_copies(name):
    scorer = MAKE[name]()
    scorer.fit(ScorerInputs(TABLE, TABLE.copy(), TRAIN))
    np.testing.assert_allclose(scorer.scores(ROWS), fitted(MAKE[name]()).scores(ROWS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "num_warnings"), [("bilstm", 1), ("dup_predictor", 4), ("dupe", 4)])
def test_a_corpus_without_words_scores_all_alike_and_says_so(name, num_warnings):
    empty = TABLE.assign(title="", description="", labels="", code="")
    scorer = fitted(MAKE[name](), empty)
    assert len(np.unique(scorer.scores(ROWS))) == 1
    assert sum(warning.startswith(f"{name}: ") for warning in scorer.warnings_) == num_warnings


@pytest.mark.parametrize(
    ("name", "train", "message"),
    [
        *(
            ("bilstm", train, "no training pair has an earlier irrelevant document")
            for train in (TRAIN.assign(label=0), TRAIN[:0], ONE_PAIR)
        ),
        ("dup_predictor", TRAIN.assign(label=0), "dup_predictor needs a duplicate pair in the training split"),
        (
            "dup_predictor",
            pd.DataFrame({"query": [0], "document": [0], "label": [1]}),
            "dup_predictor needs a training query with an earlier duplicate",
        ),
        *(
            ("dupe", TRAIN.assign(label=label), "dupe needs a positive and a negative pair in the training split")
            for label in (0, 1)
        ),
    ],
)
def test_training_without_what_it_learns_from_is_refused(name, train, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        fitted(MAKE[name](), train=train)


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


def test_a_corpus_without_code_or_tags_compares_the_other_fields_and_says_so():
    dupe = fitted(Dupe(), TABLE.drop(columns="code"))
    assert dupe.weights_["code - code"] == 0
    assert dupe.warnings_ == ("dupe: no document has words in code: its comparisons are 0",)
    warning = "dup_predictor: no document has input for the tag similarity: it is 0"
    assert fitted(DupPredictor(**FEW_TOPICS), TABLE.assign(labels="")).warnings_ == (warning,)


def test_a_penalty_of_zero_is_refused():
    with pytest.raises(ValueError, match=r"^dupe: c=0 must be above 0$"):
        Dupe(c=0)


def test_tag_sets_compare_by_what_they_share():
    documents, queries = tag_vectors(TABLE, TABLE[:1].assign(labels="list;sorting;unknown"))
    # Row 0 shares both of its tags with a query of three, row 2 its only one.
    expected = [2 / 6**0.5, 0, 1 / 3**0.5, 0, 0, 0]
    np.testing.assert_allclose((queries @ documents.T).toarray()[0], expected, rtol=1e-6)


FEW_TOPICS = {"num_topics": 3, "topic_epochs": 2, "topic_min_count": 1, "starts": 2, "steps": 4}


@pytest.fixture(scope="module")
def predictor() -> DupPredictor:
    return fitted(DupPredictor(**FEW_TOPICS))


def test_similarities_are_cosines(predictor):
    rows = np.array([2, 0])
    title, description, tag, topic = predictor.similarities(rows)
    counter = TfidfVectorizer(stop_words="english")
    counter.fit([f"{title} {body} {tags.replace(';', ' ')} {code}" for title, body, tags, code in QUESTIONS])
    for found, column in ((title, "title"), (description, "description")):
        vectors = counter.transform(TABLE[column])
        np.testing.assert_allclose(found, cosine_similarity(vectors)[rows], atol=1e-6)
    np.testing.assert_allclose(tag[0], [0.5**0.5, 0, 1, 0, 0, 0], atol=1e-6)
    assert topic[0, 2] == pytest.approx(1, abs=1e-6)
    assert (topic[:, 4] == 0).all()


def test_topics_are_scikit_learns_distributions(predictor):
    topics = predictor.topics
    texts = [f"{title}\n{body}" for title, body, *_ in QUESTIONS]
    expected = topics.model_.transform(topics.counter_.transform(texts)[:, topics.columns_])
    np.testing.assert_allclose(predictor.topics_[0], expected[0] / np.linalg.norm(expected[0]), rtol=1e-5)


def test_a_score_is_the_weighted_sum(predictor):
    rows = np.arange(6)
    weights = [predictor.weights_[name] for name in SIMILARITIES]
    expected = sum(weight * part for weight, part in zip(weights, predictor.similarities(rows), strict=True))
    np.testing.assert_allclose(predictor.scores(rows), expected, rtol=1e-5)
    assert all(0 <= weight <= 1 for weight in weights)


def test_recall_worked_out_by_hand():
    # 25 candidates: 4 stand ahead of the relevant one of the first query, 12 of the second; equal ones stand ahead.
    scores = np.zeros((3, 25))
    scores[0, :4] = 2
    scores[0, 20] = 1
    scores[1, :12] = 1
    scores[1, 20] = 1
    scores[2, 20] = np.nan
    relevant = np.zeros((3, 25), dtype=bool)
    relevant[:2, 20] = True
    relevant[2, 0] = True
    # First 1 + 1 + 1, second 0 + 0 + 1, third 0, as 23 others have its score.
    assert recall_sum(scores, relevant) == pytest.approx(4 / 3)


def test_weights_are_as_good_as_the_best_of_a_grid():
    rng = np.random.default_rng(0)
    relevant = np.zeros((30, 60), dtype=bool)
    relevant[:, 0] = True
    # The first similarity tells most, the second a little, the third nothing.
    scores = rng.normal(size=(3, 30, 60)) + np.array([1.5, 0.7, 0.0])[:, None, None] * relevant
    lists = CandidateLists(scores.astype(np.float32), relevant)
    weights = search_weights(lists, starts=10, steps=20, seed=0)
    found = recall_sum(np.tensordot(weights, lists.scores, axes=1), relevant)
    grid = product(np.linspace(0, 1, 6), repeat=3)
    best = max(recall_sum(np.tensordot(np.array(point), lists.scores, axes=1), relevant) for point in grid)
    assert found >= best - 0.05
    assert weights[0] > weights[1] > weights[2]


def test_lists_of_different_lengths_are_padded():
    lists = CandidateLists.padded(
        [np.ones((2, 1)), np.ones((2, 3))], [np.array([True]), np.array([False, True, False])]
    )
    assert np.isnan(lists.scores[:, 0, 1:]).all()
    assert lists.relevant.tolist() == [[True, False, False], [False, True, False]]
