"""The best texts of a query are those of all its scores, whatever was added, replaced and removed."""

from copy import copy

import numpy as np
import pytest

from gedbd.retrieval.inverted_index import TAIL, InvertedIndex, idf_of, length_norm
from gedbd.retrieval.report_ranking.term_index import OwnQueries, TermIndex


def some_texts(seed, count, longest=25):
    generator = np.random.default_rng(seed)
    return [generator.zipf(1.4, size=size).astype(np.int32) % 90 for size in generator.integers(0, longest, count)]


def indexes(texts, step):
    """The index, and the plain one."""
    mine, plain = TermIndex(), InvertedIndex()
    for start in range(0, len(texts), step):
        mine.add(texts[start : start + step])
    plain.add(texts)
    return mine, plain


def check(mine, plain, query, before=None, allowed=None):
    scores = plain.scores(query, before)
    asked = mine.query(query, before)
    for depth in (0, 1, 7, 60):
        rows = np.flatnonzero(scores if allowed is None else scores * allowed)
        best = rows[np.argsort(-scores[rows], kind="stable")][:depth]
        # The first is a query of its own, which has computed no exact scores yet.
        for one in (mine.query(query, before), asked):
            assert sorted(one.rough.highest(depth, allowed, above=0.0).rows(one.scores).tolist()) == sorted(
                best.tolist()
            )
    np.testing.assert_array_equal(asked.scores(np.arange(len(scores))), scores)
    own, times = np.unique(query, return_counts=True)
    idf = idf_of(plain.frequency(own, before), len(scores))
    norm = length_norm(np.array([len(query)]), plain.until(before)[0].mean)
    assert asked.copy_score == ((times * idf * times / (times + norm)).sum() if len(scores) else 0)
    np.testing.assert_array_equal(asked.frequency, plain.frequency(asked.own, before))


@pytest.mark.parametrize("step", [1000, 97])
def test_the_best_are_those_of_all_scores(step):
    texts = some_texts(0, TAIL + 150)
    mine, plain = indexes(texts, step)
    allowed = np.random.default_rng(1).random(len(texts)) < 0.4
    for query in [*some_texts(2, 10), np.array([-1, 5, 5, -2], dtype=np.int32), np.empty(0, dtype=np.int32)]:
        check(mine, plain, query)
        check(mine, plain, query, allowed=allowed)
        for before in (0, 3, 300, TAIL + 1):
            check(mine, plain, query, before, allowed[:before])


@pytest.mark.parametrize("count", [40, TAIL + 60])  # in the small part of an index, and in the large one
def test_a_text_of_the_index_is_the_same_query_as_its_terms(count):
    texts = some_texts(11, count)
    index, _ = indexes(texts, count)
    queries, rows = OwnQueries(index), np.arange(count)
    for row, text in enumerate(texts):
        own, other = queries(row, text), index.query(text, row)
        for name in ("own", "frequency", "idf"):
            np.testing.assert_array_equal(getattr(own, name), getattr(other, name))
        assert own.copy_score == other.copy_score
        np.testing.assert_allclose(own.rough.values, other.rough.values, rtol=1e-5)
        mine, theirs = own.compare(rows[:row]), other.compare(rows[:row])
        for name in ("scores", "weight", "rarest", "number", "sizes"):
            np.testing.assert_array_equal(getattr(mine, name), getattr(theirs, name))


def test_the_score_of_a_copy_is_what_a_stored_copy_scores():
    texts = [text for text in some_texts(3, 120) if len(text)]
    mine, _ = indexes(texts, 120)
    for row, text in enumerate(texts):
        assert mine.query(text).copy_score == pytest.approx(
            float(mine.query(text).scores(np.array([row]))[0]), rel=1e-5
        )
    # Words that no text has count too, whether they have numbers or not.
    strange, numbered = (mine.query(np.array([one, one, other, 5])) for one, other in ((-1, -2), (900, 901)))
    assert strange.copy_score == numbered.copy_score > mine.query(np.array([5])).copy_score


def test_replaced_and_removed_texts_leave_no_trace():
    texts, others = some_texts(6, TAIL + 40), some_texts(7, 30)
    mine, _ = indexes(texts, 200)
    replaced, rows = copy(mine), [0, 7, TAIL + 20]
    replaced.remove(np.array(rows))
    replaced.add(others[:3])
    replaced.rows = mine.rows.replaced(rows, len(texts))
    removed = np.zeros(len(texts), dtype=bool)
    removed[[7, 11, TAIL + 39]] = True
    left = copy(replaced)
    left.remove(replaced.rows.places(np.flatnonzero(removed)))
    left.add(others[10:])
    left.rows = replaced.rows.without(removed, len(texts) + 3).grown(20, len(texts) + 3)
    now = list(texts)
    now[0], now[7], now[TAIL + 20] = others[:3]
    rest = [text for text, gone in zip(now, removed, strict=True) if not gone]
    for index, wanted in ((mine, texts), (replaced, now), (left, [*rest, *others[10:]])):
        assert len(index) == len(wanted)
        plain = InvertedIndex()
        plain.add(wanted)
        for query in some_texts(8, 8):
            check(index, plain, query)
        where, sizes = index.lists.find(index.rows.places(np.arange(len(wanted))))
        assert [part.tolist() for part in np.split(index.lists.terms.take(where), np.cumsum(sizes)[:-1])] == [
            np.unique(text).tolist() for text in wanted
        ]


def test_a_changed_index_cannot_leave_out_its_last_texts():
    mine, _ = indexes(some_texts(9, 20), 20)
    mine.remove(np.array([3]))
    mine.rows = mine.rows.without(np.arange(20) == 3, 20)
    with pytest.raises(ValueError, match="cannot leave out the last ones"):
        mine.query(np.array([1]), 10)
