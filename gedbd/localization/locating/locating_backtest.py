"""One backtest of the ranking of files and commits: learns on the older reports, replays the newer ones, measures."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.significance import compare_means, mean_interval, ratio_intervals
from gedbd.evaluation.thresholds import INCONCLUSIVE, target_status
from gedbd.io.console import stage
from gedbd.localization.change_ranking.change_history import ChangeHistory
from gedbd.localization.change_ranking.change_ranker import ChangeRanker, default_ranker
from gedbd.localization.change_ranking.change_training import history_of
from gedbd.localization.change_ranking.known_fixes import KnownFix, KnownFixes
from gedbd.localization.locating.labelled_reports import (
    LabelledReports,
    Parts,
    _all_tested,
    file_reports,
    fixed_reports,
    labelled_reports,
    sources_of_fixes,
    split,
    with_all_links,
)
from gedbd.localization.locating.ranker_learning import learn_rankers, learning_examples
from gedbd.localization.locating.replay import (
    BM25,
    NUM_FILES,
    Bm25Diffs,
    LearntRanker,
    NumFiles,
    System,
    replay_commits,
    replay_files,
)
from gedbd.localization.locating.tracker_ranker import TOP, FileHitRate, HitRate, TopShare

TOP_K = (1, 5, TOP)
CURVE_K = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
MIN_YEAR_REPORTS = 10  # of the two largest years, for a table by year
MAX_ROWS = 20
SHORT_ID = 12
NAMING = {True: "name a file", False: "name no file"}
AnswerColumns = Callable[[pd.DataFrame], dict[str, object]]  # what is shown of the first answers of some rows
LEARNT = "learnt ranker"
DEFAULT = "default ranker"
# The first commit of each history that the default ranker has learnt from, Apache Tomcat and AspectJ.
DEFAULT_LEARNT_FROM = ("a84fabcbc6fee8a69253ad92a304b4718e96a7c9", "c3300283ecc397d26ad9dfe31d1710ec45db2af0")
LEFT_OUT = "the default ranker was trained on this history and is left out"
TOO_HIGH = "the default ranker was trained on this history, so its figures are too high"
Share = TypeVar("Share", bound=TopShare)
Ranker = TypeVar("Ranker")


def rank_tables(
    corpus: ChangeCorpus, ranks: pd.DataFrame, system: str, columns: AnswerColumns
) -> dict[str, pd.DataFrame]:
    """The tables about the ranks of all systems, or of one.

    Args:
        corpus: Reports and commits.
        ranks: A row for each report and system, with a report at least: ``report``, ``system``, ``rank``, ``first``
            (the first answer, -1 for none), ``right`` (that answer is right), ``margin``, and of files
            ``average_precision`` and ``names_file``.
        system: The one.
        columns: The columns of the examples that describe the first answer.
    """
    assert corpus.reports is not None
    group = corpus.reports.group
    mine = ranks[ranks["system"] == system]
    answered = mine[mine["first"] >= 0]
    tables = {
        "metrics": metrics(ranks, group),
        "differences": differences(ranks, system, group),
        "curve": hit_curve(ranks, group),
        "years": by_year(mine, corpus.reports),
        "right": most_certain(answered[answered["right"]], corpus, columns),
        "wrong": most_certain(answered[~answered["right"]], corpus, columns),
    }
    if "names_file" in ranks:
        tables["named"] = by_naming(ranks, group)
    return tables


def metrics(replayed: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """Hit@k and MRR of each system, each with its 95% interval over groups of duplicate reports.

    Hit@k is the share of reports with a right answer (an inducing commit, or a file that the fix changed) among the
    first k; MRR is the mean of 1 / rank of the first one.

    Args:
        replayed: A row for each report and system: ``report``, ``system`` and ``rank``, infinite where no right answer
            was ranked. With ``average_precision`` there is MAP too, and the means come before the shares.
        group: ``(N,)`` group of each report.
    """
    rows = []
    for system, mine in replayed.groupby("system", sort=False):
        cluster = group[mine["report"]]
        shares: dict[str, float] = {}
        for k, (share, low, high) in zip(TOP_K, _hits(mine, TOP_K, cluster), strict=True):
            shares |= {f"hit@{k}": share, f"hit@{k}_low": low, f"hit@{k}_high": high}
        means: dict[str, float] = {}
        for name, values in _per_report(mine).items():
            low, high = mean_interval(values, cluster)
            means |= {name: float(values.mean()), f"{name}_low": low, f"{name}_high": high}
        both = means | shares if "map" in means else shares | means
        rows.append({"system": system, "reports": len(mine), **both})
    return pd.DataFrame(rows)


def _per_report(mine: pd.DataFrame) -> dict[str, np.ndarray]:
    """What MRR, and MAP where it is measured, are means of, each ``(N,)``."""
    found = {"mrr": 1 / mine["rank"].to_numpy()}
    return found | {"map": mine["average_precision"].to_numpy()} if "average_precision" in mine else found


def differences(replayed: pd.DataFrame, system: str, group: np.ndarray) -> pd.DataFrame:
    """One system less each other on the same reports, with the 95% interval of a paired bootstrap.

    Returns:
        A row for each other system: ``less``, and ``hit@10``, ``mrr`` and, where it is measured, ``map`` as
        differences.
    """
    rows = []
    of_system = {name: mine.sort_values("report") for name, mine in replayed.groupby("system", sort=False)}
    own = _values(of_system.pop(system))
    cluster = group[replayed.loc[replayed["system"] == system, "report"].sort_values()]
    for other, theirs in of_system.items():
        row: dict[str, object] = {"less": other}
        for name, values in _values(theirs).items():
            found = compare_means(own[name], values, cluster)
            what = f"difference of {name}"
            row |= {what: found.difference, f"{what}_low": found.low, f"{what}_high": found.high}
        rows.append(row)
    return pd.DataFrame(rows)


def _values(mine: pd.DataFrame) -> dict[str, np.ndarray]:
    return {f"hit@{TOP}": (mine["rank"].to_numpy() <= TOP).astype(float), **_per_report(mine)}


def hit_curve(replayed: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """Hit@k of each system for many k: ``system``, ``k``, ``hit``, ``hit_low``, ``hit_high``."""
    rows = []
    for system, mine in replayed.groupby("system", sort=False):
        for k, (share, low, high) in zip(CURVE_K, _hits(mine, CURVE_K, group[mine["report"]]), strict=True):
            rows.append({"system": system, "k": k, "hit": share, "hit_low": low, "hit_high": high})
    return pd.DataFrame(rows)


def by_year(mine: pd.DataFrame, reports: Corpus) -> pd.DataFrame:
    """Hit@10 of one system by the year of the report; no rows unless two years have ``MIN_YEAR_REPORTS`` reports."""
    years = reports.reports["created_at"].iloc[mine["report"]].dt.year.to_numpy()
    rows = []
    for year in np.unique(years):
        chosen = mine[years == year]
        share, low, high = _hits(chosen, (TOP,), reports.group[chosen["report"]])[0]
        name = f"hit@{TOP}"
        rows.append({"year": str(year), "reports": len(chosen), name: share, f"{name}_low": low, f"{name}_high": high})
    table = pd.DataFrame(rows)
    return table if (table["reports"] >= MIN_YEAR_REPORTS).sum() >= 2 else table.iloc[:0]


def _hits(mine: pd.DataFrame, top_k: Sequence[int], cluster: np.ndarray) -> list[tuple[float, float, float]]:
    """Share of reports with a right answer among the first k, and the ends of its interval, for each k."""
    hits = (mine["rank"].to_numpy()[:, None] <= np.asarray(top_k)[None, :]).astype(float)
    low, high = ratio_intervals(hits, np.ones_like(hits), cluster)
    return [(float(share), float(low[place]), float(high[place])) for place, share in enumerate(hits.mean(axis=0))]


def by_naming(ranks: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """The metrics apart for reports that name a file and those that do not, see ``names_file``."""
    parts = []
    for naming, words in NAMING.items():
        mine = ranks[ranks["names_file"] == naming]
        if len(mine):
            parts.append(metrics(mine, group))
            parts[-1].insert(0, "reports that", words)
    return pd.concat(parts, ignore_index=True)


def most_certain(mine: pd.DataFrame, corpus: ChangeCorpus, columns: AnswerColumns) -> pd.DataFrame:
    """Of some replayed reports at most ``MAX_ROWS``, those with the largest margin.

    Returns:
        ``margin``, ``report``, ``title of report``, and the columns that are made of the chosen rows.
    """
    assert corpus.reports is not None
    chosen = mine.sort_values("margin", ascending=False, kind="stable").head(MAX_ROWS)
    reports = corpus.reports.reports.iloc[chosen["report"]]
    own = {
        "margin": chosen["margin"].to_numpy(),
        "report": reports["id"].to_numpy(),
        "title of report": reports["title"].to_numpy(),
    }
    return with_urls(pd.DataFrame(own | columns(chosen)), corpus.reports.reports)


def first_commits(corpus: ChangeCorpus, chosen: pd.DataFrame) -> dict[str, object]:
    """``suspect`` (the first commit), its ``message``, and ``rank`` of the first inducing commit."""
    commits = corpus.commits.table.iloc[chosen["first"]]
    return {
        "suspect": commits["id"].str.slice(0, SHORT_ID).to_numpy(),
        "message": commits["title"].to_numpy(),
        "rank": chosen["rank"].to_numpy(),
    }


def first_files(history: ChangeHistory, chosen: pd.DataFrame) -> dict[str, object]:
    """``file`` (the first one), ``fixed file`` (the best ranked one, empty if none was ranked) and its ``rank``."""
    paths = [*history.index.table.paths, ""]  # -1 is the last one
    return {
        "file": [paths[row] for row in chosen["first"]],
        "fixed file": [paths[row] for row in chosen["found"]],
        "rank": chosen["rank"].where(np.isfinite(chosen["rank"])).astype("Int64").to_numpy(),
    }


def commit_counts(labelled: LabelledReports) -> dict[str, int]:
    """How many reports there are, and why others are not tested for commits."""
    return {
        "reports": labelled.num_reports,
        "fixed by a commit": labelled.num_fixed,
        "without an inducing commit before them: not tested": labelled.num_reports - len(labelled),
        "of these, with later inducing commits only": labelled.num_unordered,
        "with an inducing commit before them": len(labelled),
    }


def file_counts(labelled: LabelledReports) -> dict[str, int]:
    """How many reports there are, and why others are not tested for files."""
    return {
        "reports": labelled.num_reports,
        "with a known fix": labelled.num_fixed,
        "whose fix changed no earlier source file: not tested": labelled.num_fixed - len(labelled),
        "whose fix changed an earlier source file": len(labelled),
    }


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
