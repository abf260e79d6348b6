"""Replays reports whose fixed files or inducing commits are known: where each system ranks these."""

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.io.console import item_progress
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import ChangeRanker
from gedbd.localization.change_ranking.change_training import (
    ChangeExample,
    query_of,
)
from gedbd.localization.change_ranking.file_features import FILE_FEATURES, named_paths
from gedbd.localization.change_ranking.known_fixes import KnownFixes
from gedbd.localization.change_ranking.query_features import query_features
from gedbd.localization.change_ranking.report_words import report_words
from gedbd.localization.locating.labelled_reports import LabelledReports
from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.words import CodeWords

NEAR = 10  # the place whose score the first one is compared with
BM25 = "BM25 over diffs"
NUM_FILES = "number of changed files"
COMMIT_COLUMNS = ("report", "system", "rank", "candidates", "first", "right", "margin")
BM25_CHANGES = "BM25 over changes"
RECENCY = "last changed"
CONTROL = "another report's text"
FILE_COLUMNS = (
    "report",
    "system",
    "rank",
    "average_precision",
    "candidates",
    "first",
    "found",
    "right",
    "margin",
    "names_file",
)


class System(Protocol):
    """Scores the commits before a report."""

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        ...


class LearntRanker:
    """A ranker that reads the fixed reports that were known at the date of a query.

    Args:
        ranker: The ranker.
        fixes: The fixed reports.
    """

    def __init__(self, ranker: ChangeRanker, fixes: KnownFixes) -> None:
        self.ranker = ranker
        self._fixes = fixes

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        return self.ranker.scores(history, query, fixes=self._fixes)


class Bm25Diffs:
    """BM25 of the report's words, and of the parts of its identifiers, over the diffs of commits.

    Args:
        commits: The table of the commits of the history, in its order.
    """

    def __init__(self, commits: pd.DataFrame) -> None:
        self._words = CodeWords()
        self._vocabulary = Vocabulary()
        self._index = InvertedIndex()
        self._index.add(self._vocabulary(self._words(commits["diff"]), learn=True))

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """See ``System``."""
        text = self._vocabulary(self._words([f"{query.title}\n{query.description}"]), learn=False)[0]
        return self._index.scores(text, history.num_before(query.created_at))


class NumFiles:
    """The number of changed files: it reads nothing of report and commit, and shows what their sizes alone tell.

    Args:
        commits: The table of the commits of the history, in its order.
    """

    def __init__(self, commits: pd.DataFrame) -> None:
        self._num_files = commits["num_files"].to_numpy(dtype=np.float64)

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """See ``System``."""
        return self._num_files[: history.num_before(query.created_at)]


def replay_commits(
    corpus: ChangeCorpus,
    history: ChangeHistory,
    labelled: LabelledReports,
    places: np.ndarray,
    systems: Mapping[str, System],
) -> pd.DataFrame:
    """Where each system ranks the inducing commits of some reports.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        labelled: The reports with inducing commits.
        places: Which of them are replayed.
        systems: The systems by name.

    Returns:
        A row for each report and system: ``report`` (its row), ``system``, ``rank`` of the best inducing commit from 1,
        ``candidates`` (number of commits before the report), ``first`` (row of the most suspect commit), ``right``
        (it is an inducing one) and ``margin`` (its score less that of the commit in place ``NEAR``).
    """
    assert corpus.reports is not None
    table = corpus.reports.reports
    rows: list[dict[str, object]] = []
    with item_progress("reports") as progress:
        for place in progress.track(places.tolist(), description="replay"):
            row = int(labelled.rows[place])
            query = query_of(table.iloc[row])
            for name, system in systems.items():
                found = rank_one(system.scores(history, query), labelled.right[place])
                rows.append({"report": row, "system": name, **found})
    return pd.DataFrame(rows, columns=list(COMMIT_COLUMNS))


def rank_one(scores: np.ndarray, inducing: np.ndarray) -> dict[str, object]:
    """The result of one report; of equal scores the newer commit comes first.

    Args:
        scores: ``(n,)`` scores of the commits in chronological order.
        inducing: Rows of the inducing ones.
    """
    num_near = min(NEAR, len(scores))
    # Reversed and sorted stably by falling score: newer commits of one score come first.
    order = len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")
    first = int(order[0])
    return {
        "rank": int(np.flatnonzero(np.isin(order, inducing))[0]) + 1,
        "candidates": len(scores),
        "first": first,
        "right": first in inducing,
        "margin": float(scores[first] - scores[order[num_near - 1]]),
    }


