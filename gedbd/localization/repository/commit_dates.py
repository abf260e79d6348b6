"""The commits of a history: their chronological order, their dates, and which of them cannot be read."""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from gedbd.localization.repository.git_command import SUBMODULE_MODE, Git, MissingObjectError, present_objects

MAX_LATE = 86_400  # seconds; smaller differences between clocks are left to the rule that no commit is before a parent
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_SECONDS = int((datetime(2200, 1, 1, tzinfo=UTC) - EPOCH).total_seconds())
ADVICE = "their objects are missing, as in a partial clone; git fetch --refetch --no-filter fetches them"
# Only trees are read: each file that differs, with the ids of both versions.
CHANGED_FILES = (
    *("diff-tree", "--stdin", "--root", "--always", "-r", "--raw", "--no-abbrev", "--no-renames", "--no-relative"),
    *("--no-ext-diff", "--no-color", "--ignore-submodules=none", "-O/dev/null"),
)


class DatedCommit(NamedTuple):
    """A commit before its files are read; ``first_parent`` is empty for a root."""

    id: str
    first_parent: str
    created_at: datetime
    is_merge: bool = False


class CommitList(NamedTuple):
    """The commits of a history, parents before their children and else by date; and how many dates were replaced."""

    commits: list[DatedCommit]
    warnings: tuple[str, ...]


def list_commits(git: Git, revision: str) -> CommitList:
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
    valid, early = _valid_dates(dates | dict.fromkeys(late), parents)
    commits = [
        DatedCommit(
            id=commit,
            first_parent=(parents[commit] or [""])[0],
            created_at=EPOCH + timedelta(seconds=valid[commit]),
            is_merge=len(parents[commit]) > 1,
        )
        # The sort is stable, so of equal dates parents stay before children.
        for commit in sorted(valid, key=lambda commit: valid[commit])
    ]
    counts = {
        "dated before a parent and take its date": early,
        "dated more than a day after later ones and take a parent's date": len(late),
        "dated outside 1970 to 2200 and take a parent's date": invalid,
    }
    return CommitList(commits, tuple(f"{count:,} commits are {what}" for what, count in counts.items() if count))


def _valid_dates(dates: dict[str, int | None], parents: dict[str, list[str]]) -> tuple[dict[str, int], int]:
    """The date of each commit, none before that of a parent; and how many commits had an earlier one."""
    oldest = min((seconds for seconds in dates.values() if seconds is not None), default=1)
    valid: dict[str, int] = {}
    early = 0
    for commit, date in dates.items():
        latest = max((valid[parent] for parent in parents[commit]), default=oldest)
        early += date is not None and date < latest
        valid[commit] = latest if date is None else max(latest, date)
    return valid, early


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
        date = dates[commit]
        if date is not None and limit is not None and date > limit + MAX_LATE:
            late.add(commit)
        known = [bound for bound in (limit, date if commit in in_order else None) if bound is not None]
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


def incomplete_commits(git: Git, commits: Sequence[DatedCommit]) -> set[str]:
    """The ids of the commits that cannot be compared with their first parents, as trees or files are missing.

    Nothing is fetched. All objects of the repository are listed, in a second for a few million.

    Raises:
        ValueError: A commit is missing, or an object is damaged.
    """
    trees = _trees(git, commits)
    present = present_objects(git, trees.values())
    pairs = [(commit.id, commit.first_parent) for commit in commits]
    whole = [pair for pair in pairs if all(trees[id_] in present for id_ in pair if id_)]
    needed: dict[str, set[str]] = {}
    while whole:
        num_read = 0
        try:
            for id_, files in _changed_files(git, whole):
                needed[id_] = files
                num_read += 1
            break
        except MissingObjectError:
            whole = whole[num_read + 1 :]  # a folder of the next one is missing
    present = present_objects(git, (file for files in needed.values() for file in files))
    complete = {id_ for id_, files in needed.items() if files <= present}
    return {commit.id for commit in commits} - complete


def _trees(git: Git, commits: Sequence[DatedCommit]) -> dict[str, str]:
    """The ids of the trees of some commits and of their first parents."""
    ids = {id_ for commit in commits for id_ in (commit.id, commit.first_parent) if id_}
    trees = {}
    options = ("--no-walk=unsorted", "--encoding=UTF-8", "--format=%H %T")
    with git.stream("rev-list", *options, "--stdin", lines=sorted(ids)) as lines:
        for line in lines:
            if not line.startswith(b"commit "):
                id_, tree = line.decode("ascii").split()
                trees[id_] = tree
    return trees


def _changed_files(git: Git, pairs: Sequence[tuple[str, str]]) -> Iterator[tuple[str, set[str]]]:
    """Each commit, and the ids of both versions of the files that differ from its first parent.

    Raises ``MissingObjectError`` if a folder of the commit after the last one is missing.
    """
    id_ = ""
    files: set[str] = set()
    failure: MissingObjectError | None = None
    try:
        with git.stream(*CHANGED_FILES, lines=(" ".join(pair).rstrip() for pair in pairs)) as lines:
            for line in lines:
                if not line.startswith(b":"):
                    if id_:
                        yield id_, files
                    id_ = line.decode("ascii").strip()
                    files = set()
                    continue
                # ":100644 000000 ID 000..0 D<tab>path"; a mode of zeros is a missing side.
                old_mode, new_mode, old_id, new_id = line[1:].decode("ascii", "replace").split()[:4]
                sides = ((old_mode, old_id), (new_mode, new_id))
                files.update(file for mode, file in sides if int(mode) and mode != SUBMODULE_MODE)
    except MissingObjectError as error:
        failure = error
    if id_:
        yield id_, files  # Git writes a commit as a whole before it begins with the next one
    if failure is not None:
        raise failure
