"""Brings the history of a repository that is ranked up to a commit."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import pandas as pd

from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.repository.change_tables import TableBuilder
from gedbd.localization.repository.commit_history import History
from gedbd.localization.repository.commits import Commit, Limits
from gedbd.localization.repository.git_command import Git
from gedbd.localization.repository.missing_objects import ADVICE

MAX_BATCH_COMMITS = 1_000
MAX_BATCH_CHARS = 20_000_000  # of the changed lines that are in memory at a time
CHECKPOINT_S = 60.0


class IndexLimits(NamedTuple):
    """How much of a commit is indexed.

    Attributes:
        max_files: Files of a commit.
        max_diff_chars: Characters of the diff of a commit, and of that of a file.
        merges: Whether merges are indexed. What they change is changed by the commits that they merge.
    """

    max_files: int = 1_000
    max_diff_chars: int = 20_000
    merges: bool = False

    def reading(self) -> Limits:
        """The limits under which commits are read."""
        return Limits(max_files=self.max_files, max_file_chars=max(self.max_diff_chars, 1))


class Indexed(NamedTuple):
    """A history that was brought up to a commit.

    Attributes:
        history: The commits.
        num_added: Commits that were read.
        num_removed: Commits that the revision no longer reaches, or that were read again with another date.
        num_merges: Merges that were left out.
        num_missing: Commits that were left out, as objects are missing.
        warnings: What reading left out or guessed, with counts.
    """

    history: ChangeHistory
    num_added: int
    num_removed: int
    num_merges: int
    num_missing: int
    warnings: tuple[str, ...]


def bring_up_to(
    git: Git,
    commit: str,
    start: ChangeHistory,
    limits: IndexLimits,
    checkpoint: Callable[[ChangeHistory], None] | None = None,
) -> Indexed:
    """The history that ends at a commit, from an earlier or another state of it.

    Commits that are there already are not read again. The date of a commit depends on the history around it, so a
    commit whose date differs is.

    Args:
        git: The repository.
        commit: The id of the last commit.
        start: The state to begin with, which stays as it is.
        limits: How much of a commit is indexed.
        checkpoint: Receives the history so far, about once a minute. What came after is lost if the process is killed.

    Raises:
        ValueError: An object of the repository is damaged, or objects of all commits are missing.
    """
    history = History(git, commit, None, limits.reading())
    merges = set() if limits.merges else {walked.id for walked in history.walked if walked.is_merge}
    history.leave_out(merges)
    dates = dict(zip(start.ids, pd.DatetimeIndex(start.created_at).tz_localize("UTC"), strict=True))
    stays = {walked.id for walked in history.walked if dates.get(walked.id) == walked.created_at}
    removed = set(dates) - stays
    # A copy: other threads may rank with the state to begin with.
    reached = ChangeHistory.of_arrays(start.arrays()).without(removed) if len(start) else ChangeHistory()
    history.leave_out(stays)
    last_checkpoint = time.monotonic()
    for batch in _batches(history):
        builder = TableBuilder("", limits.max_diff_chars)
        for added in batch:
            builder.add(added)
        tables = builder.tables()
        reached.add(tables.commits.table, tables.files.table)
        if checkpoint is not None and time.monotonic() - last_checkpoint >= CHECKPOINT_S:
            checkpoint(reached)
            last_checkpoint = time.monotonic()
    num_missing = len(history.missing)
    if num_missing and not len(reached):
        raise ValueError(f"{git.path}: no commit can be read: {ADVICE}")
    return Indexed(reached, len(history) - num_missing, len(removed), len(merges), num_missing, history.warnings)


def _batches(history: History) -> Iterator[Sequence[Commit]]:
    """Commits in groups that fit into memory."""
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
