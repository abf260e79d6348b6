"""A text of an index as a query finds what the same words find as any other query."""

import numpy as np
import pytest
from small_reports import some_features, stored

from gedbd.retrieval.reports.report_features import TERM_KINDS
from gedbd.retrieval.reports.report_history import ReplayedTerms


@pytest.mark.parametrize("kind", TERM_KINDS)
def test_a_replayed_text_finds_what_its_words_find(kind):
    features = some_features(0, 60)
    index = stored(features).terms[kind]
    replayed = ReplayedTerms.of(index)
    for row in (0, 1, 2, 17, 59):
        terms = features.terms[kind][row]
        mine, other = replayed.query(row, terms), index.query(terms, row)
        for name in ("own", "frequency", "idf", "copy_score"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(other, name))
        for depth in (1, 5, 100):
            np.testing.assert_array_equal(*(one.highest(depth).rows(one.scores) for one in (mine, other)))
        rows = np.arange(row)
        rough, scores = mine.rough, mine.scores(rows)
        least, most = (bound * rough.values[rows] for bound in (rough.least, rough.most))
        np.testing.assert_array_equal(scores, other.scores(rows))
        assert (least <= scores).all()
        assert (scores <= most).all()


def test_texts_before_a_text_are_counted_by_hand():
    features = some_features(1, 8)
    index = stored(features).terms["title"]
    replayed = ReplayedTerms.of(index)
    titles = [set(title.tolist()) for title in features.terms["title"]]
    for row, title in enumerate(titles):
        own = slice(*replayed.starts[row : row + 2])
        assert replayed.terms[own].tolist() == sorted(title)
        expected = [sum(term in other for other in titles[:row]) for term in sorted(title)]
        assert replayed.earlier[own].tolist() == expected
