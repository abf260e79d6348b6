"""Rankers that are learned from the fixed reports of a tracker: those that are measured, and the one for use."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_ranker import ChangeRanker, default_ranker
from gedbd.localization.change_ranking.change_training import (
    ChangeExample,
    ChangeTrainingOptions,
    examples_of,
    existing_paths,
    fit_examples,
    fit_files,
    known_fixes,
    query_of,
    training_set,
)
from gedbd.localization.change_ranking.query_features import query_features


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
    """The default ranker with a learned ranker of files."""
    return ChangeRanker(fit_files(examples, options), default_ranker().commits)


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