def replay_files(
    corpus: ChangeCorpus,
    history: ChangeHistory,
    reports: LabelledReports,
    places: np.ndarray,
    rankers: Mapping[str, ChangeRanker],
    examples: Mapping[int, ChangeExample],
    fixes: KnownFixes,
    seed: int,
) -> pd.DataFrame:
    """Where each system ranks the fixed files of some reports.

    The rankers and BM25 over all changes of a file rank the candidates that a ranker is given for the report. Recency
    ranks all source files that exist at the report's date. The control is the first ranker, at the date of the report
    but with the text of another one of the replayed reports. Of equal scores the older path comes first.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        reports: The reports with fixed files.
        places: Which of them are replayed.
        rankers: The rankers by name.
        examples: Features of reports that are there already, by their rows.
        fixes: Fixed bugs of the tracker; each report reads those known before it.
        seed: Seed of the choice of the other texts.

    Returns:
        A row for each report and system: ``report`` (its row), ``system``, what ``rank_files`` returns, and
        ``names_file`` (see ``names_file``).
    """
    assert corpus.reports is not None
    table = corpus.reports.reports
    others = other_places(places, seed)
    own = next(iter(rankers.values()))
    rows: list[dict[str, object]] = []
    with item_progress("reports") as progress:
        for place in progress.track(places.tolist(), description="replay of files"):
            row = int(reports.rows[place])
            query = query_of(table.iloc[row])
            known = examples.get(row)
            features = query_features(history, query, fixes) if known is None else known.features
            files = features.files
            ranked = {name: (files.paths, ranker.file_scores(files)) for name, ranker in rankers.items()}
            ranked[BM25_CHANGES] = files.paths, files.features[:, FILE_FEATURES.index("changes")]
            ranked[RECENCY] = last_changes(history, features.num_commits)
            if place in others:
                other = query_of(table.iloc[int(reports.rows[others[place]])])._replace(created_at=query.created_at)
                files = query_features(history, other, fixes).files
                ranked[CONTROL] = files.paths, own.file_scores(files)
            naming = names_file(history, query)
            for name, (paths, scores) in ranked.items():
                found = rank_files(paths, scores, reports.right[place])
                rows.append({"report": row, "system": name, **found, "names_file": naming})
    return pd.DataFrame(rows, columns=list(FILE_COLUMNS))


def other_places(places: np.ndarray, seed: int) -> dict[int, int]:
    """Another one of the places for each, by a seed; nothing for a single place."""
    if len(places) < 2:
        return {}
    mixed = np.random.default_rng(seed).permutation(places)
    return dict(zip(mixed.tolist(), np.roll(mixed, 1).tolist(), strict=True))  # of 4 2 7: 7 4 2


def last_changes(history: ChangeHistory, before: int) -> tuple[np.ndarray, np.ndarray]:
    """The source files that exist after the first commits, and the row of the last commit that changed each."""
    index = history.index
    num_rows = index.num_rows(before)
    exists = existing_sources(history, before)
    last = np.zeros(index.num_paths(num_rows), dtype=np.int64)
    last[index.table.row_path[:num_rows]] = index.table.row_commit[:num_rows]  # of several rows the last one counts
    return exists, last[exists]


def existing_sources(history: ChangeHistory, before: int) -> np.ndarray:
    """The source files that exist after the first commits, ascending paths."""
    exists = history.index.existing(history.index.num_rows(before))
    return np.flatnonzero(exists & history.index.is_source[: len(exists)])


def rank_files(paths: np.ndarray, scores: np.ndarray, fixed: np.ndarray) -> dict[str, object]:
    """The result of one report; of equal scores the older path comes first.

    Args:
        paths: ``(C,)`` the candidates.
        scores: ``(C,)`` their scores.
        fixed: Paths of the fixed files.

    Returns:
        ``rank`` of the best fixed file from 1, infinite if none is a candidate; ``average_precision``, to which fixed
        files that are no candidates add 0; ``candidates`` (their number), ``first`` (path of the first candidate) and
        ``found`` (of the best fixed file), -1 for none; ``right`` (the first one is a fixed file) and ``margin`` (its
        score less that of the one in place ``NEAR``).
    """
    order = np.lexsort((paths, -scores))
    ranked = paths[order]
    ranks = np.flatnonzero(np.isin(ranked, fixed)) + 1
    precision = np.arange(1, len(ranks) + 1) / ranks
    near = order[: min(NEAR, len(order))]
    return {
        "rank": float(ranks[0]) if len(ranks) else np.inf,
        "average_precision": float(precision.sum() / len(fixed)),
        "candidates": len(paths),
        "first": int(ranked[0]) if len(ranked) else -1,
        "found": int(ranked[ranks[0] - 1]) if len(ranks) else -1,
        "right": len(ranks) > 0 and int(ranks[0]) == 1,
        "margin": float(scores[near[0]] - scores[near[-1]]) if len(near) else 0.0,
    }


def names_file(history: ChangeHistory, query: ChangeQuery) -> bool:
    """Whether a report names a source file that exists at its date.

    An identifier of code (not a word that only begins with a capital), a qualified name or a frame of a stack trace
    names the files of this name.
    """
    before = history.num_before(query.created_at)
    report = report_words(query.title, query.description)
    report = report._replace(names=tuple(name for name in report.names if name.weight == 1))
    exists = existing_sources(history, before)
    found = named_paths(history.index, report, history.index.num_paths(history.index.num_rows(before)))
    return any(bool((scores[exists] > 0).any()) for scores in found.values())
