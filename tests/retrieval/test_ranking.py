import math

import numpy as np
import pandas as pd
import pytest
from small_reports import PrecomputedScores

from gedbd.corpora.corpus import Corpus
from gedbd.retrieval.ranking_tasks import (
    MAX_DEPTH,
    TOP_K,
    EarlierReports,
    ReportPool,
    metric_names,
    per_query,
    rank,
    ranking_metrics,
)
from gedbd.retrieval.scorers.scorer_contract import BLOCK

WINDOWS = [None, 3, 12]


def named_after_oldest(labels: np.ndarray) -> np.ndarray:
    """Group numbers as a corpus has them: the row of the oldest report of the group."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return first[inverse]


def all_of(corpus: Corpus, window_days: float | None = None) -> EarlierReports:
    return EarlierReports.find(corpus, np.ones(len(corpus), dtype=bool), window_days)


@pytest.fixture
def small(make_corpus):
    """Three groups of three, two and one report, created over eleven days."""
    return make_corpus([0, 1, 0, 3, 1, 0], days=[0, 1, 8, 9, 10, 11])


@pytest.fixture
def scores() -> np.ndarray:
    table = np.zeros((6, 6))
    table[2, :2] = 0.0, 0.3
    table[4, :4] = 0.4, 0.4, 0.1, 0.6
    table[5, :5] = 0.2, 0.9, 0.5, 0.5, 0.8
    return table


@pytest.fixture(params=range(2))
def drawn(request, make_corpus) -> tuple[Corpus, np.ndarray, np.ndarray]:
    """A corpus of more queries than a block holds, its days (several reports on one), and scores with many ties."""
    generator = np.random.default_rng(request.param)
    group = named_after_oldest(generator.integers(0, 60, size=160))
    days = np.sort(generator.integers(0, 40, size=160))
    return make_corpus(group, days), days, generator.integers(0, 25, size=(160, 160)) / 25


def met_first_to_last(corpus: Corpus, days: np.ndarray, query: int, scores: np.ndarray, window: float | None) -> list:
    """The rows that a triager would read, best first, one after the other."""
    recent = [row for row in range(query) if window is None or days[row] >= days[query] - window]
    is_open = {corpus.group[row] for row in recent}
    rows = [row for row in range(query) if corpus.group[row] in is_open]
    return sorted(rows, key=lambda row: (-scores[query, row], row))


def slow_rank(group: np.ndarray, query: int, order: list) -> dict:
    met, hits, precisions, found = [], 0, [], -1
    at_k = dict.fromkeys(TOP_K, 0.0)
    for position, row in enumerate(order, start=1):
        if group[row] not in met:
            met.append(group[row])
        if group[row] == group[query]:
            hits += 1
            precisions.append(hits / position)
            at_k = {k: value + hits / position * (position <= k) for k, value in at_k.items()}
            found = row if hits == 1 else found
    reachable = group[query] in met
    return {
        "query": query,
        "reachable": reachable,
        "rank": met.index(group[query]) + 1 if reachable else 0,
        "average_precision": sum(precisions) / hits if hits else 0.0,
        "found": found,
        **{f"average_precision@{k}": value / min(k, max(hits, 1)) for k, value in at_k.items()},
    }


def test_worked_out_by_hand(small, scores):
    queries = all_of(small)
    assert queries.queries.tolist() == [2, 4, 5]
    assert len(queries) == 3
    ranking = rank(queries, PrecomputedScores(scores))
    # row 2 meets 1, 0; row 4 meets 3, 0, 1, 2 (0 and 1 tie); row 5 meets 1, 4, 2, 3, 0 (2 and 3 tie)
    assert ranking.queries["query"].tolist() == [2, 4, 5]
    assert ranking.queries["reachable"].tolist() == [True, True, True]
    assert ranking.queries["rank"].tolist() == [2, 3, 2]  # of row 5: rows 1 and 4 are one group
    assert ranking.queries["average_precision"].tolist() == pytest.approx([1 / 2, 1 / 3, (1 / 3 + 2 / 5) / 2])
    assert ranking.queries["found"].tolist() == [0, 1, 2]
    assert ranking.queries["average_precision@1"].tolist() == [0, 0, 0]
    assert ranking.queries["average_precision@5"].tolist() == ranking.queries["average_precision"].tolist()
    top = [tuple(line) for line in ranking.top[["query", "place", "candidate"]].to_numpy().tolist()]
    assert top == [(2, 1, 1), (2, 2, 0), (4, 1, 3), (4, 2, 0), (4, 3, 1), (5, 1, 1), (5, 2, 2), (5, 3, 3)]
    assert ranking.top["score"].tolist() == pytest.approx([0.3, 0, 0.6, 0.4, 0.4, 0.9, 0.5, 0.5])


def test_metrics_worked_out_by_hand():
    table = pd.DataFrame({"rank": [1, 5, 0, 12], "average_precision": [1.0, 0.5, 0.0, 0.25]})
    table = table.assign(
        **{"average_precision@5": [1.0, 0.25, 0.0, 0.0], "average_precision@20": [1.0, 0.5, 0.0, 0.25]}
    )
    metrics = ranking_metrics(table)
    assert metrics == pytest.approx(
        {"rr@5": 2 / 4, "rr@20": 3 / 4, "mrr": (1 + 1 / 5 + 1 / 12) / 4, "map": 1.75 / 4}
        | {"map@5": 1.25 / 4, "map@20": 1.75 / 4}
    )
    assert tuple(metrics) == metric_names((5, 20))
    single = per_query(table)
    assert single["rr@5"].tolist() == [1, 1, 0, 0]
    assert single["mrr"].tolist() == pytest.approx([1, 1 / 5, 0, 1 / 12])
    assert single.mean().to_dict() == pytest.approx(metrics)
    assert table["rank"].tolist() == [1, 5, 0, 12]


def test_candidates_are_strictly_earlier_reports_of_any_part(small):
    queries = EarlierReports.find(small, np.array([False, True, False, True, True, False]))
    assert queries.queries.tolist() == [4]  # rows 1 and 3 are the oldest of their groups
    assert queries.candidates(0).tolist() == [0, 1, 2, 3]


def test_scores_of_later_reports_are_never_read(small, scores):
    expected = rank(all_of(small), PrecomputedScores(scores))
    for poison in (math.inf, math.nan):
        altered = np.where(np.arange(6) >= np.arange(6)[:, None], poison, scores)
        ranking = rank(all_of(small), PrecomputedScores(altered))
        pd.testing.assert_frame_equal(ranking.queries, expected.queries)
        pd.testing.assert_frame_equal(ranking.top, expected.top)


def test_scores_and_windows_that_cannot_be_ranked_are_refused(make_corpus, small, scores):
    with pytest.raises(ValueError, match=r"ranking.window_days=5 needs creation dates, and small has none"):
        all_of(make_corpus([0, 0]), window_days=5)
    message = "ranking.window_days=0.5 excludes the groups of all 3 queries of small: widen it"
    with pytest.raises(ValueError, match=message):
        all_of(small, window_days=0.5)
    scores[4, 2] = math.nan
    with pytest.raises(ValueError, match="the scores of the query in row 4 are not all numbers"):
        rank(all_of(small), PrecomputedScores(scores))


def test_scores_are_compared_as_single_precision(small, scores):
    assert np.float32(0.3) == np.float32(0.3 + 1e-9)
    scores[2, :2] = 0.3, 0.3 + 1e-9
    assert rank(all_of(small), PrecomputedScores(scores)).queries["rank"][0] == 1
    scores[2, :2] = 0.3, 0.3 + 1e-6
    assert rank(all_of(small), PrecomputedScores(scores)).queries["rank"][0] == 2
    assert rank(all_of(small), PrecomputedScores(scores.astype(np.float32))).queries["rank"][0] == 2


def test_a_group_stays_a_candidate_with_any_report_in_the_window(small, scores):
    queries = all_of(small, window_days=3)
    assert queries.window_start.tolist() == [2, 2, 2]
    # row 2 has none in its window; row 4 only rows 2 and 3; row 5 has all groups, so rows 0 and 1 too
    assert [queries.candidates(place).tolist() for place in range(3)] == [[], [0, 2, 3], [0, 1, 2, 3, 4]]
    ranking = rank(queries, PrecomputedScores(scores))
    assert ranking.queries["reachable"].tolist() == [False, False, True]
    assert ranking.queries["rank"].tolist() == [0, 0, 2]
    assert ranking.queries["average_precision"].tolist() == pytest.approx([0, 0, 11 / 30])
    assert ranking.queries["found"].tolist() == [-1, -1, 2]
    assert ranking.top["query"].tolist() == [4, 4, 5, 5, 5]
    assert ranking_metrics(ranking.queries)["mrr"] == pytest.approx(1 / 2 / 3)


@pytest.mark.parametrize("window", WINDOWS)
def test_agrees_with_reading_one_report_after_the_other(drawn, window):
    corpus, days, scores = drawn
    queries = all_of(corpus, window)
    assert len(queries) > BLOCK
    orders = {row: met_first_to_last(corpus, days, row, scores, window) for row in queries.queries.tolist()}
    expected = pd.DataFrame([slow_rank(corpus.group, query, order) for query, order in orders.items()])
    ranking = rank(queries, PrecomputedScores(scores))
    pd.testing.assert_frame_equal(ranking.queries, expected)
    assert (ranking.queries["rank"] == 0).any() == (window is not None)
    for query, lines in ranking.top.groupby("query"):
        first_of_each = list({corpus.group[row]: row for row in reversed(orders[query])}.values())[::-1]
        in_order = sorted(first_of_each, key=orders[query].index)
        assert lines["candidate"].tolist() == in_order[:MAX_DEPTH]
        assert lines["score"].tolist() == pytest.approx([scores[query, row] for row in in_order[:MAX_DEPTH]])
        assert lines["place"].tolist() == list(range(1, len(lines) + 1))


# ---- the reports of one part against each other


def test_a_pool_worked_out_by_hand(make_corpus):
    """Rows 2 to 6 are the pool; rows 2, 4 and 6 are a group, whose oldest report lies before it, as does row 5's."""
    corpus = make_corpus([0, 1, 0, 3, 0, 1, 0])
    queries = ReportPool.find(corpus, np.arange(7) >= 2, top_k=(1, 2))
    assert queries.queries.tolist() == [2, 4, 6]
    assert [queries.candidates(place).tolist() for place in range(3)] == [[3, 4, 5, 6], [2, 3, 5, 6], [2, 3, 4, 5]]
    assert [queries.relevant(place).tolist() for place in range(3)] == [[4, 6], [2, 6], [2, 4]]
    scores = np.zeros((7, 7))
    scores[2, 3:] = 0.9, 0.8, 0.1, 0.7  # meets 3, 4, 6, 5
    scores[4, [2, 3, 5, 6]] = 0.9, 0.1, 0.5, 0.2  # meets 2, 5, 6, 3
    scores[6, 2:6] = 0.1, 0.2, 0.3, 0.4  # meets 5, 4, 3, 2
    ranking = rank(queries, PrecomputedScores(scores))
    assert ranking.queries["rank"].tolist() == [2, 1, 2]
    assert ranking.queries["found"].tolist() == [4, 2, 4]
    assert ranking.queries["average_precision"].tolist() == pytest.approx([(1 / 2 + 2 / 3) / 2, (1 + 2 / 3) / 2, 0.5])
    assert ranking.queries["average_precision@2"].tolist() == pytest.approx([1 / 4, 1 / 2, 1 / 4])
    assert ranking.top["candidate"].tolist() == [3, 4, 6, 5, 2, 5, 6, 3, 5, 4, 3, 2]
    metrics = ranking_metrics(ranking.queries)
    assert metrics["rr@1"] == pytest.approx(1 / 3)
    assert metrics["rr@2"] == 1
    assert queries.needed.tolist() == [2, 3, 4, 5, 6]
