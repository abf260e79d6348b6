from itertools import product

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from small_questions import ROWS, TABLE, fitted

from gedbd.questions.baselines.dup_predictor import (
    SIMILARITIES,
    CandidateLists,
    DupPredictor,
    WeightSearch,
    recall_sum,
)

SMALL = {"num_topics": 3, "topic_epochs": 2, "topic_min_count": 1, "starts": 2, "steps": 4}


@pytest.fixture(scope="module")
def predictor() -> DupPredictor:
    return fitted(DupPredictor(**SMALL))


def test_similarities_are_cosines(predictor):
    rows = np.array([2, 0])
    title, description, tag, topic = predictor.similarities(rows)
    counter = TfidfVectorizer(stop_words="english")
    counter.fit([f"{title} {body} {tags.replace(';', ' ')} {code}" for title, body, tags, code in ROWS])
    for found, column in ((title, "title"), (description, "description")):
        vectors = counter.transform(TABLE[column])
        np.testing.assert_allclose(found, cosine_similarity(vectors)[rows], atol=1e-6)
    np.testing.assert_allclose(tag[0], [0.5**0.5, 0, 1, 0, 0, 0], atol=1e-6)
    assert topic[0, 2] == pytest.approx(1, abs=1e-6)
    assert (topic[:, 4] == 0).all()


def test_topics_are_scikit_learns_distributions(predictor):
    topics = predictor.topics
    texts = [f"{title}\n{body}" for title, body, *_ in ROWS]
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
    weights = WeightSearch(starts=10, steps=20)(lists)
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


def test_a_corpus_without_tags_says_so():
    warning = "dup_predictor: no document has what tag similarity reads: it is 0"
    assert fitted(DupPredictor(**SMALL), TABLE.assign(labels="")).warnings_ == (warning,)
