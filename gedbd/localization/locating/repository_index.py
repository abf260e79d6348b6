"""The index of a repository: its stored state, its update to a commit, and the answers for reports."""

import hashlib
import json
import os
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from filelock import FileLock, Timeout

from gedbd.corpora.bug_report import Report
from gedbd.io.files import UNFINISHED, replacing
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import default_ranker
from gedbd.localization.change_ranking.query_features import query_features
from gedbd.localization.locating.located_changes import LocatedChange, query_words, read_changes
from gedbd.localization.locating.located_files import LocatedFile, RankedFiles, commit_before, read_files
from gedbd.localization.locating.tracker_ranker import DEFAULT_MEASURED, TrackerRanker
from gedbd.localization.repository.commit_history import ADVICE, History
from gedbd.localization.repository.commits import Commit, Limits, change_tables
from gedbd.localization.repository.git_command import Git
from gedbd.localization.repository.source_files import SourcePaths, source_paths

MAX_BATCH_COMMITS = 1_000
MAX_BATCH_CHARS = 20_000_000  # of changed lines in memory
CHECKPOINT_S = 60.0
SCHEMA = 4  # increase it when the arrays or their computation change
HEADER = "header"
SNAPSHOT = "index.npz"
CHECKPOINT = "unfinished.npz"
LOCK = "index.lock"
DAMAGE = (zipfile.BadZipFile, zlib.error, EOFError, ValueError, KeyError, IndexError, TypeError, NotImplementedError)


class IndexLimits(NamedTuple):
    """Limits of what is indexed."""

    max_files: int = 1_000  # maximum number of files of a commit
    max_diff_chars: int = 20_000  # maximum number of characters of the diff of a commit, and of a file
    merges: bool = False  # whether merges are indexed; the commits that they merge contain the same changes

    def reading(self) -> Limits:
        """The limits for reading commits."""
        return Limits(max_files=self.max_files, max_file_chars=max(self.max_diff_chars, 1))


DEFAULT_LIMITS = IndexLimits()


def update_history(
    git: Git,
    commit: str,
    start: ChangeHistory,
    limits: IndexLimits,
    checkpoint: Callable[[ChangeHistory], None] | None = None,
) -> "tuple[Snapshot, Update]":
    """Returns a copy of a history that is updated to end at a commit.

    Only new commits are read, and those whose date has changed: dates depend on the whole history. ``checkpoint``
    is called with the history so far, about once a minute. Raises ValueError if an object of the repository is damaged,
    or objects of all commits are missing.
    """
    history = History(git, commit, None, limits.reading())
    merges = set() if limits.merges else {dated.id for dated in history.dated if dated.is_merge}
    history.leave_out(merges)
    dates = dict(zip(start.ids, pd.DatetimeIndex(start.created_at).tz_localize("UTC"), strict=True))
    kept = {dated.id for dated in history.dated if dates.get(dated.id) == dated.created_at}
    removed = set(dates) - kept
    # A copy: other threads may rank with the previous history.
    updated = ChangeHistory.of_arrays(start.arrays()).without(removed) if len(start) else ChangeHistory()
    history.leave_out(kept)
    last_checkpoint = time.monotonic()
    for batch in _batches(history):
        tables = change_tables("", batch, limits.max_diff_chars)
        updated.add(tables.commits.table, tables.files.table)
        if checkpoint is not None and time.monotonic() - last_checkpoint >= CHECKPOINT_S:
            checkpoint(updated)
            last_checkpoint = time.monotonic()
    num_missing = len(history.missing)
    if num_missing and not len(updated):
        raise ValueError(f"{git.path}: no commit can be read: {ADVICE}")
    header = Header(commit, limits._asdict(), True, len(updated), len(merges), num_missing)
    return Snapshot(header, updated), Update(len(history) - num_missing, len(removed), history.warnings)


