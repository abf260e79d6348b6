"""Reads the history of a repository: the order and dates of its commits, then the changes of each commit."""

import re
from bisect import bisect_right
from collections.abc import Generator, Iterator, Mapping, Sequence, Set
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import IO, NamedTuple

from gedbd.io.console import track
from gedbd.localization.repository.commits import Commit, FileChange, Hunk, Limits, PatchParser
from gedbd.localization.repository.git_command import (
    SUBMODULE_MODE,
    Git,
    MissingObjectError,
    cut_line,
    decode,
    decode_message,
    present_objects,
)
from gedbd.localization.repository.row_cache import RowCache

MAX_LATE = 86_400  # seconds; for smaller clock differences, the rule suffices that no commit is before a parent
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


def list_commits(git: Git, revision: str) -> tuple[list[DatedCommit], tuple[str, ...]]:
    """The commits that can be reached from a revision, parents before children, otherwise by date, and warnings.

    A commit that is dated before one of its parents, by a rewritten history or a wrong clock, takes the latest date of
    its parents. A date outside 1970 to 2200, and one that is far too late (see ``find_late``), does not count:
    the commit takes the latest date of its parents, a root commit the oldest date of the history. Raises ValueError if
    there is no such revision, or an object is missing.
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
    return commits, tuple(f"{count:,} commits are {what}" for what, count in counts.items() if count)


def _valid_dates(dates: dict[str, int | None], parents: dict[str, list[str]]) -> tuple[dict[str, int], int]:
    """The date of each commit, none before that of a parent; and how many commits were dated before a parent."""
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

    The main line is the last commit, its first parent, the first parent of that, and so on. Its dates in order are its
    longest non-decreasing subsequence: 2001, 2002, 2003 of the years 2001, 2090, 2002, 2003. ``dates``
    are seconds since 1970 by commit, None if invalid; parents come before their children.
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
    """The positions of a longest non-decreasing subsequence of N numbers: 0, 2 and 3 of ``[1, 9, 2, 2]``."""
    ends: list[int] = []  # smallest last number so far of a subsequence of 1, 2, ... numbers
    positions: list[int] = []  # where these are
    before: list[int] = []  # for each number, the position of the one before it in its subsequence
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
    """The ids of the commits that cannot be compared with their first parents because trees or files are missing.

    Nothing is fetched. Listing all objects of a repository takes a second for a few million. Raises ValueError if a
    commit is missing, or an object is damaged.
    """
    trees = _trees(git, commits)
    present = present_objects(git, trees.values())
    pairs = [(commit.id, commit.first_parent) for commit in commits]
    readable = [pair for pair in pairs if all(trees[id_] in present for id_ in pair if id_)]
    needed: dict[str, set[str]] = {}
    while readable:
        num_read = 0
        try:
            for id_, files in _changed_files(git, readable):
                needed[id_] = files
                num_read += 1
            break
        except MissingObjectError:
            readable = readable[num_read + 1 :]  # a folder of the next one is missing
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

    Raises ``MissingObjectError`` if a folder of the commit after the last yielded one is missing.
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


FORMAT = 1  # increase it when commits are read or stored differently
# Sets everything that the configuration of a user or a repository could change.
DIFF = (
    *("diff-tree", "--stdin", "--root", "--always", "-r", "-p", "-M50%", "-l1000", "-U3", "--inter-hunk-context=0"),
    *("--no-ext-diff", "--no-textconv", "--no-color", "--no-relative", "--diff-algorithm=myers", "--indent-heuristic"),
    *("--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--ignore-submodules=none", "-O/dev/null"),
)
MIN_LINE_BYTES = 65_536  # long enough for the paths of a header
MAX_LINE_CHARS = 2**28
COMMIT_LINE = re.compile(rb"(?:[0-9a-f]{40}|[0-9a-f]{64})")
PARENT_LINE = re.compile(rb"parent ([0-9a-f]{40}|[0-9a-f]{64})\n")
COMMIT_LINE_LENGTHS = {40, 64}  # of SHA-1 and SHA-256
DEFAULT_LIMITS = Limits()


class Losses(NamedTuple):
    """What reading a commit left out or guessed."""

    dropped_files: int = 0
    cut_files: int = 0  # files of which lines or parts of lines are missing
    guessed_lines: int = 0  # lines of changes that are not UTF-8
    guessed_messages: int = 0  # 1 if the message is not in the encoding that the commit names, or in an unknown one
    cut_messages: int = 0  # 1 if the message is longer than the limit


class ReadCommit(NamedTuple):
    """A commit and what reading it left out or guessed."""

    commit: Commit
    losses: Losses


class CommitCache(RowCache):
    """Commits as they were read with some limits, without their dates, which depend on the history."""

    def __init__(self, folder: str | Path, limits: Limits) -> None:
        super().__init__(folder, "commits", [FORMAT, *limits])

    def get(self, dated: DatedCommit) -> ReadCommit | None:
        """A commit with the date of this history; None if its row is absent or damaged."""
        values = self.value(dated.id)
        if values is None:
            return None
        try:
            message, parents, files, is_cut, losses = values
            changes = tuple(
                FileChange._make(
                    [*head, tuple(Hunk._make([*numbers, tuple(lines)]) for *numbers, lines in hunks), is_file_cut]
                )
                for *head, hunks, is_file_cut in files
            )
            commit = Commit(dated.id, tuple(parents), dated.created_at, message, changes, is_cut)
            return ReadCommit(commit, Losses(*losses))
        except (ValueError, TypeError):
            return None

    def add(self, read: ReadCommit) -> None:
        """Stores a commit."""
        commit = read.commit
        self.put(commit.id, [commit.message, commit.parents, commit.files, commit.is_cut, read.losses])


class History:
    """The commits of a history that ends at a revision, in chronological order; parents before their children.

    Commits are read during iteration, so that only one is in memory at a time; with ``cache_dir``, a second reading
    asks Git for new commits only. ``limits`` say how much of a commit is kept. Merges are compared with their first
    parent. Renames are found by content, half of which must be equal, unless a commit both adds and deletes more than
    1,000 files. Commits whose trees or files are missing, as in a partial clone, are left out. Raises ValueError if
    there is no such revision, or the repository has no commits or lacks one.

    Attributes:
        git: The repository.
        dated: The ids and dates of the commits.
        missing: The ids of commits that are left out because objects are missing, as far as known.
        warnings: What was replaced, left out or guessed: all dates, and the rest up to the last commit read.
    """

    def __init__(
        self, git: Git, revision: str = "HEAD", cache_dir: str | Path | None = None, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self.git = git
        self.dated, self._date_warnings = list_commits(git, revision)
        self.missing: set[str] = set()
        self._cache_dir = cache_dir
        self._limits = limits
        self._losses = Losses()
        self._cache_warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.dated)

    def __iter__(self) -> Iterator[Commit]:
        """The commits. Raises ValueError if an object is damaged, or the cache cannot be used."""
        self._losses = Losses()
        self.missing = set()
        self._cache_warnings = ()
        with closing(self._read()) as reads:
            for read in track(reads, f"reading {self.git.path.resolve().name}", len(self), "commits"):
                self._losses = Losses(*map(sum, zip(self._losses, read.losses, strict=True)))
                yield read.commit

    def leave_out(self, ids: Set[str]) -> None:
        """Leaves out commits, such as those that were read before; dates and warnings about them stay."""
        self.dated = [dated for dated in self.dated if dated.id not in ids]

    @property
    def warnings(self) -> tuple[str, ...]:
        """One line for each kind of change that was made to the history."""
        limits = self._limits
        counts = {
            f"files beyond the first {limits.max_files:,} of their commit are left out": self._losses.dropped_files,
            f"changed files are cut: a line has {limits.max_line_chars:,} characters at most, a file "
            f"{limits.max_file_chars:,}, a commit {limits.max_commit_chars:,}": self._losses.cut_files,
            "changed lines are not UTF-8 and are read as Windows-1252": self._losses.guessed_lines,
            "messages are not in the encoding that they name": self._losses.guessed_messages,
            f"messages are cut at {limits.max_message_bytes:,} bytes": self._losses.cut_messages,
            f"commits are left out: {ADVICE}": len(self.missing),
        }
        losses = tuple(f"{count:,} {what}" for what, count in counts.items() if count)
        return self._date_warnings + losses + self._cache_warnings

    def _read(self) -> Generator[ReadCommit, None, None]:
        if self._cache_dir is None:
            yield from self._read_present(self.dated)
            return
        with CommitCache(self._cache_dir, self._limits) as cache:
            if cache.was_damaged:
                self._cache_warnings = (f"{cache.path} was damaged: the commits are read again",)
            yield from self._read_with(cache)

    def _read_with(self, cache: CommitCache) -> Generator[ReadCommit, None, None]:
        """Commits from the cache, or else from the repository."""
        known = cache.known([dated.id for dated in self.dated])
        missing = [dated for dated in self.dated if dated.id not in known]
        num_damaged = 0
        with closing(self._read_present(missing)) as reads:
            fresh = next(reads, None)  # the next commit that the cache lacks and the repository has
            for dated in self.dated:
                if dated.id in known:
                    read = cache.get(dated)
                elif fresh is None or fresh.commit.id != dated.id:
                    continue
                else:
                    read = fresh
                    fresh = next(reads, None)
                if read is None:
                    num_damaged += 1
                    self._cache_warnings = (f"{cache.path}: {num_damaged:,} damaged commits are read again",)
                    (read,) = read_commits(self.git, [dated], self._limits)
                    cache.add(read)
                elif dated.id not in known:
                    cache.add(read)
                yield read

    def _read_present(self, commits: Sequence[DatedCommit]) -> Generator[ReadCommit, None, None]:
        """Commits from the repository, without those of which objects are missing."""
        num_read = 0
        try:
            for read in read_commits(self.git, commits, self._limits):
                yield read
                num_read += 1
            return
        except MissingObjectError:
            rest = commits[num_read:]
            self.missing = incomplete_commits(self.git, rest)
            if not self.missing:
                raise
        yield from read_commits(self.git, [dated for dated in rest if dated.id not in self.missing], self._limits)


def read_commits(git: Git, commits: Sequence[DatedCommit], limits: Limits) -> Generator[ReadCommit, None, None]:
    """The commits in their order. Raises ValueError if an object is missing or damaged."""
    if not commits:
        return
    # "ID PARENT" compares a commit with this parent only.
    pairs = (f"{commit.id} {commit.first_parent}".rstrip() for commit in commits)
    ids = (commit.id for commit in commits)
    before: ReadCommit | None = None
    with git.stream("cat-file", "--batch", "--buffer", lines=ids) as objects, git.stream(*DIFF, lines=pairs) as patches:
        # Where git fails in the middle of a diff, the context raises before that commit is yielded.
        for commit, (parser, num_guessed) in zip(commits, _read_diffs(patches, limits), strict=False):
            if before is not None:
                yield before
            before = _read_commit(git, commit, objects, parser, num_guessed, limits)
    if before is not None:
        yield before


def _read_diffs(patches: IO[bytes], limits: Limits) -> Iterator[tuple[PatchParser, int]]:
    """The parsed diff of each commit, and how many of its lines are not UTF-8.

    No line of a diff looks like the line with the id that precedes it.
    """
    parser: PatchParser | None = None
    num_guessed = 0
    for line in _lines(patches, limits):
        if len(line) in COMMIT_LINE_LENGTHS and COMMIT_LINE.fullmatch(line):
            if parser is not None:
                yield parser, num_guessed
            parser = PatchParser(limits)
            num_guessed = 0
            continue
        text, is_utf8 = decode(line)
        num_guessed += not is_utf8
        if parser is not None:
            parser.add(text)
    if parser is not None:
        yield parser, num_guessed


def _lines(patches: IO[bytes], limits: Limits) -> Iterator[bytes]:
    """Lines without their line feed. The rest of a line that exceeds all limits is dropped piece by piece."""
    # A character has at most 4 bytes, so what is left of a cut line is still too long for the parser, which flags it.
    max_bytes = max(MIN_LINE_BYTES, 4 * min(limits.max_line_chars, MAX_LINE_CHARS) + 8)
    while line := patches.readline(max_bytes):
        if line.endswith(b"\n"):
            yield line[:-1]
        else:
            yield cut_line(line) if len(line) == max_bytes else line
            while not line.endswith(b"\n") and line:
                line = patches.readline(max_bytes)


def _read_commit(
    git: Git, dated: DatedCommit, objects: IO[bytes], parser: PatchParser, num_guessed: int, limits: Limits
) -> ReadCommit:
    """A commit from its parsed diff and its object, which is the next one of the output of ``cat-file``."""
    name, _, size = objects.readline(MIN_LINE_BYTES).partition(b" commit ")
    if name != dated.id.encode():
        raise ValueError(f"{git.path}: commit {dated.id} cannot be read; git fsck shows which objects are damaged")
    num_left = int(size)
    parents: list[str] = []
    encoding = ""
    while line := objects.readline(min(num_left, MIN_LINE_BYTES)):
        num_left -= len(line)
        if match := PARENT_LINE.fullmatch(line):
            parents.append(match[1].decode("ascii"))
        elif line.startswith(b"encoding "):
            encoding = line[len(b"encoding ") : -1].decode("latin-1")
        elif line == b"\n":
            break
    content = objects.read(min(num_left, limits.max_message_bytes))
    num_left -= len(content)
    is_message_cut = num_left > 0
    message, is_valid = decode_message(cut_line(content) if is_message_cut else content, encoding)
    num_left += 1  # a line feed follows
    while num_left > 0 and (block := objects.read(min(num_left, MIN_LINE_BYTES))):
        num_left -= len(block)
    files = tuple(parser.finish())
    num_cut = sum(file.is_cut for file in files)
    losses = Losses(parser.num_dropped_files, num_cut, num_guessed, int(not is_valid), int(is_message_cut))
    is_cut = parser.num_dropped_files + num_cut > 0
    text = message.strip("\n")
    commit = Commit(dated.id, tuple(parents), dated.created_at, text, files, is_cut)
    return ReadCommit(commit, losses)
