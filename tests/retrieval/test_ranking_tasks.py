import numpy as np
import pandas as pd
import pytest
from small_reports import PrecomputedScores

from gedbd.corpora.relevance import Groups, Links
from gedbd.retrieval.ranking_tasks import CandidateSets, EarlierDocuments, generic_words, rank, words_of

LINKS = Links(pd.DataFrame({"query": [0, 0, 2], "document": [1, 3, 2]}), 3, 4)


def test_earlier_documents_worked_out_by_hand():
    task = EarlierDocuments(np.array([0, 2]), np.array([3, 2]), LINKS, top_k=(1, 2))
    assert [task.candidates(index).tolist() for index in range(2)] == [[0, 1, 2], [0, 1]]
    assert [task.relevant(index).tolist() for index in range(2)] == [[1], []]  # 3 and 2 are created later
    assert task.needed.tolist() == [0, 1, 2]
    scores = np.array([[0.5, 0.4, 0.9, 1.0], [0, 0, 0, 0], [0.1, 0.2, 0.9, 0.9]])
    ranking = rank(task, PrecomputedScores(scores))
    assert ranking.queries["rank"].tolist() == [3, 0]
    assert ranking.queries["reachable"].tolist() == [True, False]
    assert ranking.top["candidate"].tolist() == [2, 0, 1, 1, 0]


def test_published_candidate_sets_worked_out_by_hand():
    task = CandidateSets(np.array([0, 2]), [np.array([0, 1, 3]), np.array([1, 3])], LINKS, top_k=(1, 2))
    scores = np.array([[0.5, 0.4, 9.0, 0.7], [0, 0, 0, 0], [0.1, 0.2, 0.9, 0.9]])
    ranking = rank(task, PrecomputedScores(scores))
    assert ranking.queries["rank"].tolist() == [1, 0]
    assert ranking.queries["average_precision"].tolist() == pytest.approx([(1 + 2 / 3) / 2, 0])
    assert task.needed.tolist() == [0, 1, 3]


def test_candidate_sets_of_one_table_with_groups():
    task = CandidateSets(np.array([3]), [np.array([0, 1, 2])], Groups(np.array([0, 1, 0, 1])))
    ranking = rank(task, PrecomputedScores(np.array([[0.0] * 4] * 3 + [[0.1, 0.3, 0.2, 1.0]])))
    assert ranking.queries.loc[0, ["rank", "found"]].tolist() == [1, 1]


def test_words_come_from_the_run_or_are_generic_and_run_nothing():
    assert words_of("by_week", {}) == generic_words("by_week")
    stored = {"by_week": {"heading": "Weekly", "unit": "weeks", "against": "a week"}, "earlier": {"unit": "files"}}
    assert words_of("by_week", stored).heading == "Weekly"
    assert words_of("by_week", stored).lacks == generic_words("by_week").lacks
    assert words_of("earlier", stored).unit == "files"
    words = words_of("x", {"x": {"text": "{count} of {reachable.__class__} and {reachable}"}})
    assert words.paragraph("12", "50%") == "12 of {reachable.__class__} and 50%"