def _batches(history: History) -> Iterator[Sequence[Commit]]:
    """Batches of commits that fit into memory."""
    batch: list[Commit] = []
    num_chars = 0
    for commit in history:
        batch.append(commit)
        num_chars += sum(len(line) for change in commit.files for hunk in change.hunks for line in hunk.lines)
        if len(batch) >= MAX_BATCH_COMMITS or num_chars >= MAX_BATCH_CHARS:
            yield batch
            batch = []
            num_chars = 0
    if batch:
        yield batch


@dataclass(frozen=True)
class Header:
    """Metadata of a stored index."""

    commit: str  # id of the last commit of the history
    settings: dict[str, Any]  # options that the content depends on, as plain values
    is_complete: bool  # whether it has all commits up to the last one; otherwise it is a checkpoint
    num_commits: int  # number of commits
    num_merges: int = 0  # number of skipped merges
    num_missing: int = 0  # number of commits skipped for missing objects
    schema: int = SCHEMA  # version of the file's layout

    def serves(self, settings: Mapping[str, Any]) -> bool:
        """Whether the index was made by this version with these options."""
        return self.schema == SCHEMA and self.settings == dict(settings)


class Snapshot(NamedTuple):
    """The state of an index."""

    header: Header
    history: ChangeHistory


class DamagedSnapshotError(ValueError):
    """A stored index is damaged or incomplete."""


def write_snapshot(file: Path, snapshot: Snapshot) -> None:
    """Replaces the file atomically: a killed process leaves the old content."""
    header = json.dumps(asdict(snapshot.header)).encode()
    arrays = {HEADER: np.frombuffer(header, dtype=np.uint8)} | snapshot.history.arrays()
    with replacing(file) as unfinished, unfinished.open("wb") as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def read_snapshot(file: Path, current: Header | None = None) -> Snapshot | None:
    """The stored index; None if there is none, or it has the header ``current``. Raises ``DamagedSnapshotError``."""
    if not file.exists():
        return None
    try:
        with np.load(file, allow_pickle=False) as stored:
            header = Header(**json.loads(stored[HEADER].tobytes()))
            if header == current or header.schema != SCHEMA:
                return None if header == current else Snapshot(header, ChangeHistory())
            history = ChangeHistory.of_arrays({name: stored[name] for name in stored.files if name != HEADER})
    except DAMAGE as error:
        raise DamagedSnapshotError(f"{file} is damaged ({error})") from error
    if len(history) != header.num_commits:
        raise DamagedSnapshotError(f"{file} is damaged ({len(history):,} commits of {header.num_commits:,})")
    return Snapshot(header, history)


NO_SHARED_WORD = "no commit shares a word with the report, so the order means little"
OTHER_HISTORY = "the ranker was trained on another repository: no training report refers to a commit of this one"


def query_of(report: Report, before: datetime | None = None) -> ChangeQuery:
    """A report as a query for the commits before a time; None takes the report's date, if it has one."""
    date = before or report.created_at
    return ChangeQuery(report.title, report.description, None if date is None else pd.Timestamp(date))


class Update(NamedTuple):
    """The changes of an update."""

    num_added: int = 0  # number of commits read
    # number of commits that the revision no longer reaches, or that were read again with another date
    num_removed: int = 0
    warnings: tuple[str, ...] = ()


class AnswerLimits(NamedTuple):
    """The size of an answer."""

    top_k: int = 5  # number of files
    max_places: int = 2  # number of places of each of the first files
    top_commits: int = 5  # number of suspect commits; 0 skips their ranking
    max_hunks: int = 1  # number of matching hunks of each commit


DEFAULT_ANSWER = AnswerLimits()


class Located(NamedTuple):
    """The answer for a report."""

    files: tuple[LocatedFile, ...] = ()  # the files that it most likely concerns, best first
    changes: tuple[LocatedChange, ...] = ()  # the commits that may have introduced its bug, best first
    commit: str = ""  # id of the commit whose files were ranked; empty if none is older than the report
    num_files: int = 0  # number of ranked files
    # number of skipped entries of that commit by reason, without files whose suffix is not that of source code
    skipped_files: Mapping[str, int] = MappingProxyType({})
    warnings: tuple[str, ...] = ()  # warnings for the user


