"""Features of the files that a report may concern, and the earlier fixed reports that some of them read."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery, in_utc
from gedbd.localization.change_ranking.change_table import NUMBERS, ChangeTable
from gedbd.localization.change_ranking.report_words import Bm25Field, ReportWords, WordCounts, report_words
from gedbd.retrieval.growing_arrays import RaggedArray, list_positions
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.text.words import CodeWords

MAX_SIMILAR = 10  # fixes whose reports count as similar to a query


class KnownFix(NamedTuple):
    """A fixed bug."""

    title: str  # of its report
    description: str  # of its report
    known_at: pd.Timestamp  # when it was fixed and its files became known; not before its report was created
    fixing: tuple[str, ...]  # ids of the commits that fixed it


class KnownFixes:
    """Fixed bugs of a repository in the order in which they became known, without commits of other repositories."""

    def __init__(self, history: ChangeHistory, fixes: Sequence[KnownFix]) -> None:
        known_at = np.array([in_utc(fix.known_at) for fix in fixes], dtype="datetime64[us]")
        order = np.argsort(known_at, kind="stable")
        self._known_at = known_at[order]
        ordered = [fixes[number] for number in order]
        row = {id_: number for number, id_ in enumerate(history.ids)}
        nothing = np.empty(0, dtype=np.int64)
        # Without commits of other repositories.
        fixing = [np.array([row[id_] for id_ in fix.fixing if id_ in row], dtype=np.int64) for fix in ordered]
        self._paths = RaggedArray.of([changed_paths(history, rows) for rows in fixing], nothing)
        self._vocabulary = Vocabulary()
        words = CodeWords()
        texts = (words.of_text(f"{fix.title}\n{fix.description}") for fix in ordered)
        self._words = WordCounts.of(texts, self._vocabulary)

    def __len__(self) -> int:
        return len(self._known_at)

    def votes(self, report: ReportWords, moment: pd.Timestamp | None, num_paths: int) -> np.ndarray:
        """Scores of the first P paths by earlier fixes, ``(P,)``.

        Sum over the fixes that changed a file: similarity of the report / square root of the number of changed files
        (SimiScore: Zhou, Zhang, Lo, "Where Should the Bugs Be Fixed?", ICSE 2012).
        """
        similarity = self._similarity(report, moment)
        count = len(similarity)
        changed = self._paths.values[: self._paths.starts[count]]
        vote = np.repeat(similarity / np.sqrt(self._paths.lengths[:count] + 1), self._paths.lengths[:count])
        is_path = changed < num_paths
        return np.bincount(changed[is_path], vote[is_path], num_paths).astype(np.float32)

    def num_similar(self, title: str, description: str, moment: pd.Timestamp | None) -> np.ndarray:
        """For each path, how many of the ``MAX_SIMILAR`` fixes before ``moment`` with the nearest reports changed it.

        ``(P,)``, up to the last path that a fix changed.
        """
        if not len(self):
            return np.zeros(0, dtype=np.int64)
        similarity = self._similarity(report_words(title, description), moment)
        nearest = np.argsort(-similarity, kind="stable")[:MAX_SIMILAR]
        rows = [self._paths[row] for row in nearest[similarity[nearest] > 0].tolist()]
        return np.bincount(np.concatenate([np.empty(0, dtype=np.int64), *rows]))

    def _similarity(self, report: ReportWords, moment: pd.Timestamp | None) -> np.ndarray:
        """BM25 of the known reports, as a share of the score of words that are in no other report."""
        count = len(self)
        if moment is not None:
            count = int(np.searchsorted(self._known_at, in_utc(moment), side="left"))
        field = Bm25Field(self._words.lengths[:count, 0], count, {"words": report.words})
        numbers = self._vocabulary([list(report.words)], learn=False)[0].tolist()
        for word, number in zip(report.words, numbers, strict=True):
            rows, counts = self._words.find(number, count)
            field.add(word, rows, counts[:, 0])
        highest = sum(report.words.values()) * np.log1p((count + 0.5) / 0.5) / 2
        return np.asarray(field.scores["words"] / max(highest, 1e-9))


def changed_paths(history: ChangeHistory, commits: np.ndarray) -> np.ndarray:
    """The paths that the commits changed, ascending."""
    table = history.table
    return np.unique(table.row_path[np.isin(table.row_commit, commits)])


# Scores of a file; a ranker reads each as it is, as a share of the best file's score, and as a rank.
FILE_SCORES = (
    "changes",
    "changes_title",
    "changes_code",
    "changes_added",
    "best_change",
    "messages",
    "path",
    "path_title",
    "name",
    "name_title",
    "qualified",
    "stack_first",
    "stack_count",
    "earlier_fixes",
    "content",  # words of the file at the time of the report: those added less those removed
    "content_title",
    "content_code",
    "changed_together",  # changes together with the files that match the report's words best
    "folder_changes",  # scores of the other files of its folder
    "folder_earlier_fixes",
)
UNLISTED = ("folder_changes", "folder_earlier_fixes")  # scores that put no file on the shortlist
# Features that do not depend on the report.
FILE_KINDS = ("is_test", "num_changes", "num_fixes", "first_days", "size")
FILE_FEATURES = tuple(f"{name}{form}" for name in FILE_SCORES for form in ("", "_share", "_rank")) + FILE_KINDS
SHORTLIST = 60  # files by each score
# Files that match the report's words best; ``changed_together`` counts changes together with them.
MAX_SEEDS = 15
MAX_SEED_CHANGES = 50  # the latest ones
MAX_COMMIT_FILES = 30  # larger commits change unrelated files


class FileFeatures(NamedTuple):
    """Candidate files: source files that exist at the time of the report."""

    paths: np.ndarray  # ``(C,)`` ascending
    features: np.ndarray  # ``(C, F)`` float32: ``FILE_FEATURES``; NaN is a missing value
    shares: np.ndarray  # ``(C, S)`` float32: each of ``FILE_SCORES`` as a share of the best; 0 where it is missing

    def columns(self, names: Sequence[str]) -> np.ndarray:
        """The features ``names``, ``(C, F)``."""
        return self.features[:, [FILE_FEATURES.index(name) for name in names]]


def file_features(
    history: ChangeHistory,
    query: ChangeQuery,
    report: ReportWords,
    matches: Mapping[str, np.ndarray],
    earlier_fixes: np.ndarray | None,
) -> FileFeatures:
    """Features of the files that rank high in any score. Shares and ranks are among the existing files.

    ``matches`` are the scores of ``match_changes`` of the P paths that were changed before the report;
    ``earlier_fixes`` are the ``(P,)`` scores by earlier fixes, or None without a tracker.
    """
    table = history.table
    before = history.num_before(query.created_at)
    num_rows = table.num_rows(before)
    num_paths = table.num_paths(num_rows)
    exists = np.flatnonzero(table.existing(num_rows) & table.is_source[:num_paths])
    missing = np.full(num_paths, np.nan, dtype=np.float32)
    scores = dict(matches)
    scores |= named_paths(table, report, num_paths)
    scores["earlier_fixes"] = missing if earlier_fixes is None else earlier_fixes
    lexical = np.zeros(num_paths)
    lexical[exists] = share_and_rank(scores["changes"][exists])[0]
    scores["changed_together"] = changed_together(history, lexical, scores["name"] > 0, exists, before)
    folders = table.folders[:num_paths]
    scores["folder_changes"] = _neighbour_sums(lexical**2, folders, exists)
    scores["folder_earlier_fixes"] = _neighbour_sums(scores["earlier_fixes"] ** 2, folders, exists)
    columns: list[np.ndarray] = []
    shares = []
    is_listed = np.zeros(len(exists), dtype=bool)
    for name in FILE_SCORES:
        values = scores[name][exists]
        share, rank = share_and_rank(values)
        if name not in UNLISTED:
            is_listed |= (rank <= np.log1p(SHORTLIST)) & (values > 0)
        columns += [values, share, rank]
        shares.append(np.nan_to_num(share))
    kinds = file_kinds(history, query, before)
    columns += [(matches["size"] if name == "size" else kinds[name])[exists] for name in FILE_KINDS]
    features = np.column_stack(columns).astype(np.float32)
    return FileFeatures(exists[is_listed], features[is_listed], np.column_stack(shares).astype(np.float32)[is_listed])


def file_kinds(history: ChangeHistory, query: ChangeQuery, before: int) -> dict[str, np.ndarray]:
    """``FILE_KINDS`` except ``size`` of the P paths that the first ``before`` commits changed, each ``(P,)``."""
    table = history.table
    num_rows = table.num_rows(before)
    num_paths = table.num_paths(num_rows)
    row_path = table.row_path[:num_rows]
    row_commit = table.row_commit[:num_rows]
    is_fix = history.table.numbers[row_commit, NUMBERS.index("is_fix")]
    oldest = np.zeros(num_paths)
    np.maximum.at(oldest, row_path, days_before(history, query, before)[row_commit])
    return {
        "is_test": table.is_test[:num_paths],
        "num_changes": np.log1p(np.bincount(row_path, minlength=num_paths)),
        "num_fixes": np.log1p(np.bincount(row_path, is_fix, num_paths)),
        "first_days": np.log1p(oldest),
    }


def days_before(history: ChangeHistory, query: ChangeQuery, before: int) -> np.ndarray:
    """Days from each of the n earlier commits to the report, or to the last commit without a date, ``(n,)``."""
    dates = history.created_at[:before].astype(np.int64)  # seconds
    end = dates.max(initial=0) if query.created_at is None else query.created_at.timestamp()
    return np.asarray(np.maximum(end - dates, 0) / 86_400)


def changed_together(
    history: ChangeHistory, lexical: np.ndarray, is_named: np.ndarray, exists: np.ndarray, before: int
) -> np.ndarray:
    """How often files were changed with the seed files, which match the report's words best, ``(P,)``.

    Sum over the seed files of the squared ``lexical`` score, ``(P,)`` as a share of the best, times a mean over the
    seed's latest changes: 1 / square root of the commit's number of files if the commit also changed the file, else 0.
    Seeds are the paths of ``exists`` with the highest ``lexical`` score, plus 0.5 if the report names the file.
    """
    table = history.table
    scores = np.zeros(len(lexical))
    order = np.argsort(-(lexical[exists] + 0.5 * is_named[exists]), kind="stable")
    for seed in exists[order[:MAX_SEEDS]].tolist():
        commits = table.row_commit[table.rows_of_path[seed]]
        commits = commits[commits < before]
        is_small = history.table.numbers[commits, NUMBERS.index("num_files")] <= MAX_COMMIT_FILES
        commits = commits[is_small][-MAX_SEED_CHANGES:]
        first, end = np.searchsorted(table.row_commit, [commits, commits + 1])
        lengths = end - first
        weight = lexical[seed] ** 2 / max(len(commits), 1) / np.sqrt(lengths)
        np.add.at(scores, table.row_path[list_positions(first, lengths)], np.repeat(weight, lengths))
    return scores


def _neighbour_sums(values: np.ndarray, folders: np.ndarray, exists: np.ndarray) -> np.ndarray:
    """Sum of the values of the other existing files in each path's folder, ``(P,)``."""
    sums = np.bincount(folders[exists], values[exists], int(folders.max(initial=-1)) + 1)
    return np.asarray(sums[folders] - values)


