import pickle
from copy import copy

import numpy as np
import pytest
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from small_reports import some_features, some_links, stored

from gedbd.retrieval.report_ranking import feature_store, vector_table
from gedbd.retrieval.report_ranking.candidate_features import candidate_features
from gedbd.retrieval.report_ranking.feature_store import FIELDS, TERM_KINDS, TIMES, FeatureStore
from gedbd.retrieval.report_ranking.first_stage import GrowingGroups, KnownGroups, QueryScores, find_candidates
from gedbd.retrieval.report_ranking.vector_table import Int8Vectors, VectorTable, encode_vectors


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
        found = []
        for index in (one.terms[kind], other.terms[kind]):
            where, sizes = index.lists.find(index.rows.places(np.arange(len(one))))
            found.append((index.lists.terms.take(where), sizes))
        for mine, theirs in zip(*found, strict=True):
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


def components_before(links, row):
    """Groups of the reports before a row by scipy, each named after its first report."""
    known = links[:, (links < row).all(axis=0)]
    graph = coo_array((np.ones(known.shape[1]), known), shape=(row, row))
    _, label = connected_components(graph, directed=False)
    return np.array([int(np.flatnonzero(label == one)[0]) for one in label], dtype=int)


@pytest.mark.parametrize("seed", range(2))
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


def test_groups_stay_connected_without_a_report():
    groups = KnownGroups.of(np.array([0, 1, 0, 1, 4, 0]))  # 0, 2 and 5 are duplicates, and 1 and 3
    left = groups.without(np.array([True, False, False, False, True, False]))
    assert left.group.tolist() == [0, 1, 0, 1]  # of 1, 2, 3 and 5
    assert {number: rows.tolist() for number, rows in left.members.items()} == {0: [0, 2], 1: [1, 3]}
    assert left.size.tolist() == [2, 2, 0, 0]


DIM = 24


@pytest.fixture(autouse=True)
def _few_are_coded(monkeypatch):
    monkeypatch.setattr(vector_table, "MIN_CODED", 50)
    monkeypatch.setattr(vector_table, "BLOCK", 64)


def some_vectors(seed, count):
    """Unit vectors around few centres, some of them twice."""
    generator = np.random.default_rng(seed)
    vectors = generator.normal(size=(5, DIM))[generator.integers(0, 5, count)] + generator.normal(size=(count, DIM))
    vectors[count // 2 :: 7] = vectors[: len(vectors[count // 2 :: 7])]
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def nearest(table, query, depth, before=None, allowed=None):
    """The nearest by the table's rough cosines, and exact ones where these do not decide."""
    likely = table.rough_cosines(query, before).highest(depth, allowed)
    return sorted(likely.rows(lambda rows: table.cosines(rows, query)).tolist())


def expected(vectors, query, depth, allowed=None):
    cosines = np.einsum("nd,d->n", vectors, query)
    rows = np.arange(len(vectors)) if allowed is None else np.flatnonzero(allowed)
    return sorted(rows[np.argsort(-cosines[rows], kind="stable")][:depth].tolist())


@pytest.mark.parametrize("count", [0, 3, 49, 50, 300])
def test_the_nearest_are_those_of_all_cosines(count):
    vectors, query = some_vectors(0, count), some_vectors(1, 1)[0]
    table = VectorTable(vectors)
    allowed = np.random.default_rng(2).random(count) < 0.5
    for depth in (0, 1, 10, 400):
        assert nearest(table, query, depth) == expected(vectors, query, depth)
        assert nearest(table, query, depth, allowed=allowed) == expected(vectors, query, depth, allowed)
        before = count // 2
        assert nearest(table, query, depth, before) == expected(vectors[:before], query, depth)


def test_changes_leave_no_trace_and_the_old_table_as_it_is():
    vectors, others, query = some_vectors(3, 200), some_vectors(4, 30), some_vectors(5, 1)[0]
    table = VectorTable(vectors, Int8Vectors(*encode_vectors(vectors)))
    grown = copy(table)
    grown.add(others[:10])
    replaced = copy(grown)
    replaced.add(others[10:13])
    replaced.rows = grown.rows.replaced([0, 150, 205], grown.num_places)
    removed = np.zeros(210, dtype=bool)
    removed[[3, 150, 209]] = True
    left = copy(replaced)
    left.rows = replaced.rows.without(removed, replaced.num_places)
    again = copy(left)
    again.add(others[20:])
    again.rows = left.rows.grown(10, left.num_places)
    now = np.concatenate([vectors, others[:10]])
    states = [(table, vectors), (grown, now.copy())]
    now[[0, 150, 205]] = others[10:13]
    states += [(replaced, now), (left, now[~removed]), (again, np.concatenate([now[~removed], others[20:]]))]
    # Processes get pickled tables.
    for state, wanted in [*states, *((pickle.loads(pickle.dumps(state)), wanted) for state, wanted in states)]:
        np.testing.assert_array_equal(state.filled, wanted)
        np.testing.assert_array_equal(state.take(np.array([5, 1])), wanted[[5, 1]])
        assert nearest(state, query, 20) == expected(wanted, query, 20)


def test_rough_cosines_are_within_their_bound():
    vectors, queries = some_vectors(6, 500), some_vectors(7, 5)
    codes = Int8Vectors(*encode_vectors(vectors))
    for query in queries:
        rough, error = codes.rough_cosines(query)
        apart = np.abs(rough - vectors @ query).max()
        assert apart <= error
        assert error < 20 * apart  # the bound is of use
