"""Candidates that are ranked a second time, with scores of a language model that reads two reports at once."""

import numpy as np
import pytest

from gedbd.retrieval.report_ranking import report_scorer
from gedbd.retrieval.report_ranking.candidate_features import FEATURES
from gedbd.retrieval.report_ranking.llm_check import ReportText
from gedbd.retrieval.report_ranking.report_scorer import LLM_FEATURES, LearntReports, SecondStage, pair_columns
from gedbd.retrieval.report_ranking.report_training import RankerOptions, Replayed
from gedbd.retrieval.scorers.dense_scorer import VectorScorer

NUM_CANDIDATES = 6
SUM = FEATURES.index("sum")
OPTIONS = RankerOptions(kind="linear")
TEXTS = [ReportText(str(row), "") for row in range(100)]
GROUP = np.arange(100)
GROUP[20:60] = np.arange(40) // 2  # two queries of each group


def examples(first: int, last: int, has_right: bool = True) -> list[Replayed]:
    """Queries whose right candidate is the second one by the only feature that differs."""
    found = []
    for row in range(first, last):
        generator = np.random.default_rng(row)
        features = np.zeros((NUM_CANDIDATES, len(FEATURES)), dtype=np.float32)
        features[:, SUM] = generator.permutation(NUM_CANDIDATES)
        right = features[:, SUM] == NUM_CANDIDATES - 2
        best = generator.choice(20, NUM_CANDIDATES, replace=False)
        found.append(Replayed(row, best, best, features, right & has_right))
    return found


def rule(query: int, candidate: int) -> bool:
    """Whether a candidate is the right one of a query."""
    (one,) = examples(query, query + 1)
    return bool(candidate == one.best[one.right][0])


class Oracle:
    """Knows the right answer, and remembers what it was asked."""

    def __init__(self, depth: int) -> None:
        self.depth = depth
        self.asked: list[tuple[int, list[int]]] = []
        self.warnings: tuple[str, ...] = ()

    def announce(self, num_queries):
        self.announced = num_queries

    def score_lists(self, texts, lists):
        return [self.score(int(texts[listed.query].title), listed.candidates[: self.depth]) for listed in lists]

    def score(self, query, candidates):
        self.asked.append((query, candidates.tolist()))
        return np.array([rule(query, row) for row in candidates], dtype=np.float32)


def test_the_first_candidates_are_scored_and_ranked_again():
    oracle = Oracle(3)
    stage = SecondStage(oracle, OPTIONS)
    stage.fit(TEXTS, [*examples(20, 60), *examples(60, 62, has_right=False)], GROUP)
    assert stage.ranker_.ranker.names == (*FEATURES, *LLM_FEATURES)
    # Queries without a right candidate teach nothing, and are not asked about.
    assert [query for query, _ in oracle.asked] == list(range(20, 60))
    assert oracle.announced == 40
    oracle.asked.clear()
    fresh = examples(70, 75)
    found = stage.scores(fresh)
    for one, scores, (query, asked) in zip(fresh, found, oracle.asked, strict=True):
        assert scores.argmax() == one.right.argmax()
        assert query == one.row
        order = one.best[np.argsort(-stage.first_.scores(one.features), kind="stable")]
        assert asked == order[:3].tolist()
    again = stage.scores(fresh[::-1])
    assert [scores.tolist() for scores in again] == [scores.tolist() for scores in found[::-1]]
    assert len(oracle.asked) == 5


def test_candidates_of_training_are_ordered_by_what_their_group_has_not_taught(monkeypatch):

    taught: list[set[int]] = []

    def remember(examples, options, extra=()):
        taught.append({int(GROUP[one.row]) for one in examples})
        return fit_ranker(examples, options, extra)

    fit_ranker = report_scorer.fit_ranker
    monkeypatch.setattr(report_scorer, "fit_ranker", remember)
    SecondStage(Oracle(2), OPTIONS).fit(TEXTS, examples(20, 60), GROUP)
    everything, first, second, last = taught
    assert everything == last == first | second == set(range(20))
    assert not first & second


ORDER = np.array([2, 0, 3, 1])  # candidate 2 is the first ranker's best
NAN = np.nan


@pytest.mark.parametrize(
    ("order", "scores", "expected"),
    [
        (ORDER, np.array([0.5, 0.75, -1.0]), [[0.75, 0], [NAN] * 2, [0.5, -0.25], [-1, -1.75]]),
        (ORDER, np.array([NAN, 1.0]), [[1, 0], [NAN] * 2, [NAN] * 2, [NAN] * 2]),
        (ORDER[:0], np.empty(0), np.empty((0, 2))),
        (ORDER, np.full(3, NAN), np.full((4, 2), NAN)),
    ],
    ids=["three scores", "a missing score", "no candidate", "no score"],
)
def test_scores_go_to_the_candidates_that_they_are_of(order, scores, expected):
    columns = pair_columns(order, scores)
    np.testing.assert_array_equal(columns, np.array(expected))
    assert columns.dtype == np.float32


@pytest.mark.parametrize(
    ("options", "message"), [({"base": "default"}, "a base reads no scores"), ({"kind": "default"}, "kind=default")]
)
def test_a_ranker_that_cannot_read_further_scores_refuses_them(options, message):
    with pytest.raises(ValueError, match=message):
        LearntReports(VectorScorer(np.eye(2)), llm=Oracle(2), **options)
