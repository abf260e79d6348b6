"""One backtest of the ranking of files and commits: learn on the older reports, replay the newer ones, measure."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.splits import evenly_spaced
from gedbd.evaluation.thresholds import INCONCLUSIVE, target_status
from gedbd.io.console import stage
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_ranker import ChangeRanker, default_ranker
from gedbd.localization.change_ranking.change_training import history_of
from gedbd.localization.change_ranking.known_fixes import KnownFix, KnownFixes
from gedbd.localization.locating.backtesting.commit_replay import (
    BM25,
    NUM_FILES,
    Bm25Diffs,
    NumFiles,
    System,
    replay_commits,
)
from gedbd.localization.locating.backtesting.file_replay import file_reports, replay_files
from gedbd.localization.locating.backtesting.labelled_reports import LabelledReports, labelled_reports, with_all_links
from gedbd.localization.locating.backtesting.locating_tables import (
    TOP,
    AnswerColumns,
    FileHitRate,
    HitRate,
    TopShare,
    commit_counts,
    file_counts,
    first_commits,
    first_files,
    metrics,
    rank_tables,
)
from gedbd.localization.locating.backtesting.ranker_learning import (
    LearntRanker,
    fixed_reports,
    learn_rankers,
    learning_examples,
    sources_of_fixes,
)

LEARNT = "learnt ranker"
DEFAULT = "default ranker"
# The first commit of each history that the default ranker has learnt from, Apache Tomcat and AspectJ.
DEFAULT_LEARNT_FROM = ("a84fabcbc6fee8a69253ad92a304b4718e96a7c9", "c3300283ecc397d26ad9dfe31d1710ec45db2af0")
LEFT_OUT = "the default ranker was trained on this history and is left out"
TOO_HIGH = "the default ranker was trained on this history, so its figures are too high"
Share = TypeVar("Share", bound=TopShare)
Ranker = TypeVar("Ranker")


@dataclass(frozen=True)
class Parts:
    """Which of the labelled reports a ranker learns from, and which are replayed.

    Attributes:
        test: Places of the newer half; of all reports if nothing is learnt.
        train: Rows of the reports that were fixed when the first replayed report was created; empty if too few of
            them are labelled.
        num_labelled: How many of ``train`` are labelled.
        num_unknown: Number of labelled reports of the older half that are left out, as their fix came later.
    """

    test: np.ndarray
    train: np.ndarray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    num_labelled: int = 0
    num_unknown: int = 0


@dataclass(frozen=True)
class ReplayedReports:
    """Where the systems rank the right answers, inducing commits or fixed files, of some reports.

    Attributes:
        reports: The reports with right answers.
        parts: Which of them were learnt from and replayed.
        system: The system that is measured: the learnt ranker, or the default one if nothing was learnt.
        ranks: See ``replay_commits`` and ``replay_files``.
    """

    reports: LabelledReports
    parts: Parts
    system: str
    ranks: pd.DataFrame


@dataclass(frozen=True)
class LocatingBacktest:
    """The result of a backtest.

    Attributes:
        hit_rate: The share of reports with an inducing commit, and with a fixed file, among the first ``TOP``.
        ranker: The ranker for use: it has learnt from all fixed reports what these teach; the rest is the default one.
        fixes: The fixed reports that it reads; empty for the default one.
        commits: The replay of the reports with inducing commits.
        files: The replay of the reports with fixed files.
        tables: By name: ``metrics``, ``differences``, ``curve``, ``years``, ``right``, ``wrong`` and ``counts``, and
            the same of files with ``files_`` before the name, and ``files_named``. Where no report was tested, only the
            counts are there.
        warnings: Why something was not learnt although there are enough reports, and whether the default ranker is left
            out.
    """

    hit_rate: HitRate
    ranker: ChangeRanker
    fixes: list[KnownFix]
    commits: ReplayedReports
    files: ReplayedReports
    tables: dict[str, pd.DataFrame]
    warnings: tuple[str, ...] = ()


@stage("learn and replay")
def run_replay(
    corpus: ChangeCorpus, target: float, min_reports: int, max_replayed: int, max_learnt: int, seed: int
) -> LocatingBacktest:
    """Learns on the older half of the labelled reports, replays the newer half, and measures: files, and commits.

    Args:
        corpus: Commits and reports, with inducing commits or known fixes.
        target: Desired share of reports with a right answer among the first ``TOP``.
        min_reports: Number of labelled reports below which nothing is learnt.
        max_replayed: Number of reports that are replayed at most, evenly spaced in time.
        max_learnt: Number of reports that are learnt from at most, the newest.
        seed: Seed of the learning, and of the choice of texts for the control.

    Raises:
        ValueError: If no report can be tested.
    """
    corpus = with_all_links(corpus)
    history = history_of(corpus)
    fixed = fixed_reports(corpus)
    sources = sources_of_fixes(corpus, history)
    of_commits = labelled_reports(corpus)
    of_files = file_reports(corpus, history, sources, fixed.known_at)
    if not len(of_commits) and not len(of_files):
        raise ValueError(_nothing_to_test(of_commits, corpus.name))

    commit_parts = split(corpus, of_commits, min_reports, max_replayed)
    file_parts = split(corpus, of_files, min_reports, max_replayed)
    for_commits = commit_parts.train[-max_learnt:]
    for_files = file_parts.train[-max_learnt:]
    for_use = fixed.before(None)[-max_learnt:]
    if not len(for_commits) and not len(for_files):
        for_use = for_use[:0]
    rows = np.unique(np.concatenate([for_use, for_commits, for_files]))
    examples = learning_examples(corpus, history, rows, sources)
    learnt = learn_rankers(examples, for_use, for_commits, for_files, seed)
    if learnt.commits is None:
        commit_parts = _all_tested(of_commits, max_replayed)
    if learnt.files is None:
        file_parts = _all_tested(of_files, max_replayed)

    known = KnownFixes(history, fixed.fixes)
    is_seen = default_has_learnt_from(history.ids)
    file_rankers = _learnt_and_default(learnt.files, is_seen)
    commit_ranker = None if learnt.commits is None else LearntRanker(learnt.commits, known)
    commit_systems: dict[str, System] = {
        **_learnt_and_default(commit_ranker, is_seen),
        BM25: Bm25Diffs(corpus.commits.table),
        NUM_FILES: NumFiles(corpus.commits.table),
    }
    warnings = list(learnt.warnings)
    if is_seen:
        told = [TOO_HIGH if DEFAULT in systems else LEFT_OUT for systems in (file_rankers, commit_systems)]
        warnings += dict.fromkeys(told)  # each once

    file_ranks = replay_files(corpus, history, of_files, file_parts.test, file_rankers, examples, known, seed)
    files = ReplayedReports(of_files, file_parts, next(iter(file_rankers)), file_ranks)
    commit_ranks = replay_commits(corpus, history, of_commits, commit_parts.test, commit_systems)
    commits = ReplayedReports(of_commits, commit_parts, next(iter(commit_systems)), commit_ranks)
    return LocatingBacktest(
        replace(find_share(HitRate, corpus, commits, target), files=find_share(FileHitRate, corpus, files, target)),
        learnt.ranker,
        fixed.fixes if LEARNT in (files.system, commits.system) else [],
        commits,
        files,
        _all_tables(corpus, history, commits, files),
        tuple(warnings),
    )


def split(corpus: ChangeCorpus, labelled: LabelledReports, min_reports: int, max_replayed: int) -> Parts:
    """What is learnt from, and the newer half of the labelled reports, which is replayed; all, if there are too few.

    Only reports that were fixed when the first replayed report was created are learnt from: those of the older half,
    and others that only teach which files a fix changes. If less than half of ``min_reports`` are labelled, nothing is
    learnt.
    """
    assert corpus.reports is not None
    if len(labelled) < max(min_reports, 1):
        return _all_tested(labelled, max_replayed)
    half = len(labelled) // 2
    start = corpus.reports.reports["created_at"].iloc[int(labelled.rows[half])]
    num_known = int((labelled.made_at[:half] < start).sum())
    if num_known < max(min_reports // 2, 1):
        return _all_tested(labelled, max_replayed)
    train = fixed_reports(corpus).before(start)
    return Parts(evenly_spaced(half, len(labelled), max_replayed), train, num_known, half - num_known)


def _all_tested(labelled: LabelledReports, max_replayed: int) -> Parts:
    return Parts(evenly_spaced(0, len(labelled), max_replayed))


def default_has_learnt_from(ids: Sequence[str]) -> bool:
    """Whether the default ranker has learnt from the history of some commits."""
    return not set(DEFAULT_LEARNT_FROM).isdisjoint(ids)


def _learnt_and_default(learnt: Ranker | None, is_seen: bool) -> dict[str, Ranker | ChangeRanker]:
    """The learnt ranker, if there is one, and the default one, unless it has seen the history and is not needed."""
    if learnt is None:
        return {DEFAULT: default_ranker()}
    return {LEARNT: learnt} if is_seen else {LEARNT: learnt, DEFAULT: default_ranker()}


def find_share(kind: type[Share], corpus: ChangeCorpus, replayed: ReplayedReports, target: float) -> Share:
    """The share of the reports for which the measured system has a right answer among the first ``TOP``."""
    assert corpus.reports is not None
    name = corpus.reports.name
    mine = replayed.ranks[replayed.ranks["system"] == replayed.system]
    if not len(mine):
        return kind(name, target, INCONCLUSIVE)
    measured = metrics(mine, corpus.reports.group).iloc[0]
    low = float(measured[f"hit@{TOP}_low"])
    high = float(measured[f"hit@{TOP}_high"])
    created_at = corpus.reports.reports["created_at"].iloc[mine["report"]]
    return kind(
        name,
        target,
        target_status(target, low, high),
        reports=len(mine),
        hits=int((mine["rank"] <= TOP).sum()),
        share=float(measured[f"hit@{TOP}"]),
        low=low,
        high=high,
        first=f"{created_at.min():%Y-%m-%d}",
        last=f"{created_at.max():%Y-%m-%d}",
        learnt=replayed.system == LEARNT,
    )


def _all_tables(
    corpus: ChangeCorpus, history: ChangeHistory, commits: ReplayedReports, files: ReplayedReports
) -> dict[str, pd.DataFrame]:
    """The tables about commits, and with ``files_`` before their names those about files."""
    of_commits = _tables(corpus, commits, commit_counts(commits.reports), partial(first_commits, corpus))
    of_files = _tables(corpus, files, file_counts(files.reports), partial(first_files, history))
    return of_commits | {f"files_{name}": table for name, table in of_files.items()}


def _tables(
    corpus: ChangeCorpus, replayed: ReplayedReports, counts: dict[str, int], columns: AnswerColumns
) -> dict[str, pd.DataFrame]:
    parts = replayed.parts
    counts |= {
        "learnt from to measure": parts.num_labelled,
        "older, but fixed only after the first tested report: left out": parts.num_unknown,
        "tested": len(parts.test),
    }
    tables = rank_tables(corpus, replayed.ranks, replayed.system, columns) if len(replayed.ranks) else {}
    tables["counts"] = pd.DataFrame({"what": counts.keys(), "number": counts.values()})
    return tables


def _nothing_to_test(labelled: LabelledReports, name: str) -> str:
    return (
        f"{name}: none of the {labelled.num_reports:,} reports has an inducing commit before it"
        f" ({labelled.num_fixed:,} are fixed by a commit), or a fix that changed a source file that existed before it:"
        " check fix_patterns and suffixes"
    )