def open_repository(
    path: str | Path | None,
    cache_dir: str | Path,
    index: str | Path | None = None,
    revision: str = "HEAD",
    run: str | Path | None = None,
    limits: IndexLimits = DEFAULT_LIMITS,
) -> "RepositoryIndex":
    """Opens the index of a repository; it may be empty until ``update``.

    Args:
        path: A work tree, a folder in one, or a bare repository.
        cache_dir: Folder of all indexes, by repository path and revision.
        index: Another folder for this index.
        revision: The branch, tag or commit whose history is indexed.
        run: Folder of a ``gedbd locate-backtest``, with its ranker; None for the default ranker.
        limits: Limits of what is indexed.

    Raises:
        ValueError: Git is missing, the path is absent, not a repository or a shallow clone, or ``run`` cannot be read.
    """
    if path is None:
        raise ValueError(f"locate_run={run} needs a repository: add repo=PATH")
    if run is None:
        ranker = TrackerRanker(default_ranker(), statement=DEFAULT_MEASURED)
    else:
        ranker = TrackerRanker.read(Path(run).expanduser())
    for name, value in (("repo", path), ("revision", revision), ("index", "absent" if index is None else index)):
        if not value:
            raise ValueError(f"{name}= is empty")
    git = Git(path)
    folder = default_folder(cache_dir, git, revision) if index is None else Path(index).expanduser()
    return RepositoryIndex(git, folder, revision, ranker, limits)


