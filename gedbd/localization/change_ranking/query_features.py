"""All features of a query: the files that it may concern, and the commits before it."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_table import NUMBERS
from gedbd.localization.change_ranking.file_features import (
    FILE_SCORES,
    FileFeatures,
    KnownFixes,
    days_before,
    file_features,
    share_and_rank,
)
from gedbd.localization.change_ranking.report_words import Bm25Field, ReportWords, grouped, report_words
from gedbd.retrieval.growing_arrays import list_positions

# Scores of a commit by the files that the report may concern. A file has the probability p that the fix changes it, the
# share s of its lines that come from the commit, and the rank r by p from 0. The text determines only p: most lines
# come from imports and other large commits, which score high for any text. These features multiply p by that prior;
# ``TEXT_BOUND`` are the features without it.
OWNERSHIP = (
    "lines",  # sum of p s: the probability that a line to be changed comes from the commit
    "lines_best_file",  # largest p s
    "lines_flat",  # as lines, with sqrt(p) instead of p
    "lines_log",  # sum of p log(1 + number of the commit's lines)
    "lines_by_rank",  # largest s / (1 + r)
    "lines_top_1",  # mean s in the most probable file
    "lines_top_3",
    "lines_top_10",
    "lines_changes",  # as lines, with p from one score of files: (score / best score) ** 4
    "lines_changes_title",
    "lines_best_change",
    "lines_path",
    "lines_name",
    "touches",  # sum of p over the changed files
    "touches_best_file",  # largest p
    "touches_by_rank",  # largest 1 / (1 + r)
    "newest",  # sum of p / (1 + number of later changes of the file)
    "oldest",  # largest p of the files that the commit was the first to change
)
LEXICAL = ("diff", "diff_title", "diff_code", "added", "best_file", "message", "message_title")
# Features that depend on the text: no sums over lines or files.
TEXT_BOUND = ("touches_best_file", "touches_by_rank", "newest", *LEXICAL)
# Features that do not depend on the text of the report.
CONTENT_FREE_COLUMNS = ("age_days", *NUMBERS)
RANKED = frozenset({"lines", "lines_flat", "lines_best_change", "lines_path", "touches", "newest", *LEXICAL})
POWER = 4  # exponent of a file's share of the best score, where it serves as a probability
LISTED_BY_FILES = 100  # commits in the shortlist by each of three scores of ownership
LISTED_BY_WORDS = 50  # likewise by each of three lexical scores
MAX_CONTENT_COUNT = 20  # of a word in the content of a file
MAX_COUNT = 5  # of a word in one change of a file: limits the weight of lists of constants
PATH_K1 = 1.2
PATH_B = 0.6
# Scores of files that features of ownership use beside the learned probability.
WEIGHTS = ("changes", "changes_title", "best_change", "path", "name")
COUNTS = ("num_files", "added_lines", "removed_lines")  # features on a logarithmic scale


class FileLinks(NamedTuple):
    """Which commits the lines of C files come from, and which commits changed them, before a query."""

    owned_file: np.ndarray  # ``(O,)`` position of the file
    owner: np.ndarray  # ``(O,)`` row of a commit that lines of the file come from
    lines: np.ndarray  # ``(O,)`` number of these lines
    share: np.ndarray  # ``(O,)`` their share of the file
    changed_file: np.ndarray  # ``(T,)`` position of the file
    changer: np.ndarray  # ``(T,)`` row of a commit that changed the file
    num_later: np.ndarray  # ``(T,)`` number of later changes of the file
    is_first: np.ndarray  # ``(T,)`` whether it was the first change of the file


def ownership_features(
    links: FileLinks, probability: np.ndarray, weights: Mapping[str, np.ndarray], num_commits: int
) -> dict[str, np.ndarray]:
    """The features ``OWNERSHIP``, each ``(n,)``.

    ``probability`` is ``(C,)`` with sum 1; ``weights`` are scores of the files as shares of the best score, ``(C,)``
    each.
    """

    def total(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        return np.bincount(rows, values, num_commits).astype(np.float32)

    def highest(rows: np.ndarray, values: np.ndarray) -> np.ndarray:
        best = np.zeros(num_commits, dtype=np.float32)
        np.maximum.at(best, rows, values.astype(np.float32))
        return best

    rank = np.empty(len(probability))
    rank[np.argsort(-probability, kind="stable")] = np.arange(len(probability))
    p, share, r = probability[links.owned_file], links.share, rank[links.owned_file]
    root = _normalised(np.sqrt(probability))[links.owned_file]
    p_changed, r_changed = probability[links.changed_file], rank[links.changed_file]
    features = {
        "lines": total(links.owner, p * share),
        "lines_best_file": highest(links.owner, p * share),
        "lines_flat": total(links.owner, root * share),
        "lines_log": total(links.owner, p * np.log1p(links.lines)),
        "lines_by_rank": highest(links.owner, share / (1 + r)),
        "touches": total(links.changer, p_changed),
        "touches_best_file": highest(links.changer, p_changed),
        "touches_by_rank": highest(links.changer, 1 / (1 + r_changed)),
        "newest": total(links.changer, p_changed / (1 + links.num_later)),
        "oldest": highest(links.changer, p_changed * links.is_first),
    }
    for count in (1, 3, 10):
        features[f"lines_top_{count}"] = total(links.owner, (r < count) * share / count)
    for name, values in weights.items():
        features[f"lines_{name}"] = total(links.owner, _normalised(values**POWER)[links.owned_file] * share)
    return features


def feature_names(content_free: bool, extra: tuple[str, ...] = (), ownership: bool = True) -> tuple[str, ...]:
    """The columns of ``feature_table``: three for each score of ``RANKED`` and of ``extra`` (further scorers).

    ``content_free`` adds ``CONTENT_FREE_COLUMNS``; without ``ownership``, ``TEXT_BOUND`` are the only other features.
    """
    names = []
    for name in (*((*OWNERSHIP, *LEXICAL) if ownership else TEXT_BOUND), *extra):
        names.append(name)
        if name in RANKED or name in extra:
            names += [f"{name}_share", f"{name}_rank"]
    return (*names, *CONTENT_FREE_COLUMNS) if content_free else tuple(names)


def feature_table(scores: Mapping[str, np.ndarray], names: tuple[str, ...], rows: np.ndarray) -> np.ndarray:
    """The features ``names`` of the C commits ``rows``, ``(C, F)`` float32, from scores of all n commits.

    Shares and ranks are over all commits.
    """
    columns = []
    derived: dict[str, np.ndarray] = {}
    for name in names:
        if name in scores:
            column = scores[name]
            if f"{name}_share" in names:
                share, rank = share_and_rank(column)
                derived |= {f"{name}_share": share, f"{name}_rank": rank}
        else:
            column = derived[name]
        columns.append(column[rows])
    return np.column_stack(columns).astype(np.float32)


def shortlist(scores: Mapping[str, np.ndarray]) -> np.ndarray:
    """Rows of the commits with high scores by ownership of lines or by words, ascending."""
    count = len(scores["diff"])
    is_listed = np.zeros(count, dtype=bool)
    for name in ("lines", "lines_flat", "touches"):
        is_listed[np.argsort(-scores[name], kind="stable")[:LISTED_BY_FILES]] = True
    for name in ("diff", "best_file", "message"):
        is_listed[np.argsort(-scores[name], kind="stable")[:LISTED_BY_WORDS]] = True
    return np.flatnonzero(is_listed)


def _normalised(values: np.ndarray) -> np.ndarray:
    """Values divided by their sum; all 0 stay 0."""
    return np.asarray(values / max(float(values.sum()), 1e-9))


class QueryFeatures(NamedTuple):
    """The input of a ranker for one query."""

    num_commits: int  # number n of commits before the query
    files: FileFeatures
    links: FileLinks  # owners and changes of these files
    scores: dict[str, np.ndarray]  # scores of the commits that do not depend on probabilities of files, each ``(n,)``

    def commit_scores(self, probability: np.ndarray) -> dict[str, np.ndarray]:
        """All scores of the commits, each ``(n,)``, from the probability of each file, ``(C,)`` with sum 1."""
        weights = {name: self.files.shares[:, FILE_SCORES.index(name)] for name in WEIGHTS}
        return ownership_features(self.links, probability, weights, self.num_commits) | self.scores


def query_features(history: ChangeHistory, query: ChangeQuery, fixes: KnownFixes | None = None) -> QueryFeatures:
    """The features of a query; ignores commits and fixes after it."""
    before = history.num_before(query.created_at)
    report = report_words(query.title, query.description)
    scores, path_scores = match_changes(history, report, before)
    num_paths = len(path_scores["path"])
    earlier_fixes = None if fixes is None else fixes.votes(report, query.created_at, num_paths)
    for column, name in enumerate(NUMBERS):
        numbers = history.table.numbers[:before, column]
        scores[name] = np.log1p(numbers) if name in COUNTS else numbers
    scores["age_days"] = np.log1p(days_before(history, query, before)).astype(np.float32)
    files = file_features(history, query, report, path_scores, earlier_fixes)
    return QueryFeatures(before, files, file_links(history, files.paths, before), scores)


def file_links(history: ChangeHistory, paths: np.ndarray, before: int) -> FileLinks:
    """Owners and changes of files before commit ``before``."""
    table = history.table
    num_rows = table.num_rows(before)
    num_changes = np.bincount(table.row_path[:num_rows], minlength=len(table.paths))[paths]
    owners = [table.owners(path, count) for path, count in zip(paths.tolist(), num_changes.tolist(), strict=True)]
    nothing = np.empty(0, dtype=np.int64)
    lines = np.concatenate([nothing, *(owned.lines for owned in owners)])
    owned_file = np.repeat(np.arange(len(paths)), [len(owned.commits) for owned in owners])
    total = np.array([owned.total for owned in owners], dtype=np.int64)
    changed_file = np.repeat(np.arange(len(paths)), num_changes)
    # Of files with 2 and 3 changes: 0 1, 0 1 2.
    number = list_positions(np.zeros_like(num_changes), num_changes)
    rows = table.rows_of_path.values[table.rows_of_path.starts[paths][changed_file] + number]
    return FileLinks(
        owned_file=owned_file,
        owner=np.concatenate([nothing, *(owned.commits for owned in owners)]),
        lines=lines,
        share=lines / total[owned_file],
        changed_file=changed_file,
        changer=table.row_commit[rows],
        num_later=num_changes[changed_file] - 1 - number,
        is_first=number == 0,
    )


def match_changes(
    history: ChangeHistory, report: ReportWords, before: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Scores of the first n = ``before`` commits by name, each ``(n,)``, and of their P paths, each ``(P,)``.

    Those of a path are of all its changes together, of its name and of its content; ``size`` is log(1 + number of words
    of the content). Later commits are ignored.
    """
    table = history.table
    num_rows = table.num_rows(before)
    row_commit, row_path = table.row_commit[:num_rows], table.row_path[:num_rows]
    num_paths = table.num_paths(num_rows)

    def per_path(values: np.ndarray) -> np.ndarray:
        return np.bincount(row_path, values, num_paths)

    def paths_of(rows: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        # The paths of the file rows, and the sums of their counts.
        sums = np.bincount(row_path[rows], np.minimum(counts, MAX_COUNT), num_paths)
        paths = np.flatnonzero(sums)
        return paths, sums[paths]

    def queries(name: str, *parts: str) -> dict[str, Mapping[str, float]]:
        # Scores by all words of the report, and by its title or its identifiers of code alone.
        return {name: report.words} | {f"{name}_{part}": getattr(report, part) for part in parts}

    lengths = table.counts_in_rows.lengths[:num_rows]
    total, added = lengths.sum(axis=1), lengths[:, 0]
    message_lengths = table.counts_in_messages.lengths[:, 0]
    in_commits = [np.bincount(row_commit, values, before) for values in (total, added)]
    of_rows = Bm25Field(total, num_rows, queries("change"))
    diffs = Bm25Field(in_commits[0], before, queries("diff", "title", "code"))
    added_lines = Bm25Field(in_commits[1], before, queries("added"))
    messages = Bm25Field(message_lengths[:before], before, queries("message", "title"))
    files = Bm25Field(per_path(total), num_paths, queries("changes", "title", "code"), PATH_K1, PATH_B)
    files_added = Bm25Field(per_path(added), num_paths, queries("changes_added"), PATH_K1, PATH_B)
    file_messages = Bm25Field(per_path(message_lengths[row_commit]), num_paths, queries("messages"), PATH_K1, PATH_B)
    # If diffs are cut, more words may be removed than added.
    sizes = np.maximum(per_path(lengths[:, 0] - lengths[:, 1]), 0)
    num_contents = int(np.count_nonzero(sizes))
    contents = Bm25Field(sizes, num_contents, queries("content", "title", "code"), PATH_K1, PATH_B)
    of_paths = Bm25Field(table.path_words.lengths[:num_paths, 0], num_paths, queries("path", "title"))

    distinct = list(dict.fromkeys([*report.words, *report.code]))
    for word, number in zip(distinct, history.vocabulary([distinct], learn=False)[0].tolist(), strict=True):
        rows, counts = table.counts_in_rows.find(number, num_rows)
        row_counts = counts.sum(axis=1)
        of_rows.add(word, rows, row_counts)
        diffs.add(word, *grouped(row_commit[rows], row_counts))
        files.add(word, *paths_of(rows, row_counts))
        num_present = np.bincount(row_path[rows], counts[:, 0] - counts[:, 1], num_paths)
        paths = np.flatnonzero(num_present > 0)
        contents.add(word, paths, np.minimum(num_present[paths], MAX_CONTENT_COUNT))
        in_added = counts[:, 0] > 0
        rows, counts = rows[in_added], counts[in_added, 0]
        added_lines.add(word, *grouped(row_commit[rows], counts))
        files_added.add(word, *paths_of(rows, counts))
        commits, counts = table.counts_in_messages.find(number, before)
        messages.add(word, commits, counts[:, 0])
        # A message also describes the files that its commit changed.
        first, end = np.searchsorted(row_commit, [commits, commits + 1])
        rows = list_positions(first, end - first)
        file_messages.add(word, *paths_of(rows, np.ones(len(rows))))
    for word, number in zip(distinct, table.path_vocabulary([distinct], learn=False)[0].tolist(), strict=True):
        paths, counts = table.path_words.find(number, num_paths)
        of_paths.add(word, paths, counts[:, 0])

    row_scores = of_rows.scores["change"]
    best_file = np.zeros(before, dtype=np.float32)
    np.maximum.at(best_file, row_commit, row_scores)
    best_change = np.zeros(num_paths, dtype=np.float32)
    np.maximum.at(best_change, row_path, row_scores)
    commit_scores = diffs.scores | added_lines.scores | messages.scores | {"best_file": best_file}
    path_scores = files.scores | files_added.scores | file_messages.scores | of_paths.scores | contents.scores
    return commit_scores, path_scores | {"best_change": best_change, "size": np.log1p(sizes)}
