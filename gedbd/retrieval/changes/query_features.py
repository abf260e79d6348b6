"""All features of a query: the files that it may concern, and the commits before it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.changes.change_history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.change_table import NUMBERS
from gedbd.retrieval.changes.commit_features import FileLinks, ownership_features
from gedbd.retrieval.changes.file_features import FILE_SCORES, FileFeatures, file_features
from gedbd.retrieval.changes.known_fixes import KnownFixes
from gedbd.retrieval.changes.report_words import ReportWords, report_words
from gedbd.retrieval.changes.word_counts import Bm25Field, grouped
from gedbd.retrieval.growing_arrays import list_places

MAX_COUNT = 5  # of a word in one change of a file: a list of constants should not decide what a file is about
PATH_K1 = 1.2
PATH_B = 0.6
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
    number = list_places(np.zeros_like(num_changes), num_changes)
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


class ChangeMatches(NamedTuple):
    """Scores by name, of the first n commits, the R file rows of these, and the P paths that these have.

    Attributes:
        commits: Each ``(n,)``.
        rows: ``(R,)`` score of a single change of a file.
        paths: Each ``(P,)``: of all changes of a file together.
    """

    commits: dict[str, np.ndarray]
    rows: np.ndarray
    paths: dict[str, np.ndarray]


def match_changes(history: ChangeHistory, report: ReportWords, before: int) -> ChangeMatches:
    """Scores the first ``before`` commits; later ones count for nothing."""
    matcher = _Matcher(history, report, before)
    words = list(dict.fromkeys([*report.words, *report.code]))
    numbers = history.vocabulary([words], learn=False)[0].tolist()
    for word, number in zip(words, numbers, strict=True):
        matcher.add_diffs(word, number)
        matcher.add_messages(word, number)
    matcher.add_paths(words)
    return matcher.matches


class _Matcher:
    """Adds up scores word by word."""

    def __init__(self, history: ChangeHistory, report: ReportWords, before: int) -> None:
        index = history.index
        self._index = index
        self._before = before
        self._num_rows = index.num_rows(before)
        self._row_commit = index.table.row_commit[: self._num_rows]
        self._row_path = index.table.row_path[: self._num_rows]
        self._num_paths = index.num_paths(self._num_rows)
        lengths = index.row_words.lengths[: self._num_rows]
        total, added = lengths.sum(axis=1), lengths[:, 0]
        words = {"words": report.words}
        queries = {"words": report.words, "title": report.title, "code": report.code}
        two = {"words": report.words, "title": report.title}
        self._rows = Bm25Field(total, self._num_rows, words)
        self._diffs = Bm25Field(self._per_commit(total), before, queries)
        self._added = Bm25Field(self._per_commit(added), before, words)
        self._messages = Bm25Field(index.message_words.lengths[:before, 0], before, two)
        self._files = Bm25Field(self._per_path(total), self._num_paths, queries, PATH_K1, PATH_B)
        self._files_added = Bm25Field(self._per_path(added), self._num_paths, words, PATH_K1, PATH_B)
        in_messages = index.message_words.lengths[self._row_commit, 0]
        self._file_messages = Bm25Field(self._per_path(in_messages), self._num_paths, words, PATH_K1, PATH_B)
        self._paths = Bm25Field(index.path_words.lengths[: self._num_paths, 0], self._num_paths, two)

    def add_diffs(self, word: str, number: int) -> None:
        """Adds a word of the diffs."""
        rows, counts = self._index.row_words.find(number, self._num_rows)
        both = counts.sum(axis=1)
        self._rows.add(word, rows, both)
        self._diffs.add(word, *grouped(self._row_commit[rows], both))
        self._files.add(word, *self._paths_of(rows, both))
        in_added = counts[:, 0] > 0
        rows, added = rows[in_added], counts[in_added, 0]
        self._added.add(word, *grouped(self._row_commit[rows], added))
        self._files_added.add(word, *self._paths_of(rows, added))

    def add_messages(self, word: str, number: int) -> None:
        """Adds a word of the messages, each of which also speaks of the files that its commit changed."""
        commits, counts = self._index.message_words.find(number, self._before)
        self._messages.add(word, commits, counts[:, 0])
        first, end = np.searchsorted(self._row_commit, [commits, commits + 1])
        rows = list_places(first, end - first)
        self._file_messages.add(word, *self._paths_of(rows, np.ones(len(rows))))

    def add_paths(self, words: list[str]) -> None:
        """Adds the words of paths."""
        counts = self._index.path_words
        numbers = self._index.path_vocabulary([words], learn=False)[0].tolist()
        for word, number in zip(words, numbers, strict=True):
            paths, found = counts.find(number, self._num_paths)
            self._paths.add(word, paths, found[:, 0])

    @property
    def matches(self) -> ChangeMatches:
        """All scores."""
        rows = self._rows.scores["words"]
        best_row = np.zeros(self._before, dtype=np.float32)
        np.maximum.at(best_row, self._row_commit, rows)
        best_change = np.zeros(self._num_paths, dtype=np.float32)
        np.maximum.at(best_change, self._row_path, rows)
        commits = {
            "diff": self._diffs.scores["words"],
            "diff_title": self._diffs.scores["title"],
            "diff_code": self._diffs.scores["code"],
            "added": self._added.scores["words"],
            "best_file": best_row,
            "message": self._messages.scores["words"],
            "message_title": self._messages.scores["title"],
        }
        paths = {
            "changes": self._files.scores["words"],
            "changes_title": self._files.scores["title"],
            "changes_code": self._files.scores["code"],
            "changes_added": self._files_added.scores["words"],
            "best_change": best_change,
            "messages": self._file_messages.scores["words"],
            "path": self._paths.scores["words"],
            "path_title": self._paths.scores["title"],
        }
        return ChangeMatches(commits, rows, paths)

    def _per_commit(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._row_commit, values, self._before)

    def _per_path(self, values: np.ndarray) -> np.ndarray:
        return np.bincount(self._row_path, values, self._num_paths)

    def _paths_of(self, rows: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The paths of some file rows, and their counts added up."""
        sums = np.bincount(self._row_path[rows], np.minimum(counts, MAX_COUNT), self._num_paths)
        paths = np.flatnonzero(sums)
        return paths, sums[paths]
