"""Find commits that wrong clocks dated far too late, so that these dates do not pass to all their descendants."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence

MAX_LATE = 86_400  # seconds; smaller differences between clocks are left to the rule that no commit is before a parent


def find_late(dates: Mapping[str, int | None], parents: Mapping[str, Sequence[str]], last: str) -> set[str]:
    """The commits dated more than a day after a descendant on the main line whose date is in order.

    The main line are the last commit, its first parent, the first parent of that one, and so on. Its dates in order
    are the longest part of them that never falls: of the years 2001, 2090, 2002, 2003 these are 2001, 2002, 2003.

    Args:
        dates: Seconds since 1970 by commit, None if invalid; parents before their children.
        parents: Ids of the parents.
        last: The last commit of the history.
    """
    line = [commit for commit in _main_line(parents, last) if dates[commit] is not None]
    in_order = {line[position] for position in longest_rising([dates[commit] or 0 for commit in line])}
    earliest_after: dict[str, int] = {}  # date of a descendant on the main line
    late = set()
    for commit in reversed(list(dates)):
        limit = earliest_after.get(commit)
        own = dates[commit]
        if own is not None and limit is not None and own > limit + MAX_LATE:
            late.add(commit)
        known = [date for date in (limit, own if commit in in_order else None) if date is not None]
        for parent in parents[commit]:
            if known:
                earliest_after[parent] = min([*known, earliest_after.get(parent, known[0])])
    return late


def _main_line(parents: Mapping[str, Sequence[str]], last: str) -> list[str]:
    """The first-parent chain, oldest first."""
    line = [last]
    while parents[line[-1]]:
        line.append(parents[line[-1]][0])
    return line[::-1]


def longest_rising(numbers: Sequence[int]) -> list[int]:
    """The positions of a longest part of N numbers that never falls: 0, 2 and 3 of ``[1, 9, 2, 2]``."""
    ends: list[int] = []  # of parts of 1, 2, ... numbers, the smallest last number so far
    positions: list[int] = []  # where these are
    before: list[int] = []  # for each number, the position of the one before it in its part
    for position, number in enumerate(numbers):
        length = bisect_right(ends, number)
        before.append(positions[length - 1] if length else -1)
        ends[length : length + 1] = [number]
        positions[length : length + 1] = [position]
    chosen = positions[-1:]
    while chosen and before[chosen[-1]] >= 0:
        chosen.append(before[chosen[-1]])
    return chosen[::-1]