def default_folder(cache_dir: str | Path, git: Git, revision: str) -> Path:
    """The folder of a repository's index, by the real path of its objects and the revision."""
    objects = os.path.realpath(git.folder)
    digest = hashlib.blake2b(f"{objects}\n{revision}".encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
    return Path(cache_dir).expanduser() / "locate" / digest


class RepositoryIndex:
    """An index of the commits that a revision reaches.

    Threads may search during an update: each answer is from one state. Processes may share the folder: one updates at a
    time, and the others read the last complete state.
    """

    def __init__(self, git: Git, folder: Path, revision: str, ranker: TrackerRanker, limits: IndexLimits) -> None:
        self.git = git
        self.folder = folder
        self.revision = revision
        self.ranker = ranker
        self.limits = limits
        self._state = Snapshot(Header("", {}, is_complete=False, num_commits=0), ChangeHistory())
        self._sources = "", SourcePaths((), {})  # of the commit of the last answer
        self._is_checked = False  # whether the ranker was compared with the history
        self._update_lock = threading.Lock()
        self._ranking_lock = threading.Lock()  # queries build lookup tables of the history at first use
        self._settings = limits._asdict()

    def __len__(self) -> int:
        return len(self._state.history)

    @property
    def commit(self) -> str:
        """Id of the last indexed commit; empty before the first update."""
        return self._state.header.commit

    @property
    def history(self) -> ChangeHistory:
        """The indexed commits."""
        return self._state.history

    def update(self, wait: bool = False) -> Update:
        """Adds new commits, and removes those that the revision no longer reaches.

        The revision is resolved once, at the start. Commits with missing objects are tried again at each update.
        ``wait`` says whether to wait for another process that updates the index; otherwise the last complete state is
        used, if there is one. Raises ValueError if the revision names no commit, the objects of all commits are
        missing, or one is damaged.
        """
        update = self._update(wait)
        if self._is_checked or self.ranker.is_of(self.history):
            self._is_checked = True
            return update
        self._is_checked = True
        return update._replace(warnings=(*update.warnings, OTHER_HISTORY))

    def locate(self, query: ChangeQuery, limits: AnswerLimits = DEFAULT_ANSWER) -> Located:
        """The files that a report most likely concerns, and the earlier commits that may have introduced its bug.

        Files are ranked as of the report's date, see ``commit_before``. Raises ValueError if a commit can no longer be
        read from the repository.
        """
        state = self._state
        history = state.history
        if not history.num_before(query.created_at):
            return Located()
        commit = commit_before(self.git, state.header.commit, history, query)
        last_sources = self._sources  # read once: another thread may replace it
        sources = last_sources[1] if last_sources[0] == commit else source_paths(self.git, commit)
        self._sources = commit, sources
        source_set = frozenset(sources.paths)
        ranker = self.ranker.ranker
        with self._ranking_lock:
            allowed = np.array([path in source_set for path in history.table.paths], dtype=bool)
            fixes = self.ranker.known_fixes(history)
            features = query_features(history, query, fixes)
            files = ranker.find_files_in(features, limits.top_k, allowed)
            num_similar = fixes.num_similar(query.title, query.description, query.created_at)
            suspects = ranker.find_in(features, limits.top_commits) if limits.top_commits else []
            existing = history.table.existing(history.table.num_rows(features.num_commits))
            is_candidate = existing & (history.table.is_source & allowed)[: len(existing)]
        words = query_words(history, query)
        ranked = RankedFiles(history, query, num_similar, files)
        reading = self.limits.reading()
        return Located(
            files=read_files(self.git, commit, ranked, words, limits.max_places),
            changes=read_changes(self.git, history, query, suspects, words, reading, limits.max_hunks),
            commit=commit,
            num_files=int(np.count_nonzero(is_candidate)),
            skipped_files=sources.skipped,
            warnings=() if words.weights else (NO_SHARED_WORD,),
        )

    def facts(self, query: ChangeQuery) -> dict[str, Any]:
        """The state of the index: ``num_merges`` are skipped, and ``num_ranked`` commits are before the report."""
        state = self._state
        return {
            "repository": self.git.path.resolve().name,
            "commit": state.header.commit,
            "num_commits": len(state.history),
            "num_merges": state.header.num_merges,
            "num_ranked": state.history.num_before(query.created_at),
        }

    def _update(self, wait: bool) -> Update:
        commit = self.git.resolve(self.revision)
        if self._has_all(commit):
            return Update()
        with self._update_lock:
            warnings = self._load()
            if self._has_all(commit):
                return Update(warnings=warnings)
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            try:  # the system releases the lock when the process ends
                with FileLock(self.folder / LOCK).acquire(timeout=-1 if wait or not self.commit else 0):
                    return self._update_locked(commit, warnings)
            except Timeout:
                warning = f"another process is updating the index: this answer is as of commit {self.commit[:12]}"
                return Update(warnings=(*warnings, warning))

    def _has_all(self, commit: str) -> bool:
        """Whether the index is up to date with a commit, and no objects were missing."""
        return self.commit == commit and not self._state.header.num_missing

    def _load(self) -> tuple[str, ...]:
        """Loads the stored state if it differs; returns warnings about one that cannot be used."""
        try:
            stored = read_snapshot(self.folder / SNAPSHOT, self._state.header)
        except DamagedSnapshotError as error:
            return (f"{error}: all commits are read again",)
        if stored is not None and not stored.header.serves(self._settings):
            return ("the index was built with other options or by another version: all commits are read again",)
        self._state = stored or self._state
        return ()

    def _update_locked(self, commit: str, warnings: tuple[str, ...]) -> Update:
        """Updates the stored index, under the lock."""
        self._load()  # another process may have updated it before the lock was acquired
        if self._has_all(commit):
            return Update(warnings=warnings)
        start = self.history
        with suppress(DamagedSnapshotError):
            unfinished = read_snapshot(self.folder / CHECKPOINT)  # of an interrupted update
            if unfinished is not None and unfinished.header.serves(self._settings):
                start = max(start, unfinished.history, key=len)

        def checkpoint(history: ChangeHistory) -> None:
            header = Header(commit, self._settings, is_complete=False, num_commits=len(history))
            write_snapshot(self.folder / CHECKPOINT, Snapshot(header, history))

        snapshot, update = update_history(self.git, commit, start, self.limits, checkpoint)
        if self.commit != commit or update.num_added or update.num_removed:
            write_snapshot(self.folder / SNAPSHOT, snapshot)
            (self.folder / CHECKPOINT).unlink(missing_ok=True)
            for file in self.folder.glob(f".*{UNFINISHED}*"):  # of killed processes
                file.unlink(missing_ok=True)
            self._state = snapshot
        return update._replace(warnings=(*warnings, *update.warnings))