def share_and_rank(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values as shares of the highest value, and log(1 + number of higher values); NaN stays NaN."""
    if not len(values) or np.isnan(values[0]):
        return values, values
    highest = float(values.max())
    share = values / highest if highest > 0 else np.zeros_like(values)
    higher = len(values) - np.searchsorted(np.sort(values), values, side="right")
    return share, np.log1p(higher).astype(np.float32)


def named_paths(table: ChangeTable, report: ReportWords, num_paths: int) -> dict[str, np.ndarray]:
    """Scores of the files that the report names by file name, by qualified name or in stack traces, each ``(P,)``."""
    scores = {name: np.zeros(num_paths, dtype=np.float32) for name in FILE_SCORES[8:13]}
    for name in report.names:
        paths = _paths_of_name(table, name.name, num_paths)
        for path in paths:
            weight = name.weight / (1 + np.log(len(paths)))
            early = 1 + 1 / (1 + name.position / 20)  # a report is mostly about what it names first
            scores["name"][path] = max(scores["name"][path], weight * early)
            if name.in_title:
                scores["name_title"][path] = max(scores["name_title"][path], weight)
    for tail in report.tails:
        scores["qualified"][_paths_of_tail(table, tail, num_paths)] += 1
    depth = 0
    for tail in report.frames:
        paths = _paths_of_tail(table, tail, num_paths)
        depth += bool(paths)  # frames of libraries do not count
        for path in paths:
            scores["stack_first"][path] = max(scores["stack_first"][path], 1 / depth)
            scores["stack_count"][path] += 1
    scores["qualified"] = np.log1p(scores["qualified"])
    scores["stack_count"] = np.log1p(scores["stack_count"])
    return scores


def _paths_of_name(table: ChangeTable, name: str, num_paths: int) -> list[int]:
    """The paths, among the first ``num_paths``, that have a file name."""
    return [path for path in table.paths_of_name.get(name, []) if path < num_paths]


def _paths_of_tail(table: ChangeTable, tail: str, num_paths: int) -> list[int]:
    """The paths that, without suffix, end with ``tail``, such as ``org/a/Parser``."""
    name = tail.rpartition("/")[2].lower()
    paths = _paths_of_name(table, name, num_paths)
    return [path for path in paths if f"/{table.paths[path].rpartition('.')[0]}".endswith(f"/{tail}")]
