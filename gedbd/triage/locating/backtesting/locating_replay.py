"""One backtest of the ranking of files and commits: learn on the older reports, replay the newer ones, measure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.io.console import item_progress, stage
from gedbd.retrieval.changes.change_history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.change_ranker import ChangeRanker, default_ranker
from gedbd.retrieval.changes.change_training import history_of, query_of
from gedbd.retrieval.changes.known_fixes import KnownFix, KnownFixes
from gedbd.retrieval.inverted_index import InvertedIndex
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.text.code_words import CodeWords
from gedbd.triage.backtesting.history_learning import evenly_spaced
from gedbd.triage.backtesting.thresholds import INCONCLUSIVE, target_status
from gedbd.triage.locating.backtesting.file_replay import file_counts, file_reports, file_tables, replay_files
from gedbd.triage.locating.backtesting.labelled_reports import LabelledReports, labelled_reports, with_all_links
from gedbd.triage.locating.backtesting.locating_tables import (
    NEAR,
    TOP,
    FileHitRate,
    HitRate,
    TopShare,
    by_year,
    commit_counts,
    differences,
    examples,
    hit_curve,
    metrics,
)
from gedbd.triage.locating.backtesting.ranker_learning import (
    LearntRanker,
    fixed_reports,
    learn_rankers,
    learning_examples,
    sources_of_fixes,
)

LEARNT = "learnt ranker"
DEFAULT = "default ranker"
BM25 = "BM25 over diffs"
NUM_FILES = "number of changed files"
Share = TypeVar("Share", bound=TopShare)
# The first commit of each history that the default ranker has learnt from, Apache Tomcat and AspectJ.
DEFAULT_LEARNT_FROM = ("a84fabcbc6fee8a69253ad92a304b4718e96a7c9", "c3300283ecc397d26ad9dfe31d1710ec45db2af0")


@dataclass(frozen=True)
class Parts:
    """Which of the labelled reports a ranker learns from, and which are replayed.

    Attributes:
        train: Rows of the reports that were fixed when the first replayed report was created; empty if too few of
            them are labelled.
        test: Places of the newer half; of all reports if nothing is learnt.
        num_labelled: How many of ``train`` are labelled.
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
        hit_rate: The share of reports with an inducing commit, and with a fixed file, among the first ``TOP``.
        ranker: The ranker for use: it has learnt from all fixed reports what these teach; the rest is the default one.
        fixes: The fixed reports that it reads; empty for the default one.
        labelled: The reports with inducing commits.
        parts: Which of them were learnt from and replayed.
        replayed: See ``replay``.
        file_reports: The reports with fixed files.
        file_parts: Which of them were learnt from and replayed.
        files_replayed: See ``replay_files``.
        tables: By name: ``metrics``, ``differences``, ``curve``, ``years``, ``counts``, ``right`` and ``wrong``, and
            the same of files with ``files_`` before the name, and ``files_named``. Where no report was tested, only the
            counts are there.
        warnings: Why something was not learnt although there are enough reports, and whether the default ranker is left
            out.
    """

    hit_rate: HitRate
    ranker: ChangeRanker
    fixes: list[KnownFix]
    labelled: LabelledReports
    parts: Parts
    replayed: pd.DataFrame
    file_reports: LabelledReports
    file_parts: Parts
    files_replayed: pd.DataFrame
    tables: dict[str, pd.DataFrame]
    warnings: tuple[str, ...] = ()

    @property
    def system(self) -> str:
        """The system that ``hit_rate`` is about."""
        return LEARNT if self.hit_rate.learnt else DEFAULT

    @property
    def file_system(self) -> str:
        """The system that ``hit_rate.files`` is about."""
        return LEARNT if self.hit_rate.files is not None and self.hit_rate.files.learnt else DEFAULT


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
    labelled = labelled_reports(corpus)
    of_files = file_reports(corpus, history, sources, fixed.known_at)
    if not len(labelled) and not len(of_files):
        raise ValueError(_nothing_to_test(labelled, corpus.name))
    parts = split(corpus, labelled, min_reports, max_replayed)
    file_parts = split(corpus, of_files, min_reports, max_replayed)
    used = fixed.before(None)[-max_learnt:]
    older = parts.train[-max_learnt:]
    older_of_files = file_parts.train[-max_learnt:]
    if not len(older) and not len(older_of_files):
        used = used[:0]
    rows = np.unique(np.concatenate([used, older, older_of_files]))
    learnt_from = learning_examples(corpus, history, rows, sources)
    learnt = learn_rankers(learnt_from, used, older, older_of_files, seed)
    known = KnownFixes(history, fixed.fixes)
    systems = _baselines(corpus)
    rankers = {DEFAULT: default_ranker()}
    if learnt.commits is not None:
        systems = {LEARNT: LearntRanker(learnt.commits, known), **systems}
    elif len(older):
        parts = _all_tested(labelled, max_replayed)
    if learnt.files is not None:
        rankers = {LEARNT: learnt.files, **rankers}
    elif len(older_of_files):
        file_parts = _all_tested(of_files, max_replayed)
    warnings = learnt.warnings
    if default_has_learnt_from(history.ids):
        warnings = (*warnings, *dict.fromkeys(_seen_history(shown) for shown in (rankers, systems)))
    files_replayed = replay_files(corpus, history, of_files, file_parts.test, rankers, learnt_from, known, seed)
    replayed = replay(corpus, history, labelled, parts.test, systems)
    own = next(iter(systems))
    own_of_files = next(iter(rankers))
    of_commits = find_share(HitRate, corpus, replayed, target, own)
    hit_rate = replace(of_commits, files=find_share(FileHitRate, corpus, files_replayed, target, own_of_files))
    tables = _tables(corpus, replayed, own) if len(replayed) else {}
    if len(files_replayed):
        tables |= file_tables(corpus, history, files_replayed, own_of_files)
    tables["counts"] = _counts_table(commit_counts(labelled), parts)
    tables["files_counts"] = _counts_table(file_counts(of_files), file_parts)
    is_learnt = learnt.commits is not None or learnt.files is not None
    return LocatingBacktest(
        hit_rate,
        learnt.ranker,
        fixed.fixes if is_learnt else [],
        labelled,
        parts,
        replayed,
        of_files,
        file_parts,
        files_replayed,
        tables,
        warnings,
    )


class System(Protocol):
    """Scores the commits before a report."""

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        ...


def _seen_history(systems: dict[str, Any]) -> str:
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
    and others that only teach which files a fix changes. If less than half of ``min_reports`` are labelled, nothing is
    learnt.
    """
    assert corpus.reports is not None
    if not len(labelled):
        return _all_tested(labelled, max_replayed)
    half = len(labelled) // 2
    start = corpus.reports.reports["created_at"].iloc[int(labelled.rows[half])]
    known = np.flatnonzero((labelled.made_at[:half] < start).to_numpy())
    if len(labelled) < min_reports or len(known) < max(min_reports // 2, 1):
        return _all_tested(labelled, max_replayed)
    train = fixed_reports(corpus).before(start)
    return Parts(train, evenly_spaced(half, len(labelled), max_replayed), len(known), half - len(known))


def _all_tested(labelled: LabelledReports, max_replayed: int) -> Parts:
    return Parts(np.empty(0, dtype=np.int64), evenly_spaced(0, len(labelled), max_replayed), 0, 0)


def find_share(kind: type[Share], corpus: ChangeCorpus, replayed: pd.DataFrame, target: float, system: str) -> Share:
    """The share of one system's reports with a right answer among the first ``TOP``."""
    assert corpus.reports is not None
    name = corpus.reports.name
    mine = replayed[replayed["system"] == system]
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
        len(mine),
        int((mine["rank"] <= TOP).sum()),
        float(measured[f"hit@{TOP}"]),
        low,
        high,
        f"{created_at.min():%Y-%m-%d}",
        f"{created_at.max():%Y-%m-%d}",
        system == LEARNT,
    )


