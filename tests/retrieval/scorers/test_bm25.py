import math
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity

from gedbd.corpora.corpus import Corpus
from gedbd.retrieval.scorers.bm25 import Bm25, TfIdf
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

NO_PAIRS = pd.DataFrame({"earlier": [], "later": [], "label": []}, dtype=np.int64)

# title, description, and by hand the words of both: lower case, two letters or more, without "the", "on", "in", "it"
REPORTS = [
    ("The editor crashes on start", "Crashes!", ["editor", "crashes", "start", "crashes"]),
    ("CRASH: crash, Crash", "in the editor", ["crash", "crash", "crash", "editor"]),
    ("x y z", "a b - c", []),
    ("", "", []),
    ("Start-up when it's naïve", "line_42 ist 日本", ["start", "up", "when", "naïve", "line_42", "ist", "日本"]),
    ("editor editor", "", ["editor", "editor"]),
]
TITLES, DESCRIPTIONS, WORDS = (list(column) for column in zip(*REPORTS, strict=True))


def written(make_corpus: Callable[..., Corpus], titles: Sequence[str], descriptions: Sequence[str]) -> Corpus:
    corpus = make_corpus(range(len(titles)))
    corpus.reports["title"], corpus.reports["description"] = list(titles), list(descriptions)
    return corpus


def scores_of(baseline: Bm25 | TfIdf, corpus: Corpus) -> np.ndarray:
    baseline.fit(ScorerInputs.of_reports(corpus.reports, NO_PAIRS))
    return baseline.scores(np.arange(len(corpus)))


def lucene(words: list[list[str]], k1: float = 1.5, b: float = 0.75) -> np.ndarray:
    """Lucene's BM25 of every text as the query against every text; a word said twice in the query counts twice."""
    average = sum(len(text) for text in words) / len(words)
    scores = np.zeros((len(words), len(words)))
    for row, query in enumerate(words):
        for column, text in enumerate(words):
            for word in query:
                holding = sum(word in other for other in words)
                idf = math.log(1 + (len(words) - holding + 0.5) / (holding + 0.5))
                count = text.count(word)
                scores[row, column] += idf * count / (count + k1 * (1 - b + b * len(text) / average))
    return scores


def test_bm25_is_lucenes(make_corpus):
    found = scores_of(Bm25(), written(make_corpus, TITLES, DESCRIPTIONS))
    assert found.dtype == np.float32
    assert lucene(WORDS)[0, 1] > 0.1
    np.testing.assert_allclose(found, lucene(WORDS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("baseline", [Bm25(), Bm25(square_root=True), Bm25(field="title"), TfIdf()])
def test_a_report_without_words_is_like_no_other_not_even_itself(make_corpus, baseline):
    found = scores_of(baseline, written(make_corpus, TITLES, DESCRIPTIONS))
    assert np.isfinite(found).all()
    assert (found[[2, 3]] == 0).all()
    assert (found[:, [2, 3]] == 0).all()
    assert (np.diag(found)[[0, 1, 4, 5]] > 0).all()


def test_tfidf_is_the_cosine_of_scikit_learns_vectors(make_corpus):
    found = scores_of(TfIdf(), written(make_corpus, TITLES, DESCRIPTIONS))
    texts = [f"{title} {description}" for title, description in zip(TITLES, DESCRIPTIONS, strict=True)]
    expected = cosine_similarity(TfidfVectorizer(stop_words="english", sublinear_tf=True).fit_transform(texts))
    assert found.dtype == np.float32
    assert 0 < expected[0, 5] < 1
    np.testing.assert_allclose(found, expected, atol=1e-6)
