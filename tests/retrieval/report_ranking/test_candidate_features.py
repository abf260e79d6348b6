"""Candidates and their features equal those of loops over words, pairs and groups."""

import numpy as np
import pytest
from naive_features import NaiveTracker
from small_reports import hand_made, some_features, some_links, some_reports, stored

from gedbd.corpora.relevance import find_groups
from gedbd.retrieval.report_ranking import feature_store
from gedbd.retrieval.report_ranking.candidate_features import FEATURES, candidate_features, relative
from gedbd.retrieval.report_ranking.first_stage import KnownGroups, QueryScores, find_candidates


@pytest.mark.parametrize("seed", range(2))
def test_candidates_and_features_equal_those_of_loops(seed, monkeypatch):
    monkeypatch.setattr(feature_store, "MEAN_STEP", 10)
    features, links = some_features(seed, 36), some_links(seed, 36)
    store, naive = stored(features), NaiveTracker(*some_reports(seed, 36), 10)
    assert len(FEATURES) == len(set(FEATURES))
    for row in (1, 10, 25, 35):
        before = links[:, links.max(axis=0) < row]
        group = find_groups(before, row)
        found = find_candidates(QueryScores(store, features[row], KnownGroups.of(group)))
        (table,) = candidate_features([found])
        expected = naive.candidates(row, group)
        assert found.row.tolist() == [best for best, _, _ in expected]
        assert [members.tolist() for members in found.members] == [members for _, members, _ in expected]
        assert found.group.tolist() == group[found.row].tolist()
        assert found.sums == pytest.approx([total for _, _, total in expected], abs=1e-4)
        assert table.shape == (len(expected), len(FEATURES))
        assert table.dtype == np.float32
        for mine, theirs in zip(table, naive.features(row, expected, row), strict=True):
            assert theirs.keys() == set(FEATURES)
            np.testing.assert_allclose(mine, [theirs[name] for name in FEATURES], rtol=1e-3, atol=1e-4)


def columns_of(features, row):
    """The features of a report's candidates by name, each report a group of its own."""
    store = stored(features, row)
    found = find_candidates(QueryScores(store, features[row], KnownGroups.of(np.arange(row))))
    table = candidate_features([found])[0][np.argsort(found.row)]
    return dict(zip(FEATURES, table.T, strict=True))


def test_what_is_missing_is_nan():
    dates = ["2024-01-01", None, "2024-01-04", "2024-01-05", None]
    columns = columns_of(hand_made(component=["ui", "", "UI ", "net", "ui"], created_at=dates), 4)
    assert columns["same component"].tolist() == pytest.approx([1, np.nan, 1, 0], nan_ok=True)
    assert columns["reports of component since"] == pytest.approx([np.log(3), np.nan, np.log(2), np.nan], nan_ok=True)
    for name in ("same product", "same version", "same priority", "text share of query", "errors share of report"):
        assert np.isnan(columns[name]).all()
    assert np.isnan(columns["days"]).all()  # the query has no date
    assert columns["reports since"] == pytest.approx(np.log([5, 4, 3, 2]))


DAYS = ["2024-01-01", "2024-01-02", "2024-01-03", "2024-01-04", "2024-01-10"]


def test_open_candidates_by_hand():
    # Resolved before the query, when it came in, after it, and never.
    resolved = ["2024-01-09T23:59", "2024-01-10", "2024-01-11", None, "2024-01-10T01:00"]
    columns = columns_of(hand_made(created_at=DAYS, resolved_at=resolved), 4)
    assert columns["open"].tolist() == [0, 1, 1, 1]


def test_later_reports_do_not_say_that_the_tracker_tells_resolutions():
    features = hand_made(created_at=DAYS, resolved_at=[None, None, "2024-01-03", None, None])
    store = stored(features)  # of all reports, as the replay of a history has it
    for row, told in ((2, [np.nan, np.nan]), (3, [1, 1, 0]), (4, [1, 1, 0, 1])):
        found = find_candidates(QueryScores(store, features[row], KnownGroups.of(np.arange(row))))
        table = candidate_features([found])[0][np.argsort(found.row)]
        assert table[:, FEATURES.index("open")].tolist() == pytest.approx(told, nan_ok=True)


def test_of_a_group_the_best_report_counts():
    features = hand_made(
        vectors=[[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]],
        created_at=DAYS[:3],
        resolved_at=["2024-01-01T12:00", None, None],
    )
    store = stored(features, 2)
    found = find_candidates(QueryScores(store, features[2], KnownGroups.of(np.array([0, 0]))))
    assert found.row.tolist() == [1]
    assert candidate_features([found])[0][0, FEATURES.index("open")] == 1


def test_relative_scores_by_hand():
    # Two scores of the candidates of three queries, the second of which has none.
    scores = np.array([[3.0, 1.0, 3.0, 5.0, 7.0, 8.0], [0.0, 0.0, 0.0, 4.0, 2.0, 1.0]])
    first, second = relative(scores, np.array([4, 0, 2]))
    value, z, rank, behind = first
    assert value.tolist() == scores[0].tolist()
    assert z == pytest.approx([0, -2 / np.sqrt(2), 0, 2 / np.sqrt(2), -1, 1])
    assert rank == pytest.approx(np.log([2, 4, 3, 1, 2, 1]))
    assert behind.tolist() == [2, 4, 2, 0, 1, 0]
    assert second[2] == pytest.approx(np.log([2, 3, 4, 1, 1, 2]))
    assert second[3].tolist() == [4, 4, 4, 0, 0, 1]
