"""One backtest of the ranking of commits: learn on the older reports, replay the newer ones, measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.io.console import item_progress, stage
from gedbd.retrieval.changes.change_history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.change_ranker import ChangeRanker, default_ranker
from gedbd.retrieval.changes.change_training import (
    ChangeExample,
    ChangeTrainingOptions,
    examples_of,
    fit_examples,
    fixes_of,
    training_set,
)
from gedbd.retrieval.changes.known_fixes import KnownFix, KnownFixes
from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.code_words import CodeWords
from gedbd.triage.backtesting.history_learning import evenly_spaced
from gedbd.triage.backtesting.thresholds import target_status
from gedbd.triage.locating.backtesting.labelled_reports import LabelledReports, labelled_reports
from gedbd.triage.locating.backtesting.locating_tables import (
    TOP,
    HitRate,
    by_year,
    counts_table,
    differences,
    examples,
    hit_curve,
    metrics,
)


class FixedReports(NamedTuple):
    """The fixed reports of a tracker.

    Attributes:
        known_at: When the fix of each was known, by the row of the report.
        fixes: What a ranker reads of them, in the order of ``known_at``.
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
        measured: The ranker that has learnt from the older reports only.
        ranker: The ranker for use, which has learnt from all of them.
        fixes: The fixed reports that it reads.
    """

    measured: LearntRanker
    ranker: ChangeRanker
    fixes: list[KnownFix]


def learn_rankers(
    corpus: ChangeCorpus, history: ChangeHistory, older: np.ndarray, max_learnt: int, seed: int
) -> LearntRankers:
    """Learns from the older fixed reports, to measure, and from all of them, for use.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        older: Rows of the older fixed reports.
        max_learnt: Number of reports that are learnt from at most, the newest.
        seed: Seed of the learning.

    Raises:
        ValueError: If the reports teach nothing.
    """
    fixed = fixed_reports(corpus)
    rows = fixed.before(None)[-max_learnt:]
    older = older[-max_learnt:]
    options = ChangeTrainingOptions(seed=seed)
    of_rows = learning_examples(corpus, history, rows)
    # The features of a report are of its own date, so that both rankers learn from the same ones.
    shared = [of_rows[row] for row in older.tolist() if row in of_rows]
    if len(shared) < len(older):
        shared = list(learning_examples(corpus, history, older).values())
    measured = fit_examples(shared, options)
    ranker = fit_examples(list(of_rows.values()), options)
    return LearntRankers(LearntRanker(measured, KnownFixes(history, fixed.fixes)), ranker, fixed.fixes)


def fixed_reports(corpus: ChangeCorpus) -> FixedReports:
    """The fixed reports of a corpus, see ``fixes_of``."""
    fixes = fixes_of(corpus)
    known_at = pd.Series({row: fix.known_at for row, fix in fixes.items()}).sort_values(kind="stable")
    return FixedReports(known_at, [fixes[row] for row in map(int, known_at.index)])


def learning_examples(corpus: ChangeCorpus, history: ChangeHistory, rows: np.ndarray) -> dict[int, ChangeExample]:
    """The features of some fixed reports by their rows, and which files and commits are the right ones.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        rows: Rows of the reports. One without an inducing commit before it still teaches which files are meant.
    """
    chosen = training_set(corpus, rows.tolist(), history)
    return dict(zip(chosen.rows, examples_of(chosen), strict=True))


NEAR = 10  # the place whose score the first one is compared with
LEARNT = "learnt ranker"
DEFAULT = "default ranker"
BM25 = "BM25 over diffs"
NUM_FILES = "number of changed files"
# The first commit of each history that the default ranker has learnt from, Apache Tomcat and AspectJ.
DEFAULT_LEARNT_FROM = ("a84fabcbc6fee8a69253ad92a304b4718e96a7c9", "c3300283ecc397d26ad9dfe31d1710ec45db2af0")


@dataclass(frozen=True)
class Parts:
    """Which of the labelled reports a ranker learns from, and which are replayed.

    Attributes:
        train: Rows of the reports that were fixed when the first replayed report was created; empty if too few of
            them have an inducing commit.
        test: Places of the newer half; of all reports if nothing is learnt.
        num_labelled: How many of ``train`` have an inducing commit before them.
        num_unknown: Number of labelled reports of the older half that are left out, as their fix came later.
    """

    train: np.ndarray
    test: np.ndarray
    num_labelled: int
    num_unknown: int


@dataclass(frozen=True)
class LocatingBacktest:
    """The result of a backtest.

    Attributes:
        hit_rate: The share of reports with an inducing commit among the first ``TOP``.
        ranker: The ranker for use: it has learnt from all fixed reports, or is the default one.
        fixes: The fixed reports that it reads; empty for the default one.
        labelled: The reports with inducing commits.
        parts: What was learnt from and what was replayed.
        replayed: See ``replay``.
        tables: By name: ``metrics``, ``differences``, ``curve``, ``years``, ``counts``, ``right`` and ``wrong``.
        warnings: Why nothing was learnt although there are enough reports, and whether the default ranker is left out.
    """

    hit_rate: HitRate
    ranker: ChangeRanker
    fixes: list[KnownFix]
    labelled: LabelledReports
    parts: Parts
    replayed: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    warnings: tuple[str, ...] = ()

    @property
    def system(self) -> str:
        """The system that ``hit_rate`` is about."""
        return LEARNT if self.hit_rate.learnt else DEFAULT


@stage("learn and replay")
def run_replay(
    corpus: ChangeCorpus, target: float, min_reports: int, max_replayed: int, max_learnt: int, seed: int
) -> LocatingBacktest:
    """Learns on the older half of the labelled reports, replays the newer half, and measures.

    Args:
        corpus: Commits and reports, with inducing commits.
        target: Desired share of reports with an inducing commit among the first ``TOP``.
        min_reports: Number of labelled reports below which nothing is learnt.
        max_replayed: Number of reports that are replayed at most, evenly spaced in time.
        max_learnt: Number of reports that are learnt from at most, the newest.
        seed: Seed of the learning.

    Raises:
        ValueError: If no report can be tested.
    """
    labelled = labelled_reports(corpus)
    if not len(labelled):
        raise ValueError(_nothing_to_test(corpus, labelled))
    history = ChangeHistory()
    history.add(corpus.commits.table, corpus.files.table)
    parts = split(corpus, labelled, min_reports, max_replayed)
    systems = _baselines(corpus)
    learnt, warnings = _learn(corpus, history, parts, max_learnt, seed)
    if learnt is not None:
        systems = {LEARNT: learnt.measured, **systems}
    elif warnings:
        parts = _all_tested(labelled, max_replayed)
    if default_has_learnt_from(history.ids):
        warnings = (*warnings, _seen_history(systems))
    replayed = replay(corpus, history, labelled, parts.test, systems)
    own = next(iter(systems))
    return LocatingBacktest(
        find_hit_rate(corpus, replayed, target, own, learnt is not None),
        default_ranker() if learnt is None else learnt.ranker,
        [] if learnt is None else learnt.fixes,
        labelled,
        parts,
        replayed,
        _tables(corpus, labelled, parts, replayed, own),
        warnings,
    )


def _learn(
    corpus: ChangeCorpus, history: ChangeHistory, parts: Parts, max_learnt: int, seed: int
) -> tuple[LearntRankers | None, tuple[str, ...]]:
    """What the reports teach; None if they are too few, or for the reason that is returned too."""
    if not len(parts.train):
        return None, ()
    try:
        return learn_rankers(corpus, history, parts.train, max_learnt, seed), ()
    except ValueError as error:
        return None, (f"nothing was learnt: {error}",)


class System(Protocol):
    """Scores the commits before a report."""

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        ...


def _seen_history(systems: dict[str, System]) -> str:
    """Leaves the default ranker out if there is a learnt one, as it has learnt from this history; says so."""
    if LEARNT not in systems:
        return "the default ranker was trained on this history, so its figures are too high"
    systems.pop(DEFAULT)
    return "the default ranker was trained on this history and is left out"


def _baselines(corpus: ChangeCorpus) -> dict[str, System]:
    """The systems that learn nothing from the tracker."""
    commits = corpus.commits.table
    return {DEFAULT: default_ranker(), BM25: Bm25Diffs(commits), NUM_FILES: NumFiles(commits)}


def split(corpus: ChangeCorpus, labelled: LabelledReports, min_reports: int, max_replayed: int) -> Parts:
    """What is learnt from, and the newer half of the labelled reports, which is replayed; all, if there are too few.

    Only reports that were fixed when the first replayed report was created are learnt from: those of the older half,
    and others that only teach which files a fix changes. If less than half of ``min_reports`` have an inducing commit,
    nothing is learnt.
    """
    assert corpus.reports is not None
    half = len(labelled) // 2
    start = corpus.reports.reports["created_at"].iloc[int(labelled.rows[half])]
    known = np.flatnonzero((labelled.made_at[:half] < start).to_numpy())
    if len(labelled) < min_reports or len(known) < max(min_reports // 2, 1):
        return _all_tested(labelled, max_replayed)
    train = fixed_reports(corpus).before(start)
    return Parts(train, evenly_spaced(half, len(labelled), max_replayed), len(known), half - len(known))


def _all_tested(labelled: LabelledReports, max_replayed: int) -> Parts:
    return Parts(np.empty(0, dtype=np.int64), evenly_spaced(0, len(labelled), max_replayed), 0, 0)


def find_hit_rate(corpus: ChangeCorpus, replayed: pd.DataFrame, target: float, system: str, learnt: bool) -> HitRate:
    """The share of one system's reports with an inducing commit among the first ``TOP``."""
    assert corpus.reports is not None
    mine = replayed[replayed["system"] == system]
    measured = metrics(mine, corpus.reports.group).iloc[0]
    low, high = float(measured[f"hit@{TOP}_low"]), float(measured[f"hit@{TOP}_high"])
    created_at = corpus.reports.reports["created_at"].iloc[mine["report"]]
    return HitRate(
        corpus.reports.name,
        target,
        target_status(target, low, high),
        len(mine),
        int((mine["rank"] <= TOP).sum()),
        float(measured[f"hit@{TOP}"]),
        low,
        high,
        f"{created_at.min():%Y-%m-%d}",
        f"{created_at.max():%Y-%m-%d}",
        learnt,
    )


