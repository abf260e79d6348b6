"""The commits of a history in chronological order, with the dates that they are given."""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gedbd.localization.repository.git_command import Git

MAX_LATE = 86_400  # seconds; smaller differences between clocks are left to the rule that no commit is before a parent
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_SECONDS = int((datetime(2200, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())


class WalkedCommit(NamedTuple):
    """A commit that is still to be read.

    Attributes:
        id: Its id.
        first_parent: That of its first parent; empty for a root.
        created_at: Its date.
        is_merge: Whether it has several parents.
    """

    id: str
    first_parent: str
    created_at: datetime
    is_merge: bool = False


class Walk(NamedTuple):
    """The commits of a history; parents before their children, otherwise by date.

    Attributes:
        commits: N commits.
        warnings: How many dates were replaced.
    """

    commits: list[WalkedCommit]
    warnings: tuple[str, ...]


def walk_history(git: Git, revision: str) -> Walk:
    """The commits that can be reached from a revision, the revision itself among them.

    A commit that is dated before one of its parents takes the latest date of these, as rewritten histories and wrong
    clocks leave them. A date outside 1970 to 2200, and one that is far too late (see ``find_late``), does not count:
    the commit takes the latest date of its parents, a root commit the oldest date of the history.

    Raises:
        ValueError: There is no such revision, or an object is missing.
    """
    dates: dict[str, int | None] = {}
    parents: dict[str, list[str]] = {}
    start = git.resolve(revision)
    with git.stream("rev-list", "--topo-order", "--reverse", "--timestamp", "--parents", start) as lines:
        for line in lines:
            date, commit, *ids = line.decode("ascii").split()
            # Git shows damaged dates as 0.
            dates[commit] = int(date) if 0 < int(date) < MAX_SECONDS else None
            parents[commit] = ids
    invalid = sum(date is None for date in dates.values())
    late = find_late(dates, parents, start)
    given, early = _given_dates(dates | dict.fromkeys(late), parents)
    # The sort is stable, so of equal dates parents stay before children.
    order = sorted(given, key=lambda commit: given[commit])
    commits = [
        WalkedCommit(
            id=commit,
            first_parent=(parents[commit] or [""])[0],
            created_at=EPOCH + timedelta(seconds=given[commit]),
            is_merge=len(parents[commit]) > 1,
        )
        for commit in order
    ]
    counts = {
        "dated before a parent and take its date": early,
        "dated more than a day after later ones and take a parent's date": len(late),
        "dated outside 1970 to 2200 and take a parent's date": invalid,
    }
    return Walk(commits, tuple(f"{count:,} commits are {what}" for what, count in counts.items() if count))


def _given_dates(dates: dict[str, int | None], parents: dict[str, list[str]]) -> tuple[dict[str, int], int]:
    """The date that each commit is given, none before that of a parent; and how many had an earlier one."""
    oldest = min((seconds for seconds in dates.values() if seconds is not None), default=1)
    given: dict[str, int] = {}
    early = 0
    for commit, own in dates.items():
        latest = max((given[parent] for parent in parents[commit]), default=oldest)
        early += own is not None and own < latest
        given[commit] = latest if own is None else max(latest, own)
    return given, early


def find_late(dates: Mapping[str, int | None], parents: Mapping[str, Sequence[str]], last: str) -> set[str]:
    """The commits dated more than a day after a descendant on the main line whose date is in order.

    The main line are the last commit, its first parent, the first parent of that one, and so on. Its dates in order
    are the longest part of them that never falls: of the years 2001, 2090, 2002, 2003 these are 2001, 2002, 2003.

    Args:
        dates: Seconds since 1970 by commit, None if invalid; parents before their children.
        parents: Ids of the parents.
        last: The last commit of the history.
    """
    chain = [last]  # of first parents, newest first
    while parents[chain[-1]]:
        chain.append(parents[chain[-1]][0])
    line = [commit for commit in reversed(chain) if dates[commit] is not None]
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
