"""Ranking of validation reports by the similarity of vectors."""

from typing import NamedTuple

import numpy as np

from gedbd.tasks.localization.pairs import Pairs

MAX_CHANGES = 30  # of a commit: an import has thousands of hunks


class RankedReports(NamedTuple):
    """Reports and the changes that they are ranked against.

    Attributes:
        reports: ``(Q,)`` rows of the reports.
        changes: ``(N,)`` rows of the changes, by commit.
        commits: ``(C,)`` rows of the commits, ascending.
        first: ``(C,)`` where the changes of each commit begin among ``changes``.
        is_candidate: ``(Q, C)`` bool, commits before each report.
        is_relevant: ``(Q, C)`` bool, commits that induced its bug.
    """

    reports: np.ndarray
    changes: np.ndarray
    commits: np.ndarray
    first: np.ndarray
    is_candidate: np.ndarray
    is_relevant: np.ndarray


def choose_candidates(pairs: Pairs, count: int) -> RankedReports:
    """The inducing commits of the pairs and ``count`` others, drawn from those before the last report.

    Raises:
        ValueError: If ``count`` is below 1.
    """
    if count < 1:
        raise ValueError(f"task.model.val_candidates={count} must be 1 or more")
    reports = np.unique(pairs.pairs[:, 0])
    inducing = np.unique(pairs.pairs[:, 1])
    present = [row for row in range(pairs.before[reports].max()) if len(pairs.rows_of[row])]
    others = np.setdiff1d(present, inducing)
    rng = np.random.default_rng(pairs.seed)
    commits = np.union1d(inducing, rng.choice(others, min(count, len(others)), replace=False)).astype(np.int64)
    kept = [_some(pairs.rows_of[commit], rng) for commit in commits.tolist()]
    first = np.cumsum([0, *(len(rows) for rows in kept[:-1])])
    is_candidate = commits < pairs.before[reports][:, None]
    is_relevant = np.array([[commit in pairs.inducing[report] for commit in commits] for report in reports.tolist()])
    return RankedReports(reports, np.concatenate(kept), commits, first, is_candidate, is_relevant & is_candidate)


def _some(rows: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All rows, or as many as are ranked of a commit."""
    return rows if len(rows) <= MAX_CHANGES else np.sort(rng.choice(rows, MAX_CHANGES, replace=False))


def mean_reciprocal_rank(ranked: RankedReports, reports: np.ndarray, changes: np.ndarray) -> float:
    """The mean of 1 / rank of the first relevant commit; a commit's score is the highest cosine of its changes.

    A commit of the same score as a relevant one counts as ranked before it.

    Args:
        ranked: Q reports and N changes.
        reports: ``(Q, D)`` unit vectors.
        changes: ``(N, D)`` unit vectors.
    """
    scores = np.maximum.reduceat(reports @ changes.T, ranked.first, axis=1)
    best = np.where(ranked.is_relevant, scores, -np.inf).max(axis=1, keepdims=True)
    before = ranked.is_candidate & ~ranked.is_relevant & (scores >= best)
    return float((1 / (1 + before.sum(axis=1))).mean())
