from itertools import combinations

import numpy as np
import pytest

from gedbd.localization.repository.commit_dates import MAX_LATE, find_late, longest_rising
from gedbd.localization.repository.commit_history import read_history

DAY = 86_400


def late(days, parents):
    """Late commits of a history; days and parents by commit, the last one last."""
    return find_late({commit: day and day * DAY for commit, day in days.items()}, parents, list(days)[-1])


def line(*days):
    """Positions of the late commits of a history without branches."""
    names = [f"c{number}" for number in range(len(days))]
    parents = {name: names[max(0, number - 1) : number] for number, name in enumerate(names)}
    return [names.index(name) for name in sorted(late(dict(zip(names, days, strict=True)), parents))]


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        ((1, 2, 3), []),
        ((1, 900, 2, 3), [1]),
        ((1, 900, 901, 2, 3, 4), [1, 2]),
        ((500, 501, 502, 2), []),  # the last one is early
        ((1, 3, 2, 4), []),  # a day
        ((1, None, 900, 2, 3), [2]),
        ((None,), []),
        ((7,), []),
    ],
)
def test_late_commits_of_a_line(days, expected):
    assert line(*days) == expected


def test_late_commits_of_a_branch_are_later_than_the_merge():
    parents = {"a": [], "b": ["a"], "side": ["a"], "merge": ["b", "side"], "end": ["merge"]}
    assert late({"a": 1, "b": 2, "side": 900, "merge": 3, "end": 4}, parents) == {"side"}
    assert late({"a": 1, "b": 2, "side": 4, "merge": 3, "end": 4}, parents) == set()


def test_the_longest_rising_part_is_as_long_as_by_trying_all():
    rng = np.random.default_rng(0)
    for _ in range(50):
        numbers = rng.integers(0, 6, 8).tolist()
        parts = (part for size in range(9) for part in combinations(numbers, size))
        rising = max(len(part) for part in parts if list(part) == sorted(part))
        chosen = longest_rising(numbers)
        assert len(chosen) == rising
        assert chosen == sorted(set(chosen))
        assert [numbers[position] for position in chosen] == sorted(numbers[position] for position in chosen)


def test_descendants_of_a_late_commit_keep_their_dates(tmp_path, fast_import):
    made = fast_import()
    for number, date in enumerate([DAY, 4_000_000_000, 2 * DAY, 3 * DAY]):
        made.commit(b"change", [("a", b"%d\n" % number)], date=date, parents=[number] * (number > 0))
    made.write(tmp_path / "x.git")
    history = read_history(tmp_path / "x.git")
    assert [int(commit.created_at.timestamp()) // DAY for commit in history] == [1, 1, 2, 3]
    assert history.warnings == ("1 commits are dated more than a day after later ones and take a parent's date",)
    assert MAX_LATE == DAY
