import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.templates import title_description
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.retrieval.cross_encoder import Reranker
from gedbd.retrieval.linear_ranker import standardise
from gedbd.retrieval.scorers.bm25 import TfIdf
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.sampling.pairs import positive_pairs

WORDS = ["mail", "folder", "crash", "search", "printer", "calendar", "reply", "theme", "update", "password"]


@pytest.fixture
def corpus(make_corpus) -> Corpus:
    rng = np.random.default_rng(0)
    made = make_corpus(np.arange(40) % 20)
    made.reports["title"] = [" ".join(rng.choice(WORDS, 4)) for _ in range(40)]
    return made


@pytest.fixture
def train(corpus) -> pd.DataFrame:
    earlier, later = positive_pairs(corpus.group)
    return pd.DataFrame({"earlier": earlier, "later": later, "label": 1})


def fitted(corpus: Corpus, train: pd.DataFrame, **options) -> Reranker:
    encoder = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.1, seed=0)
    reranker = Reranker(TfIdf(), encoder, title_description, max_tokens=32, **{"depth": 5, "negatives": 2} | options)
    reranker.fit(ScorerInputs.of_reports(corpus.reports, train))
    return reranker


def test_the_top_changes_places_and_stays_the_top(corpus, train):
    reranker = fitted(corpus, train)
    first, second = reranker.first.scores(np.array([39]))[0, :39], reranker.scores(np.array([39]))[0, :39]
    before, after = (np.argsort(-scores, kind="stable") for scores in (first, second))
    assert set(before[:5]) == set(after[:5])
    assert before[5:].tolist() == after[5:].tolist()


def test_a_pair_has_the_score_of_both_readers(corpus, train):
    reranker = fitted(corpus, train)
    scores = reranker.score_pairs(np.array([23, 39, 39]), np.array([3, 7, 30]))
    texts = reranker.texts_
    first = [
        standardise(reranker.first.scores(np.array([row]))[0], row)[place]
        for place, row in ((3, 23), (7, 39), (30, 39))
    ]
    second = [float(reranker.model.predict([texts[b]], [texts[a]])[0]) for a, b in ((3, 23), (7, 39), (30, 39))]
    expected = reranker.weights_[0] * np.array(first) + reranker.weights_[1] * np.array(second)
    assert scores == pytest.approx(expected, abs=1e-5)


def test_training_changes_the_cross_encoder_and_is_repeatable(corpus, train):
    once, again, longer = (fitted(corpus, train, epochs=epochs, lr=1e-3) for epochs in (1, 1, 2))
    rows = np.array([30, 35])
    assert np.array_equal(once.scores(rows), again.scores(rows))
    assert not np.array_equal(once.scores(rows), longer.scores(rows))
