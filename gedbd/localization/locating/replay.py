"""Ranks of the known fixed files or inducing commits of reports, by several systems."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.io.console import item_progress
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import ChangeRanker
from gedbd.localization.change_ranking.change_training import ChangeExample
from gedbd.localization.change_ranking.file_features import FILE_FEATURES, named_paths
from gedbd.localization.change_ranking.known_fixes import KnownFixes
from gedbd.localization.change_ranking.query_features import query_features
from gedbd.localization.change_ranking.report_words import report_words
from gedbd.localization.locating.labelled_reports import LabelledReports
from gedbd.retrieval.scorers.bm25 import CodeBm25
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

NEAR = 10  # rank whose score is compared with that of the first
BM25 = "BM25 over diffs"
NUM_FILES = "number of changed files"
BM25_CHANGES = "BM25 over changes"
RECENCY = "last changed"
CONTROL = "another report's text"
COLUMNS = (
    *("report", "system", "rank", "average_precision", "candidates", "first", "found", "right", "margin"),
    "names_file",
)
Candidates = tuple[np.ndarray, np.ndarray]
"""Rows of C candidates and their scores, ``(C,)`` each."""
CommitScores = Callable[[int], np.ndarray]
"""Scores of the n commits before a report, by the row of the report, ``(n,)``; higher is more suspect."""


def commit_baselines(
    corpus: ChangeCorpus, history: ChangeHistory, queries: Sequence[ChangeQuery]
) -> dict[str, CommitScores]:
    """BM25 of the report over the diffs of commits, and the number of changed files, which ignores the report."""
    assert corpus.reports is not None
    commits = corpus.commits.table
    bm25 = CodeBm25("diff")
    bm25.fit(ScorerInputs(commits, corpus.reports.reports, corpus.inducing["commit"].table))
    num_files = commits["num_files"].to_numpy(dtype=np.float64)
    before = [history.num_before(query.created_at) for query in queries]
    return {
        BM25: lambda row: bm25.earlier_scores(row, before[row]),
        NUM_FILES: lambda row: num_files[: before[row]],
    }


def replay_commits(reports: LabelledReports, tested: np.ndarray, systems: Mapping[str, CommitScores]) -> pd.DataFrame:
    """Ranks of the inducing commits of reports, by position, in each system; newer commits first among ties.

    Returns:
        See ``_replay``, without ``average_precision``, ``found`` and ``names_file``.
    """

    def candidates(row: int) -> dict[str, Candidates]:
        scores = {name: score(row) for name, score in systems.items()}
        return {name: (np.arange(len(values)), values) for name, values in scores.items()}

    table = _replay(reports, tested, candidates, newest_first=True)
    return table.drop(columns=["average_precision", "found", "names_file"]).astype({"rank": np.int64})


def replay_files(
    history: ChangeHistory,
    queries: Sequence[ChangeQuery],
    reports: LabelledReports,
    tested: np.ndarray,
    rankers: Mapping[str, ChangeRanker],
    examples: Mapping[int, ChangeExample],
    fixes: KnownFixes,
    seed: int,
) -> pd.DataFrame:
    """Ranks of the fixed files of reports by each system; older paths first among ties.

    The rankers and BM25 over all changes of a file rank the candidates of ``file_features``. Recency ranks all source
    files that exist at the report's date. The control is the first ranker, at the date of the report but with the text
    of another replayed report.

    Args:
        history: The commits of the corpus, in its order.
        queries: All reports of the corpus.
        reports: The reports with fixed files.
        tested: Positions of the replayed reports.
        rankers: The rankers by name.
        examples: Features that are already computed, by the row of the report.
        fixes: Fixed bugs of the tracker; each report reads those known before it.
        seed: Seed of the choice of the control's texts.

    Returns:
        See ``_replay``; ``names_file`` is the result of ``names_file``.
    """
    rows = reports.rows[tested]
    other_rows = shuffled_rows(rows, seed)
    first_ranker = next(iter(rankers.values()))

    def candidates(row: int) -> dict[str, Candidates]:
        query = queries[row]
        example = examples.get(row)
        features = query_features(history, query, fixes) if example is None else example.features
        files = features.files
        ranked = {name: (files.paths, ranker.file_scores(files)) for name, ranker in rankers.items()}
        ranked[BM25_CHANGES] = files.paths, files.features[:, FILE_FEATURES.index("changes")]
        ranked[RECENCY] = last_changes(history, features.num_commits)
        if row in other_rows:
            control = queries[other_rows[row]]._replace(created_at=query.created_at)
            files = query_features(history, control, fixes).files
            ranked[CONTROL] = files.paths, first_ranker.file_scores(files)
        return ranked

    table = _replay(reports, tested, candidates)
    named = {row: names_file(history, queries[row]) for row in rows.tolist()}
    return table.assign(names_file=table["report"].map(named))


def _replay(
    reports: LabelledReports,
    tested: np.ndarray,
    candidates: Callable[[int], Mapping[str, Candidates]],
    newest_first: bool = False,
) -> pd.DataFrame:
    """Ranks the candidates of reports by each system.

    Args:
        reports: Reports with relevant documents.
        tested: Positions of the replayed reports.
        candidates: Returns the candidates and scores of each system for the row of a report.
        newest_first: Whether higher rows come first among ties; otherwise lower rows do.

    Returns:
        A row for each report and system: ``report`` (its row), ``system``, what ``rank_candidates`` returns, and an
        empty column ``names_file``.
    """
    rows: list[dict[str, object]] = []
    with item_progress("reports") as progress:
        for number in progress.track(tested.tolist(), description="replay"):
            report = int(reports.rows[number])
            for system, (documents, scores) in candidates(report).items():
                ranked = rank_candidates(documents, scores, reports.relevant[number], newest_first)
                rows.append({"report": report, "system": system, **ranked})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def rank_candidates(
    documents: np.ndarray, scores: np.ndarray, relevant: np.ndarray, newest_first: bool = False
) -> dict[str, object]:
    """The result of one report.

    Unlike ``gedbd.retrieval.ranking_metrics.rank``, scores are compared in double precision, and relevant documents
    that a system does not rank lower the average precision.

    Args:
        documents: ``(C,)`` rows of the candidates.
        scores: ``(C,)`` scores of the candidates.
        relevant: Rows of the relevant documents.
        newest_first: See ``_replay``.

    Returns:
        ``rank`` of the best relevant document from 1, infinite if none is a candidate; ``average_precision``;
        ``candidates`` (number of candidates); ``first`` (the first candidate) and ``found`` (the best relevant
        document), or -1; ``right`` (the first candidate is relevant); ``margin`` (score of the first less that of rank
        ``NEAR``).
    """
    order = np.lexsort((-documents if newest_first else documents, -scores))
    ranked = documents[order]
    ranks = np.flatnonzero(np.isin(ranked, relevant)) + 1
    precision = np.arange(1, len(ranks) + 1) / ranks
    near = order[: min(NEAR, len(order))]
    return {
        "rank": float(ranks[0]) if len(ranks) else np.inf,
        "average_precision": float(precision.sum() / len(relevant)),
        "candidates": len(documents),
        "first": int(ranked[0]) if len(ranked) else -1,
        "found": int(ranked[ranks[0] - 1]) if len(ranks) else -1,
        "right": len(ranks) > 0 and int(ranks[0]) == 1,
        "margin": float(scores[near[0]] - scores[near[-1]]) if len(near) else 0.0,
    }


def shuffled_rows(rows: np.ndarray, seed: int) -> dict[int, int]:
    """Maps each row to another random row; empty for a single row."""
    if len(rows) < 2:
        return {}
    shuffled = np.random.default_rng(seed).permutation(rows)
    return dict(zip(shuffled.tolist(), np.roll(shuffled, 1).tolist(), strict=True))  # 4 2 7 to 7 4 2


def last_changes(history: ChangeHistory, before: int) -> Candidates:
    """The source files that exist after the first commits, scored by the row of their last commit."""
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


def names_file(history: ChangeHistory, query: ChangeQuery) -> bool:
    """Whether a report names a source file that exists at its date.

    Names are identifiers of code (not capitalised words), qualified names, and frames of stack traces.
    """
    before = history.num_before(query.created_at)
    report = report_words(query.title, query.description)
    report = report._replace(names=tuple(name for name in report.names if name.weight == 1))
    exists = existing_sources(history, before)
    named = named_paths(history.index, report, history.index.num_paths(history.index.num_rows(before)))
    return any(bool((scores[exists] > 0).any()) for scores in named.values())
