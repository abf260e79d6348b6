"""A store that has grown or changed equals one that was built at once; groups equal connected components."""

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from small_reports import hand_made, some_features, some_links, stored

from gedbd.retrieval.reports import feature_store
from gedbd.retrieval.reports.candidate_features import candidate_features
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.first_stage import QueryScores, find_candidates
from gedbd.retrieval.reports.known_groups import GrowingGroups, KnownGroups
from gedbd.retrieval.reports.report_features import FIELDS, TERM_KINDS, TIMES


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch):
    monkeypatch.setattr(feature_store, "MEAN_STEP", 8)


def assert_equal(one, other, query):
    """Two stores hold the same, and give the same features."""
    assert len(one) == len(other)
    np.testing.assert_array_equal(one.vectors.filled, other.vectors.filled)
    for name in (*FIELDS, *TIMES):
        np.testing.assert_array_equal(one[name], other[name])
    assert one.latest_day == other.latest_day
    for kind in TERM_KINDS:
        assert len(one.terms[kind]) == len(other.terms[kind]) == len(one)
        lists = [store.terms[kind].terms_of(np.arange(len(one))) for store in (one, other)]
        for mine, theirs in zip(*lists, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    groups = KnownGroups.of(np.arange(len(one)))
    tables = [candidate_features([find_candidates(QueryScores(store, query, groups))]) for store in (one, other)]
    np.testing.assert_array_equal(*tables)


def test_adding_one_by_one_is_adding_at_once():
    features = some_features(0, 40)
    grown = FeatureStore(features.vectors.shape[1])
    for row in range(40):
        grown.add(features[row])
        grown.mean_vector(len(grown))
    assert_equal(grown, stored(features), features[7])


def test_replaced_and_removed_reports_leave_no_trace():
    features = some_features(1, 40)
    first = stored(features, 30)
    before = first.vectors.filled.copy()
    first.mean_vector(30)
    replaced = first.replaced([3, 17], features.take([35, 36]))
    rows = list(range(30))
    rows[3], rows[17] = 35, 36
    assert_equal(replaced, stored(features.take(rows)), features[39])
    removed = np.zeros(30, dtype=bool)
    removed[[0, 12, 29]] = True
    left = [row for row in rows if not removed[rows.index(row)]]
    assert_equal(replaced.without(removed), stored(features.take(left)), features[39])
    replaced.add(features[38])
    assert_equal(first, stored(features, 30), features[39])  # searches may still be using it
    np.testing.assert_array_equal(first.vectors.filled, before)
    assert_equal(replaced, stored(features.take([*rows, 38])), features[39])


def test_whether_the_tracker_tells_resolutions_is_followed():
    undated = hand_made(resolved_at=[None] * 4)
    dated = hand_made(resolved_at=[None, "2024-01-05", None, "2024-01-06"])
    store = stored(undated)

    def resolved(store):
        return store["resolved"].tolist()

    assert resolved(store.replaced([2], dated[1])) == pytest.approx([np.nan, np.nan, 19727, np.nan], nan_ok=True)
    store.add(dated)
    assert resolved(store) == pytest.approx([*[np.nan] * 5, 19727, np.nan, 19728], nan_ok=True)
    assert store.latest_day == 19728
    without = store.without(np.arange(8) == 5)
    assert resolved(without) == pytest.approx([*[np.nan] * 6, 19728], nan_ok=True)
    assert np.isnan(without.replaced([6], undated[0]).latest_day)


def test_other_vectors_share_the_rest():
    features = some_features(2, 30)
    store, other = stored(features), some_features(3, 30).vectors
    store.mean_vector(30)
    changed = store.with_vectors(other)
    assert changed.mean_vector(30) == pytest.approx(other[:24].mean(axis=0, dtype=np.float64))
    assert store.mean_vector(30) == pytest.approx(features.vectors[:24].mean(axis=0, dtype=np.float64))
    np.testing.assert_array_equal(changed.vectors.filled, other)
    assert changed.terms is store.terms


def test_the_mean_vector_changes_in_steps():
    features = some_features(4, 20)
    store = stored(features)
    assert store.mean_vector(7).tolist() == [0, 0, 0, 0]
    for count in (8, 15):
        assert store.mean_vector(count) == pytest.approx(features.vectors[:8].mean(axis=0, dtype=np.float64))
    assert store.mean_vector(16) == pytest.approx(features.vectors[:16].mean(axis=0, dtype=np.float64))


def components_before(links, row):
    """Groups of the reports before a row by scipy, each named after its first report."""
    known = links[:, (links < row).all(axis=0)]
    graph = coo_array((np.ones(known.shape[1]), known), shape=(row, row))
    _, label = connected_components(graph, directed=False)
    return np.array([int(np.flatnonzero(label == one)[0]) for one in label], dtype=int)


@pytest.mark.parametrize("seed", range(3))
def test_groups_grow_as_connected_components(seed):
    generator = np.random.default_rng(seed)
    links = generator.integers(0, 50, (2, 30))
    links = np.concatenate([links, links[::-1, :5], some_links(seed, 50)], axis=1)  # both ways, and some twice
    growing = GrowingGroups(links, 50)
    for row in (*range(50), 10, 49, 3, 0, 50):  # going back too
        found = growing.before(row)
        expected = components_before(links, row)
        assert found.group.tolist() == expected.tolist()
        members = {one: np.flatnonzero(expected == one).tolist() for one in set(expected.tolist())}
        assert {one: rows.tolist() for one, rows in found.members.items()} == {
            one: rows for one, rows in members.items() if len(rows) > 1
        }
        assert {one: rows.tolist() for one, rows in KnownGroups.of(expected).members.items()} == {
            one: rows.tolist() for one, rows in found.members.items()
        }


def test_a_group_that_a_later_report_connects_is_still_apart():
    growing = GrowingGroups(np.array([[0, 1], [3, 3]]), 4)
    assert growing.before(3).group.tolist() == [0, 1, 2]
    assert growing.before(4).group.tolist() == [0, 0, 2, 0]


def test_no_link_leaves_all_apart():
    growing = GrowingGroups(np.empty((2, 0), dtype=np.int64), 3)
    assert growing.before(3).group.tolist() == [0, 1, 2]
    assert growing.before(3).members == {}
