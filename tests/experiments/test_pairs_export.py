"""Candidates of queries as ranges of rows, for every kind of ranking task."""

import numpy as np
import pytest

from gedbd.corpora.relevance import Groups
from gedbd.experiments.pairs_export import _candidates
from gedbd.retrieval.ranking_tasks import CandidateSets, EarlierReports, ReportPool

GROUP = [0, 1, 0, 3, 1, 0, 6, 3]


def tasks(corpus):
    chosen = np.isin(np.arange(len(GROUP)), [2, 4, 5, 7])
    yield EarlierReports.find(corpus, chosen)
    yield EarlierReports.find(corpus, chosen, window_days=3)
    yield ReportPool.find(corpus, chosen)
    sets = [np.array([0, 1, 3]), np.array([], dtype=np.int64), np.array([2, 5])]
    yield CandidateSets(np.array([4, 5, 7]), sets, Groups(corpus.group), group=corpus.group)


@pytest.mark.parametrize("place", range(4))
def test_ranges_hold_the_candidates(make_corpus, place):
    task = list(tasks(make_corpus(GROUP, days=range(len(GROUP)))))[place]
    names = np.array([f"B-{row}" for row in task.queries], dtype=object)
    ranges = _candidates(task, names)
    assert len(task) >= 2
    for index, name in enumerate(names):
        own = ranges[ranges["id"] == name]
        found = [row for start, stop in zip(own["start"], own["stop"], strict=True) for row in range(start, stop)]
        assert found == task.candidates(index).tolist()
