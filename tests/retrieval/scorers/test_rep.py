import itertools
import math

import numpy as np
import pandas as pd
import pytest
from small_reports import filled, scores_of

from gedbd.corpora.corpus import Corpus
from gedbd.retrieval.scorers.rep import INITIAL_WEIGHTS, Bm25F, Rep
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.retrieval.scorers.simple_scorers import FieldAgreement

# title, description, and by hand the words of each: lower case, two letters or more, without stop words
REPORTS = [
    ("Editor crash on start", "The editor crash is back", ["editor", "crash", "start"], ["editor", "crash"]),
    ("start crash START crash", "", ["start", "crash", "start", "crash"], []),
    ("", "editor crash editor crash editor x", [], ["editor", "crash", "editor", "crash", "editor"]),
    ("", "", [], []),
    ("print page", "crash when start", ["print", "page"], ["crash", "start"]),
    ("slow", "print the page", ["slow"], ["print", "page"]),
]
TITLES, DESCRIPTIONS, TITLE_WORDS, DESCRIPTION_WORDS = (list(column) for column in zip(*REPORTS, strict=True))


def pairs_of(*rows: tuple[int, int, int]) -> pd.DataFrame:
    return pd.DataFrame(np.array(rows, dtype=np.int64).reshape(-1, 3), columns=["earlier", "later", "label"])


def neighbours(words: list[list[str]]) -> list[list[str]]:
    return [[f"{first} {second}" for first, second in itertools.pairwise(text)] for text in words]


def bm25f(titles: list[list[str]], descriptions: list[list[str]]) -> np.ndarray:
    """Sum over shared terms of IDF * TF / (k1 + TF), one term of one report at a time."""
    size = len(titles)
    fields = ((titles, 3.0, 0.5), (descriptions, 1.0, 1.0))
    terms = [{*title, *description} for title, description in zip(titles, descriptions, strict=True)]
    scores = np.zeros((size, size))
    for row in range(size):
        for column in range(size):
            for term in terms[row] & terms[column]:
                total = 0.0
                for texts, weight, b in fields:
                    count = texts[column].count(term)
                    average = sum(map(len, texts)) / size
                    if count:
                        total += weight * count / (1 - b + b * len(texts[column]) / average)
                idf = math.log(size / sum(term in others for others in terms))
                scores[row, column] += idf * total / (2.0 + total)
    return scores


def test_bm25f_of_words_and_of_word_pairs_agrees_with_plain_python(make_corpus):
    corpus = filled(make_corpus, title=TITLES, description=DESCRIPTIONS)
    words = bm25f(TITLE_WORDS, DESCRIPTION_WORDS)
    np.testing.assert_allclose(scores_of(Bm25F(1), corpus), words, rtol=1e-5, atol=1e-6)
    word_pairs = bm25f(neighbours(TITLE_WORDS), neighbours(DESCRIPTION_WORDS))
    np.testing.assert_allclose(scores_of(Bm25F(2), corpus), word_pairs, rtol=1e-5, atol=1e-6)
    assert words[0, 4] > 0
    assert word_pairs[0, 2] > 0


def test_without_positive_pairs_the_weights_stay_the_papers(make_corpus):
    rep = Rep()
    corpus = filled(make_corpus, title=TITLES, description=DESCRIPTIONS)
    found = scores_of(rep, corpus, pairs_of((0, 1, 0), (2, 4, 0)))
    assert rep.weights_ == INITIAL_WEIGHTS
    assert list(INITIAL_WEIGHTS.values()) == [0.9, 0.2, 2.0, 0.0, 0.0, 0.0]
    word_pairs = bm25f(neighbours(TITLE_WORDS), neighbours(DESCRIPTION_WORDS))
    np.testing.assert_allclose(
        found, 0.9 * bm25f(TITLE_WORDS, DESCRIPTION_WORDS) + 0.2 * word_pairs, rtol=1e-5, atol=1e-6
    )


def test_the_steps_of_one_pair_worked_out_by_hand(make_corpus):
    size = 400
    component, version = ["gui", *(f"other {row}" for row in range(1, size - 1)), "gui"], ["1.0"] * size
    rep = Rep(irrelevant=5, lr=0.1, epochs=3, seed=0)
    rep.fit(
        ScorerInputs.of_reports(
            filled(make_corpus, component=component, version=version).reports, pairs_of((0, size - 1, 1))
        )
    )
    # the pair has its component to itself, so with each of the five the difference is 1 there and 0 elsewhere
    weight = 0.0
    for _ in range(3):
        weight += 0.1 * 5 / (1 + math.exp(weight))
    assert rep.weights_ == pytest.approx({**INITIAL_WEIGHTS, "component": weight}, rel=1e-6)


@pytest.fixture
def tracker(make_corpus) -> tuple[Corpus, pd.DataFrame]:
    """Twenty pairs of duplicates that agree in component and never in version, with random words."""
    generator = np.random.default_rng(0)
    words = np.array(["crash", "start", "editor", "print", "page", "slow", "menu", "font"])
    titles = [" ".join(generator.choice(words, size=4)) for _ in range(40)]
    number = np.arange(40) % 20
    corpus = filled(
        make_corpus,
        title=[title.split()[0] for title in titles],
        description=titles,
        component=[f"product/component {one}" for one in number],
        version=["old" if row < 20 else "new" for row in range(40)],
        priority=generator.choice(["P1", "P2"], size=40),
    )
    return corpus, pairs_of(*((row, row + 20, 1) for row in range(20)), *((row, row + 1, 0) for row in range(20)))


def test_the_field_that_decides_gains_weight_and_the_one_that_misleads_loses_it(tracker):
    corpus, train = tracker
    rep = Rep(lr=0.01)
    rep.fit(ScorerInputs.of_reports(corpus.reports, train))
    assert list(rep.weights_) == list(INITIAL_WEIGHTS)
    assert rep.weights_["component"] > INITIAL_WEIGHTS["component"] + 1
    assert rep.weights_["version"] < INITIAL_WEIGHTS["version"] - 0.5
    assert rep.weights_["product"] == INITIAL_WEIGHTS["product"]  # all reports are of one product
    scores = rep.scores(np.arange(20, 40))
    assert (scores[:, :20].argmax(axis=1) == np.arange(20)).all()


def test_the_score_is_the_weighted_sum_of_its_features(tracker):
    corpus, train = tracker
    rep = Rep(lr=0.01, max_characters=14)
    found = scores_of(rep, corpus, train)
    assert len(set(rep.weights_.values())) == 6
    expected = rep.weights_["words"] * scores_of(Bm25F(1, 14), corpus).astype(np.float64)
    expected += rep.weights_["word_pairs"] * scores_of(Bm25F(2, 14), corpus)
    for field in ("product", "component", "priority", "version"):
        expected += rep.weights_[field] * scores_of(FieldAgreement(field), corpus)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    rows = np.array([30, 2])
    np.testing.assert_allclose(rep.scores(rows), found[rows])
