"""The commits of a history in chronological order, with the dates that they are given."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gedbd.corpora.repository.git import Git
from gedbd.corpora.repository.late_dates import find_late

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_SECONDS = int((datetime(2200, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())


@dataclass(frozen=True, slots=True)
class WalkedCommit:
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


@dataclass(frozen=True)
class Walk:
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
            dates[commit] = _valid(date)
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
    return Walk(commits, _warnings(early, len(late), invalid))


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


def _valid(seconds: str) -> int | None:
    """A date in seconds since 1970, or None if it is outside 1970 to 2200. Git shows damaged ones as 0."""
    number = int(seconds)
    return number if 0 < number < MAX_SECONDS else None


def _warnings(early: int, late: int, invalid: int) -> tuple[str, ...]:
    warnings = []
    if early:
        warnings.append(f"{early:,} commits are dated before a parent and take its date")
    if late:
        warnings.append(f"{late:,} commits are dated more than a day after later ones and take a parent's date")
    if invalid:
        warnings.append(f"{invalid:,} commits are dated outside 1970 to 2200 and take a parent's date")
    return tuple(warnings)
