"""The commits of a history: dates, additions, removals, arrays."""

import numpy as np
import pandas as pd
import pytest
from small_history import DAY, START, made_commits, tables

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.query_features import query_features

QUERY = ChangeQuery("Router drops routerValue13", "in net.Filter and handleSocket", START + DAY * 26.5)


def history_of(commits) -> ChangeHistory:
    history = ChangeHistory()
    built = tables(commits)
    history.add(built.commits.table, built.files.table)
    return history


def check_same(first: ChangeHistory, second: ChangeHistory) -> None:
    """To the bit, whatever numbers words have."""
    assert first.ids == second.ids
    np.testing.assert_array_equal(first.created_at, second.created_at)
    assert first.table.paths == second.table.paths
    one, other = query_features(first, QUERY), query_features(second, QUERY)
    np.testing.assert_array_equal(one.files.features, other.files.features)
    for name, values in one.scores.items():
        np.testing.assert_array_equal(values, other.scores[name], err_msg=name)
    for name in one.links._fields:
        np.testing.assert_array_equal(getattr(one.links, name), getattr(other.links, name))


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 0, 1], [1, 2, 0]])
def test_commits_added_in_pieces_of_any_date(order):
    commits = made_commits(30)
    pieces = [commits[:7], commits[7:20], commits[20:]]
    history = ChangeHistory()
    for piece in order:
        built = tables(pieces[piece])
        history.add(built.commits.table, built.files.table)
        assert history.index is not None  # made for the state so far
    check_same(history, history_of(commits))


def test_without_some_commits():
    commits = made_commits(30)
    gone = {commits[3].id, commits[17].id, commits[29].id}
    whole = history_of(commits)
    check_same(whole.without(gone), history_of([one for one in commits if one.id not in gone]))
    assert len(whole) == 30
    assert len(whole.without(set(whole.ids))) == 0


def test_arrays(tmp_path):
    history = history_of(made_commits(30))
    np.savez(tmp_path / "history.npz", **history.arrays())
    with np.load(tmp_path / "history.npz", allow_pickle=False) as stored:
        check_same(ChangeHistory.of_arrays(dict(stored)), history)
    empty = ChangeHistory.of_arrays(ChangeHistory().arrays())
    assert len(empty) == 0
    built = tables(made_commits(3))
    empty.add(built.commits.table, built.files.table)
    assert len(empty) == 3


def test_before():
    history = history_of(made_commits(5))
    assert history.num_before(START + DAY * 2) == 2  # that of the same moment is not before
    assert history.num_before(START + DAY * 2 + pd.Timedelta(seconds=1)) == 3
    assert history.num_before((START + DAY * 2.01).tz_convert("Asia/Tokyo")) == 3
    assert history.num_before((START + DAY * 2).tz_localize(None)) == 2
    assert history.num_before(None) == 5
    numbers = history.vocabulary([["socket", "unheard"]], learn=False)[0]
    assert history.index.frequency(numbers, 5).tolist() == [1, 0]
    assert history.index.frequency(numbers, 4).tolist() == [0, 0]