def _tables(corpus: ChangeCorpus, replayed: pd.DataFrame, system: str) -> dict[str, pd.DataFrame]:
    """The tables about commits, of all systems or of the one that is used."""
    assert corpus.reports is not None
    mine = replayed[replayed["system"] == system]
    return {
        "metrics": metrics(replayed, corpus.reports.group),
        "differences": differences(replayed, system, corpus.reports.group),
        "curve": hit_curve(replayed, corpus.reports.group),
        "years": by_year(mine, corpus.reports),
        "right": examples(mine, corpus, right=True),
        "wrong": examples(mine, corpus, right=False),
    }


def _counts_table(counts: dict[str, int], parts: Parts) -> pd.DataFrame:
    """How many reports there are, and how many of them are learnt from and tested."""
    counts |= {
        "learnt from to measure": parts.num_labelled,
        "older, but fixed only after the first tested report: left out": parts.num_unknown,
        "tested": len(parts.test),
    }
    return pd.DataFrame({"what": counts.keys(), "number": counts.values()})


def _nothing_to_test(labelled: LabelledReports, name: str) -> str:
    return (
        f"{name}: none of the {labelled.num_reports:,} reports has an inducing commit before it"
        f" ({labelled.num_fixed:,} are fixed by a commit), or a fix that changed a source file that existed before it:"
        " check fix_patterns and suffixes"
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
