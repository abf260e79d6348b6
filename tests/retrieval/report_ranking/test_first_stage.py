"""The first stage finds what each kind of retrieval finds, and nothing that is not allowed."""

import numpy as np
import pytest
from small_reports import hand_made, some_features, stored

from gedbd.retrieval.report_ranking import first_stage
from gedbd.retrieval.report_ranking.feature_store import TERM_KINDS
from gedbd.retrieval.report_ranking.first_stage import KnownGroups, QueryScores, find_candidates

NONE = dict.fromkeys(first_stage.DEPTHS, 0)


def found_by(monkeypatch, features, **depths):
    """The rows that are found for the last report with such depths, each report a group of its own."""
    monkeypatch.setattr(first_stage, "DEPTHS", NONE | depths)
    last = len(features) - 1
    store = stored(features)
    return set(find_candidates(QueryScores(store, features[last], KnownGroups.of(np.arange(last)))).row.tolist())


def test_each_kind_of_retrieval_finds_its_own(monkeypatch):
    features = hand_made(
        vectors=[[1, 0], [0.6, 0.8], [0, 1], [0, 1], [0, 1], [0, 1], [1, 0]],
        texts=["one", "two", "menu crash", "three", "four", "five", "menu crash"],
        identifiers=["menu", "", "", "pasteTable", "draft", "draft", "pasteTable"],
        component=["", "", "", "", "ui", "net", "ui"],
    )
    assert found_by(monkeypatch, features, dense=2) == {0, 1}
    assert found_by(monkeypatch, features, title=5) == {2}  # no shared word is no reason
    assert found_by(monkeypatch, features, text=5) == {0, 2, 3}
    assert found_by(monkeypatch, features, text=1) == {2}
    assert found_by(monkeypatch, features, identifiers=5) == {3}
    assert found_by(monkeypatch, features, recent=5) == {4}
    assert found_by(monkeypatch, features, recent=5, dense=1) == {0, 4}
    assert found_by(monkeypatch, features) == set()


def test_a_group_has_one_place_and_at_most_so_many_are_found():
    features = some_features(0, 40)
    store, groups = stored(features), KnownGroups.of(np.arange(39) // 3 * 3)
    whole = find_candidates(QueryScores(store, features[39], groups))
    assert sorted(whole.group.tolist()) == list(range(0, 39, 3))
    assert whole.sums.tolist() == sorted(whole.sums.tolist(), reverse=True)
    few = find_candidates(QueryScores(store, features[39], groups), max_groups=4)
    assert few.row.tolist() == whole.row[:4].tolist()


def test_dates_weigh_more_where_candidates_are_chosen_than_where_they_are_ordered():
    dates = ["2024-01-01", "2024-01-01", "2024-03-30", "2024-03-31"]  # 90, 90, 1 and 0 days
    features = hand_made(vectors=[[1, 0], [0.8, 0.6], [0.8, 0.6], [1, 0]], created_at=dates)
    old, new = 10 - 0.35 * np.log(91), 8 - 0.35 * np.log(2)
    for group, size, best in (([0, 1, 2], 2, {0: old, 2: new}), ([0, 1, 2], 1, {2: new}), ([0, 1, 0], 1, {0: old})):
        scores = QueryScores(stored(features, 3), features[3], KnownGroups.of(np.array(group)))
        found = find_candidates(scores, max_groups=size)
        assert dict(zip(found.row.tolist(), found.sums.tolist(), strict=True)) == pytest.approx(best)


def test_only_allowed_reports_are_candidates_and_members():
    features = some_features(1, 30)
    store, groups = stored(features), KnownGroups.of(np.arange(29) // 2 * 2)
    allowed = np.ones(29, dtype=bool)
    allowed[[3, 8, 9, 20]] = False
    found = find_candidates(QueryScores(store, features[3], groups), allowed)
    members = np.concatenate(found.members)
    assert sorted(members.tolist()) == np.flatnonzero(allowed).tolist()
    assert allowed[found.row].all()
    assert 8 not in found.group  # no report of it is allowed
    nothing = find_candidates(QueryScores(store, features[3], groups), np.zeros(29, dtype=bool))
    assert len(nothing.group) == len(nothing.row) == len(nothing.members) == len(nothing.sums) == 0


@pytest.mark.parametrize("number", [1, 2, 5, 15])
def test_the_first_groups_are_those_of_all_that_are_found(number, monkeypatch):
    monkeypatch.setattr(first_stage, "CHOOSING_RECENCY", first_stage.WEIGHTS["recency"])
    features = some_features(4, 60)
    groups = KnownGroups.of(np.minimum(np.arange(40), 35))
    store = stored(features)  # the later reports change how long texts are on average
    for row in range(40, 60):
        scores = QueryScores(store, features[row], groups)
        whole, first = (find_candidates(scores, max_groups=size) for size in (40, number))
        assert len(whole.row) > number
        assert first.row.tolist() == whole.row[:number].tolist()
        assert first.sums.tolist() == whole.sums[:number].tolist()


def test_later_reports_change_nothing():
    features = some_features(2, 30)
    groups = KnownGroups.of(np.arange(20))
    whole, first = (find_candidates(QueryScores(stored(features, count), features[20], groups)) for count in (30, 20))
    assert whole.row.tolist() == first.row.tolist()
    assert whole.sums.tolist() == first.sums.tolist()
    members = np.concatenate(whole.members)
    for name in ("dense", *TERM_KINDS):
        np.testing.assert_array_equal(whole.scores(name, members), first.scores(name, members))