def _tables(
    corpus: ChangeCorpus, labelled: LabelledReports, parts: Parts, replayed: pd.DataFrame, system: str
) -> dict[str, pd.DataFrame]:
    """The tables of the page, about all systems or about the one that is used."""
    assert corpus.reports is not None
    mine = replayed[replayed["system"] == system]
    return {
        "metrics": metrics(replayed, corpus.reports.group),
        "differences": differences(replayed, system, corpus.reports.group),
        "curve": hit_curve(replayed, corpus.reports.group),
        "years": by_year(mine, corpus.reports),
        "counts": counts_table(labelled, parts.num_labelled, parts.num_unknown, len(parts.test)),
        "right": examples(mine, corpus, right=True),
        "wrong": examples(mine, corpus, right=False),
    }


def _nothing_to_test(corpus: ChangeCorpus, labelled: LabelledReports) -> str:
    return (
        f"{corpus.name}: none of the {labelled.num_reports:,} reports has an inducing commit before it"
        f" ({labelled.num_fixed:,} are fixed by a commit): check fix_patterns and suffixes"
    )


def replay(
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
    rows: list[dict[str, object]] = []
    with item_progress("reports") as progress:
        for place in progress.track(places.tolist(), description="replay"):
            query = labelled.query(corpus, place)
            for name, system in systems.items():
                found = rank_one(system.scores(history, query), labelled.inducing[place])
                rows.append({"report": int(labelled.rows[place]), "system": name, **found})
    columns = ("report", "system", "rank", "candidates", "first", "right", "margin")
    return pd.DataFrame(rows, columns=list(columns))


def rank_one(scores: np.ndarray, inducing: np.ndarray) -> dict[str, object]:
    """The result of one report; of equal scores the newer commit comes first.

    Args:
        scores: ``(n,)`` scores of the commits in chronological order.
        inducing: Rows of the inducing ones.
    """
    num_near = min(NEAR, len(scores))
    # Reversed and sorted stably by falling score: newer commits of one score come first.
    order = len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")
    rank_of = np.empty(len(scores), dtype=np.int64)
    rank_of[order] = np.arange(1, len(scores) + 1)
    first = int(order[0])
    return {
        "rank": int(rank_of[inducing].min()),
        "candidates": len(scores),
        "first": first,
        "right": first in inducing,
        "margin": float(scores[first] - scores[order[num_near - 1]]),
    }


def default_has_learnt_from(ids: Sequence[str]) -> bool:
    """Whether the default ranker has learnt from the history of some commits."""
    return not set(DEFAULT_LEARNT_FROM).isdisjoint(ids)


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
