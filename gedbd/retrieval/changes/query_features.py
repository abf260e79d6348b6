"""All features of a query: the files that it may concern, and the commits before it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.changes.change_matches import match_changes
from gedbd.retrieval.changes.change_table import NUMBERS
from gedbd.retrieval.changes.commit_features import FileLinks, ownership_features
from gedbd.retrieval.changes.file_features import FILE_SCORES, FileFeatures, file_features
from gedbd.retrieval.changes.history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.known_fixes import KnownFixes
from gedbd.retrieval.changes.report_words import report_words

# Scores of files that features of ownership are made of, beside the learnt probability.
WEIGHTS = ("changes", "changes_title", "best_change", "path", "name", "earlier_fixes")
COUNTS = ("num_files", "added_lines", "removed_lines")  # whose logarithm is the feature


class QueryFeatures(NamedTuple):
    """What a ranker reads.

    Attributes:
        num_commits: Number n of commits before the query.
        files: Files that may be meant.
        links: Owners and changes of these files.
        scores: Scores of the commits that need no probabilities of files, each ``(n,)``.
    """

    num_commits: int
    files: FileFeatures
    links: FileLinks
    scores: dict[str, np.ndarray]

    def commit_scores(self, probability: np.ndarray) -> dict[str, np.ndarray]:
        """All scores of the commits, each ``(n,)``.

        Args:
            probability: ``(C,)`` probability of each file, sum 1.
        """
        weights = {name: self.files.shares[:, FILE_SCORES.index(name)] for name in WEIGHTS}
        found = ownership_features(self.links, probability, weights, self.num_commits)
        if np.isnan(self.scores["induced_similar"]).any():
            found["lines_earlier_fixes"] = self.scores["induced_similar"]  # missing too: there is no tracker
        return found | self.scores


def query_features(
    history: ChangeHistory,
    query: ChangeQuery,
    fixes: KnownFixes | None = None,
    extra: Mapping[str, np.ndarray] | None = None,
) -> QueryFeatures:
    """The features of a query; nothing in them depends on what came after it.

    Args:
        history: The commits, later ones too.
        query: The report.
        fixes: Fixed bugs, later ones too; None without a tracker.
        extra: Further scores of the commits from elsewhere by name, each ``(n,)`` or longer.
    """
    before = history.num_before(query.created_at)
    report = report_words(query.title, query.description)
    matches = match_changes(history, report, before)
    num_paths = len(matches.paths["path"])
    missing = np.full(before, np.nan, dtype=np.float32)
    votes = None
    scores = dict(matches.commits)
    scores |= {"induced_similar": missing, "times_induced": missing}
    if fixes is not None:
        known = fixes.scores(report, query.created_at, before, num_paths)
        votes = known.paths
        scores |= {"induced_similar": known.induced, "times_induced": known.times_induced}
    scores |= _numbers(history, query, before)
    for name, values in (extra or {}).items():
        scores[name] = np.asarray(values[:before], dtype=np.float32)
    files = file_features(history, report, matches.paths, votes)
    return QueryFeatures(before, files, file_links(history, files.paths, before), scores)


def _numbers(history: ChangeHistory, query: ChangeQuery, before: int) -> dict[str, np.ndarray]:
    """Features of the commits that have nothing to do with the text of the report."""
    found = {name: history.table.numbers[:before, place] for place, name in enumerate(NUMBERS)}
    for name in COUNTS:
        found[name] = np.log1p(found[name])
    dates = history.created_at[:before].astype(np.int64)  # seconds
    moment = dates.max(initial=0) if query.created_at is None else query.created_at.timestamp()
    days = np.maximum(moment - dates, 0) / 86_400
    return found | {"age_days": np.log1p(days).astype(np.float32)}


def file_links(history: ChangeHistory, paths: np.ndarray, before: int) -> FileLinks:
    """Owners and changes of some files before commit ``before``."""
    index = history.index
    num_rows = index.num_rows(before)
    num_changes = np.bincount(index.table.row_path[:num_rows], minlength=len(index.table.paths))[paths]
    owners = [index.owners(path, count) for path, count in zip(paths.tolist(), num_changes.tolist(), strict=True)]
    nothing = np.empty(0, dtype=np.int64)
    lines = np.concatenate([nothing, *(owned.lines for owned in owners)])
    owned_file = np.repeat(np.arange(len(paths)), [len(owned.commits) for owned in owners])
    total = np.array([owned.total for owned in owners], dtype=np.int64)
    changed_file = np.repeat(np.arange(len(paths)), num_changes)
    # Of files with 2 and 3 changes: 0 1, 0 1 2.
    number = np.arange(len(changed_file)) - np.repeat(np.cumsum(num_changes) - num_changes, num_changes)
    rows = index.rows_of_path.values[index.rows_of_path.starts[paths][changed_file] + number]
    return FileLinks(
        owned_file=owned_file,
        owner=np.concatenate([nothing, *(owned.commits for owned in owners)]),
        lines=lines,
        share=lines / total[owned_file],
        changed_file=changed_file,
        changer=index.table.row_commit[rows],
        num_later=num_changes[changed_file] - 1 - number,
        is_first=number == 0,
    )
