import math

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import cosine_similarity
from small_reports import filled, scores_of

from gedbd.retrieval.scorers.bm25 import Bm25, TfIdf

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
    found = scores_of(Bm25(), filled(make_corpus, title=TITLES, description=DESCRIPTIONS))
    assert found.dtype == np.float32
    assert lucene(WORDS)[0, 1] > 0.1
    np.testing.assert_allclose(found, lucene(WORDS), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("baseline", [Bm25(), Bm25(square_root=True), Bm25(field="title"), TfIdf()])
def test_a_report_without_words_is_like_no_other_not_even_itself(make_corpus, baseline):
    found = scores_of(baseline, filled(make_corpus, title=TITLES, description=DESCRIPTIONS))
    assert np.isfinite(found).all()
    assert (found[[2, 3]] == 0).all()
    assert (found[:, [2, 3]] == 0).all()
    assert (np.diag(found)[[0, 1, 4, 5]] > 0).all()


def test_tfidf_is_the_cosine_of_scikit_learns_vectors(make_corpus):
    found = scores_of(TfIdf(), filled(make_corpus, title=TITLES, description=DESCRIPTIONS))
    texts = [f"{title} {description}" for title, description in zip(TITLES, DESCRIPTIONS, strict=True)]
    expected = cosine_similarity(TfidfVectorizer(stop_words="english", sublinear_tf=True).fit_transform(texts))
    assert found.dtype == np.float32
    assert 0 < expected[0, 5] < 1
    np.testing.assert_allclose(found, expected, atol=1e-6)
