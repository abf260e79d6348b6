"""Learns rankers of changes from the fixed reports of a tracker: those that are measured, and the one for use."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import ChangeRanker, default_ranker
from gedbd.localization.change_ranking.change_training import (
    ChangeExample,
    ChangeTrainingOptions,
    examples_of,
    existing_paths,
    fit_examples,
    fit_files,
    fixed_sources,
    fixes_of,
    known_fixes,
    query_of,
    training_set,
)
from gedbd.localization.change_ranking.known_fixes import KnownFix, KnownFixes
from gedbd.localization.change_ranking.query_features import query_features


class FixedReports(NamedTuple):
    """The fixed reports of a tracker.

    Attributes:
        known_at: When the fix of each was known, by the row of the report.
        fixes: What a ranker reads of those with fixing commits, in the order of ``known_at``.
    """

    known_at: pd.Series
    fixes: list[KnownFix]

    def before(self, moment: pd.Timestamp | None) -> np.ndarray:
        """Rows of the reports that were fixed before a moment; of all for None. Ascending."""
        chosen = self.known_at if moment is None else self.known_at[self.known_at < moment]
        return np.sort(chosen.index.to_numpy(dtype=np.int64))


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


class LearntRankers(NamedTuple):
    """What was learnt from the fixed reports of a tracker.

    Attributes:
        commits: The ranker that commits are measured with: it has learnt from older reports only; None if they teach
            nothing about commits.
        files: Likewise the ranker that files are measured with. Its model of commits is the default one.
        ranker: The ranker for use, which has learnt from all fixed reports; what they do not teach is the default's.
        warnings: Why something was not learnt although there are enough reports.
    """

    commits: ChangeRanker | None
    files: ChangeRanker | None
    ranker: ChangeRanker
    warnings: tuple[str, ...] = ()


def learn_rankers(
    examples: Mapping[int, ChangeExample],
    rows: np.ndarray,
    for_commits: np.ndarray,
    for_files: np.ndarray,
    seed: int,
) -> LearntRankers:
    """Learns from the older fixed reports, to measure, and from all of them, for use.

    The features of a report are of its own date, so that all rankers learn from the same ones.

    Args:
        examples: What each report teaches, by its row.
        rows: The reports that the ranker for use learns from.
        for_commits: The older ones that the ranker learns from that commits are measured with; empty for none.
        for_files: Likewise for files.
        seed: Seed of the learning.
    """
    options = ChangeTrainingOptions(seed=seed)
    everything = [examples[row] for row in rows.tolist()]
    commits = files = None
    ranker = default_ranker()
    warnings = []
    if len(for_commits):
        try:
            commits = fit_examples([examples[row] for row in for_commits.tolist()], options)
            ranker = fit_examples(everything, options)
        except ValueError as error:
            warnings.append(f"nothing was learnt about commits: {error}")
    if len(for_files):
        try:
            files = _with_files([examples[row] for row in for_files.tolist()], options)
            ranker = ranker if commits is not None else _with_files(everything, options)
        except ValueError as error:
            warnings.append(f"nothing was learnt about files: {error}")
    return LearntRankers(commits, files, ranker, tuple(warnings))


def _with_files(examples: list[ChangeExample], options: ChangeTrainingOptions) -> ChangeRanker:
    """The default ranker with a learnt model of files; what it reads of the files is what both models read."""
    default = default_ranker()
    assert (options.kind, options.content_free) == (default.kind, default.content_free)
    files = fit_files(examples, options, options.num_seeds)
    return ChangeRanker(files, default.commits, default.kind, default.content_free, default.extra, default.ownership)


def fixed_reports(corpus: ChangeCorpus) -> FixedReports:
    """The fixed reports of a corpus, see ``fixes_of``; one of ``fixed_paths`` is known at its own date."""
    assert corpus.reports is not None
    fixes = fixes_of(corpus)
    created_at = corpus.reports.reports["created_at"]
    moments = {row: created_at.iloc[row] for row in corpus.fixed_paths or {}}
    moments |= {row: fix.known_at for row, fix in fixes.items()}
    known_at = pd.Series(moments, dtype="datetime64[us, UTC]").sort_values(kind="stable")
    return FixedReports(known_at, [fixes[row] for row in map(int, known_at.index) if row in fixes])


def sources_of_fixes(corpus: ChangeCorpus, history: ChangeHistory) -> dict[int, np.ndarray]:
    """The source files that the fix of each report changed, tests left out, by the row of the report.

    Args:
        corpus: Reports, commits and fixing links.
        history: The commits of the corpus, in its order.

    Returns:
        ``(F,)`` ascending paths of the history, those among them that do not exist at the date of the report.
    """
    assert corpus.fixing is not None
    index = history.index
    number = {path: place for place, path in enumerate(index.table.paths)}
    found = {}
    for row, paths in (corpus.fixed_paths or {}).items():
        named = np.array(sorted(number[path] for path in paths if path in number), dtype=np.int64)
        found[row] = named[index.is_source[named] & ~index.is_test[named]]
    by_report = corpus.fixing.table.groupby("query")["document"]
    for row in corpus.fixing.table["query"].unique().tolist():
        found[row] = fixed_sources(history, by_report.get_group(row).to_numpy(dtype=np.int64))
    return found


def learning_examples(
    corpus: ChangeCorpus, history: ChangeHistory, rows: np.ndarray, sources: Mapping[int, np.ndarray]
) -> dict[int, ChangeExample]:
    """The features of some fixed reports by their rows, and which files and commits are the right ones.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        rows: Rows of the reports. One without an inducing commit before it still teaches which files are meant.
        sources: See ``sources_of_fixes``.
    """
    chosen = training_set(corpus, rows.tolist(), history)
    found = dict(zip(chosen.rows, examples_of(chosen), strict=True))
    alone = [row for row in rows.tolist() if row not in found]
    if alone:
        assert corpus.reports is not None
        table = corpus.reports.reports
        fixes = known_fixes(corpus, history)
        nothing = np.empty(0, dtype=np.int64)
        for row in alone:
            features = query_features(history, query_of(table.iloc[row]), fixes)
            fixed = existing_paths(history, sources[row], features.num_commits)
            is_fixed = np.isin(features.files.paths, fixed)
            found[row] = ChangeExample(features, is_fixed, inducing=nothing, is_new=False, fixed=fixed)
    return found
