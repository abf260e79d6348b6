"""One backtest of the ranking of files and commits: learns on the older reports, replays the newer ones, measures."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.significance import compare_means, interval_columns, share_columns
from gedbd.evaluation.thresholds import INCONCLUSIVE, target_status
from gedbd.io.console import stage
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import ChangeRanker, default_ranker
from gedbd.localization.change_ranking.change_training import (
    NOTHING,
    ChangeExample,
    ChangeTrainingOptions,
    Replay,
    existing_paths,
    fit_examples,
    fit_files,
    query_of,
)
from gedbd.localization.change_ranking.known_fixes import KnownFix, KnownFixes
from gedbd.localization.locating.labelled_reports import (
    LabelledReports,
    ReplaySplit,
    all_tested,
    file_reports,
    fixed_reports,
    labelled_reports,
    sources_of_fixes,
    split_reports,
    with_all_links,
)
from gedbd.localization.locating.replay import CommitScores, commit_baselines, replay_commits, replay_files
from gedbd.localization.locating.tracker_ranker import TOP, FileHitRate, HitRate, TopShare

TOP_K = (1, 5, TOP)
CURVE_K = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
COMPARED = (f"hit@{TOP}", "mrr", "map")
MIN_YEAR_REPORTS = 10  # of the two largest years, for a table by year
MAX_ROWS = 20
SHORT_ID = 12
NAMING = {True: "name a file", False: "name no file"}
AnswerColumns = Callable[[pd.DataFrame], dict[str, object]]  # what is shown of the first answers of some rows
LEARNED = "learnt ranker"
DEFAULT = "default ranker"
# The first commit of each history that the default ranker was trained on, Apache Tomcat and AspectJ.
DEFAULT_LEARNED_FROM = ("a84fabcbc6fee8a69253ad92a304b4718e96a7c9", "c3300283ecc397d26ad9dfe31d1710ec45db2af0")
LEFT_OUT = "the default ranker was trained on this history and is left out"
TOO_HIGH = "the default ranker was trained on this history, so its figures are too high"
Share = TypeVar("Share", bound=TopShare)


@dataclass(frozen=True)
class ReplayedReports:
    """Where the systems rank the relevant documents, inducing commits or fixed files, of some reports.

    Attributes:
        reports: The reports with relevant documents.
        split: Which of them were learned from and replayed.
        system: The system that is measured: the learned ranker, or the default one if nothing was learned.
        ranks: See ``replay_commits`` and ``replay_files``.
    """

    reports: LabelledReports
    split: ReplaySplit
    system: str
    ranks: pd.DataFrame


@dataclass(frozen=True)
class LocatingBacktest:
    """The result of a backtest.

    Attributes:
        hit_rate: The share of reports with an inducing commit, and with a fixed file, among the first ``TOP``.
        ranker: The ranker for use: trained on all fixed reports as far as they suffice; the rest is the default one.
        fixes: The fixed reports that it reads; empty for the default one.
        commits: The replay of the reports with inducing commits.
        files: The replay of the reports with fixed files.
        tables: By name: ``metrics``, ``differences``, ``curve``, ``years``, ``right``, ``wrong`` and ``counts``, and
            the same of files with ``files_`` before the name, and ``files_named``. Where no report was tested, only the
            counts are there.
        warnings: Why something was not learned although there are enough reports, and whether the default ranker is
            left out.
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
        target: Desired share of reports with a relevant document among the first ``TOP``.
        min_reports: Number of labelled reports below which nothing is learned.
        max_replayed: Number of reports that are replayed at most, evenly spaced in time.
        max_learnt: Number of reports that are learned from at most, the newest.
        seed: Seed of the learning, and of the choice of texts for the control.

    Raises:
        ValueError: If no report can be tested.
    """
    corpus = with_all_links(corpus)
    assert corpus.reports is not None
    queries = [query_of(report) for _, report in corpus.reports.reports.iterrows()]
    replay = Replay(corpus)
    history = replay.history
    fixed = fixed_reports(corpus)
    sources = sources_of_fixes(corpus, history)
    of_commits = labelled_reports(corpus)
    of_files = file_reports(corpus, history, sources, fixed.known_at)
    if not len(of_commits) and not len(of_files):
        raise ValueError(
            f"{corpus.name}: none of the {of_commits.num_reports:,} reports has an inducing commit before it"
            f" ({of_commits.num_fixed:,} are fixed by a commit), or a fix that changed a source file that existed"
            " before it: check fix_patterns and suffixes"
        )

    commit_split = split_reports(corpus, of_commits, min_reports, max_replayed)
    file_split = split_reports(corpus, of_files, min_reports, max_replayed)
    for_commits = commit_split.train[-max_learnt:]
    for_files = file_split.train[-max_learnt:]
    for_use = fixed.before(None)[-max_learnt:]
    if not len(for_commits) and not len(for_files):
        for_use = for_use[:0]
    rows = np.unique(np.concatenate([for_use, for_commits, for_files]))
    examples = learning_examples(replay, rows, sources)
    learned = learn_rankers(examples, for_use, for_commits, for_files, seed)
    if learned.commits is None:
        commit_split = all_tested(of_commits, max_replayed)
    if learned.files is None:
        file_split = all_tested(of_files, max_replayed)

    fixes = KnownFixes(history, fixed.fixes)
    is_seen = default_was_trained_on(history.ids)
    file_rankers = _learned_and_default(learned.files, is_seen)
    commit_rankers = _learned_and_default(learned.commits, is_seen)
    commit_systems: dict[str, CommitScores] = {}
    for name, ranker in commit_rankers.items():
        commit_systems[name] = partial(_scores, history, queries, ranker, fixes if name == LEARNED else None)
    commit_systems |= commit_baselines(corpus, history, queries)
    warnings = list(learned.warnings)
    if is_seen:
        seen = [TOO_HIGH if DEFAULT in rankers else LEFT_OUT for rankers in (file_rankers, commit_rankers)]
        warnings += dict.fromkeys(seen)  # each once

    file_ranks = replay_files(history, queries, of_files, file_split.test, file_rankers, examples, fixes, seed)
    files = ReplayedReports(of_files, file_split, next(iter(file_rankers)), file_ranks)
    commit_ranks = replay_commits(of_commits, commit_split.test, commit_systems)
    commits = ReplayedReports(of_commits, commit_split, next(iter(commit_systems)), commit_ranks)
    tables = _tables(corpus, commits, commit_counts(of_commits), partial(first_commits, corpus))
    file_tables = _tables(corpus, files, file_counts(of_files), partial(first_files, history))
    return LocatingBacktest(
        replace(find_share(HitRate, corpus, commits, target), files=find_share(FileHitRate, corpus, files, target)),
        learned.ranker,
        fixed.fixes if LEARNED in (files.system, commits.system) else [],
        commits,
        files,
        tables | {f"files_{name}": table for name, table in file_tables.items()},
        tuple(warnings),
    )


def _scores(
    history: ChangeHistory, queries: Sequence[ChangeQuery], ranker: ChangeRanker, fixes: KnownFixes | None, row: int
) -> np.ndarray:
    return ranker.scores(history, queries[row], fixes)


def default_was_trained_on(ids: Sequence[str]) -> bool:
    """Whether the default ranker was trained on the history of some commits."""
    return not set(DEFAULT_LEARNED_FROM).isdisjoint(ids)


def _learned_and_default(learned: ChangeRanker | None, is_seen: bool) -> dict[str, ChangeRanker]:
    """The learned ranker, if there is one, and the default one, unless it has seen the history and is not needed."""
    if learned is None:
        return {DEFAULT: default_ranker()}
    return {LEARNED: learned} if is_seen else {LEARNED: learned, DEFAULT: default_ranker()}


class LearnedRankers(NamedTuple):
    """Rankers that are trained on the fixed reports of a tracker.

    Attributes:
        commits: The ranker that commits are measured with, trained on older reports only; None if these teach nothing
            about commits.
        files: Likewise the ranker that files are measured with. Its model of commits is the default one.
        ranker: The ranker for use, trained on all fixed reports; what they do not teach is the default's.
        warnings: Why something was not learned although there are enough reports.
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
) -> LearnedRankers:
    """Learns from the older fixed reports, to measure, and from all of them, for use.

    The features of a report are of its own date, so that all rankers learn from the same ones.

    Args:
        examples: What each report teaches, by its row.
        rows: The reports that the ranker for use learns from.
        for_commits: The older ones for the ranker that commits are measured with; empty for none.
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
    return LearnedRankers(commits, files, ranker, tuple(warnings))


def _with_files(examples: list[ChangeExample], options: ChangeTrainingOptions) -> ChangeRanker:
    """The default ranker with a learned ranker of files."""
    return ChangeRanker(fit_files(examples, options), default_ranker().commits)


def learning_examples(replay: Replay, rows: np.ndarray, sources: Mapping[int, np.ndarray]) -> dict[int, ChangeExample]:
    """What some fixed reports teach, by their rows; one whose fixing commit is unknown teaches which files are meant.

    Args:
        replay: The history of the corpus.
        rows: Rows of the reports.
        sources: See ``sources_of_fixes``.
    """
    examples = replay.examples(rows.tolist())
    for row in rows.tolist():
        if row not in examples:
            features = replay.features(row)
            fixed = existing_paths(replay.history, sources[row], features.num_commits)
            is_fixed = np.isin(features.files.paths, fixed)
            examples[row] = ChangeExample(features, is_fixed, inducing=NOTHING, is_new=False, fixed=fixed)
    return examples


def find_share(kind: type[Share], corpus: ChangeCorpus, replayed: ReplayedReports, target: float) -> Share:
    """The share of the reports for which the measured system has a relevant document among the first ``TOP``."""
    assert corpus.reports is not None
    name = corpus.reports.name
    ranks = replayed.ranks[replayed.ranks["system"] == replayed.system]
    if not len(ranks):
        return kind(name, target, INCONCLUSIVE)
    hits = ranks["rank"].to_numpy() <= TOP
    measured = _share("share", hits, corpus.reports.group[ranks["report"]])
    created_at = corpus.reports.reports["created_at"].iloc[ranks["report"]]
    return kind(
        name,
        target,
        target_status(target, measured["share_low"], measured["share_high"]),
        reports=len(ranks),
        hits=int(hits.sum()),
        share=measured["share"],
        low=measured["share_low"],
        high=measured["share_high"],
        first=f"{created_at.min():%Y-%m-%d}",
        last=f"{created_at.max():%Y-%m-%d}",
        learnt=replayed.system == LEARNED,
    )


def _tables(
    corpus: ChangeCorpus, replayed: ReplayedReports, counts: dict[str, int], columns: AnswerColumns
) -> dict[str, pd.DataFrame]:
    """The tables of ``LocatingBacktest``; the counts alone if no report was replayed."""
    counts |= {
        "learnt from to measure": replayed.split.num_labelled,
        "older, but fixed only after the first tested report: left out": replayed.split.num_unknown,
        "tested": len(replayed.split.test),
    }
    tables = rank_tables(corpus, replayed.ranks, replayed.system, columns) if len(replayed.ranks) else {}
    return tables | {"counts": pd.DataFrame({"what": counts.keys(), "number": counts.values()})}


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


def rank_tables(
    corpus: ChangeCorpus, ranks: pd.DataFrame, system: str, columns: AnswerColumns
) -> dict[str, pd.DataFrame]:
    """The tables about the ranks of all systems, or of one.

    Args:
        corpus: Reports and commits.
        ranks: A row or more, see ``replay_commits`` and ``replay_files``.
        system: The system of the examples and years, with which the others are compared.
        columns: The columns of the examples that describe the first answer.
    """
    assert corpus.reports is not None
    group = corpus.reports.group
    of_system = ranks[ranks["system"] == system]
    answered = of_system[of_system["first"] >= 0]
    tables = {
        "metrics": metrics(ranks, group),
        "differences": differences(ranks, system, group),
        "curve": hit_curve(ranks, group),
        "years": by_year(of_system, corpus.reports),
        "right": most_certain(answered[answered["right"]], corpus, columns),
        "wrong": most_certain(answered[~answered["right"]], corpus, columns),
    }
    if "names_file" in ranks:
        tables["named"] = by_naming(ranks, group)
    return tables


def _values(ranks: pd.DataFrame) -> dict[str, np.ndarray]:
    """The metrics of each report, ``(N,)``: hit@k, MRR and, where it is measured, MAP, which then comes before hit@k.

    Hit@k is 1 with a relevant document (an inducing commit, or a file that the fix changed) among the first k; MRR is
    1 / rank of the first one.
    """
    rank = ranks["rank"].to_numpy()
    hits = {f"hit@{k}": rank <= k for k in TOP_K}
    means = {"mrr": 1 / rank}
    if "average_precision" not in ranks:
        return hits | means
    return means | {"map": ranks["average_precision"].to_numpy()} | hits


def _share(name: str, hits: np.ndarray, cluster: np.ndarray) -> dict[str, float]:
    """The share of hits, ``(N,)`` bool, with the ends of its interval."""
    columns = share_columns(name, hits[:, None], np.ones((len(hits), 1), dtype=bool), cluster)
    return {str(column): float(values[0]) for column, values in columns.items()}


def metrics(ranks: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """The means of ``_values`` of each system, each with its 95% interval over groups of duplicate reports.

    Args:
        ranks: A row for each report and system: ``report``, ``system`` and ``rank``, infinite where no relevant
            document was ranked; with ``average_precision`` there is MAP too.
        group: ``(N,)`` group of each report.
    """
    rows = []
    for system, of_system in ranks.groupby("system", sort=False):
        cluster = group[of_system["report"]]
        row: dict[str, object] = {"system": system, "reports": len(of_system)}
        values = pd.DataFrame(_values(of_system))
        for name, column in values.items():
            if column.dtype == bool:
                row |= _share(str(name), column.to_numpy(), cluster)
            else:
                row |= {str(name): float(column.mean()), **interval_columns(values, cluster, [str(name)])}
        rows.append(row)
    return pd.DataFrame(rows)


def differences(ranks: pd.DataFrame, system: str, group: np.ndarray) -> pd.DataFrame:
    """One system less each other on the same reports, with the 95% interval of a paired bootstrap.

    Returns:
        A row for each other system: ``less``, and ``hit@10``, ``mrr`` and, where it is measured, ``map`` as
        differences.
    """
    ordered = ranks.sort_values("report", kind="stable")
    values = {name: _values(of_system) for name, of_system in ordered.groupby("system", sort=False)}
    cluster = group[ordered.loc[ordered["system"] == system, "report"]]
    rows = []
    for other in ranks["system"].drop_duplicates()[lambda names: names != system]:
        row: dict[str, object] = {"less": other}
        for name in COMPARED:
            if name in values[system]:
                compared = compare_means(values[system][name].astype(float), values[other][name].astype(float), cluster)
                row |= compared.columns(f"difference of {name}")
        rows.append(row)
    return pd.DataFrame(rows)


def hit_curve(ranks: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """Hit@k of each system for many k: ``system``, ``k``, ``hit``, ``hit_low``, ``hit_high``."""
    rows = []
    for system, of_system in ranks.groupby("system", sort=False):
        rank = of_system["rank"].to_numpy()
        cluster = group[of_system["report"]]
        rows += [{"system": system, "k": k, **_share("hit", rank <= k, cluster)} for k in CURVE_K]
    return pd.DataFrame(rows)


def by_year(ranks: pd.DataFrame, reports: Corpus) -> pd.DataFrame:
    """Hit@10 of one system by the year of the report; no rows unless two years have ``MIN_YEAR_REPORTS`` reports."""
    years = reports.reports["created_at"].iloc[ranks["report"]].dt.year.to_numpy()
    rows = []
    for year, of_year in ranks.groupby(years):
        hits = of_year["rank"].to_numpy() <= TOP
        share = _share(f"hit@{TOP}", hits, reports.group[of_year["report"]])
        rows.append({"year": str(year), "reports": len(of_year), **share})
    table = pd.DataFrame(rows)
    return table if (table["reports"] >= MIN_YEAR_REPORTS).sum() >= 2 else table.iloc[:0]


def by_naming(ranks: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """The metrics apart for reports that name a file and those that do not, see ``names_file``."""
    tables = []
    for naming, words in NAMING.items():
        chosen = ranks[ranks["names_file"] == naming]
        if len(chosen):
            tables.append(metrics(chosen, group))
            tables[-1].insert(0, "reports that", words)
    return pd.concat(tables, ignore_index=True)


def most_certain(ranks: pd.DataFrame, corpus: ChangeCorpus, columns: AnswerColumns) -> pd.DataFrame:
    """Of some replayed reports at most ``MAX_ROWS``, those with the largest margin.

    Returns:
        ``margin``, ``report``, ``title of report``, and the columns that are made of the chosen rows.
    """
    assert corpus.reports is not None
    chosen = ranks.sort_values("margin", ascending=False, kind="stable").head(MAX_ROWS)
    reports = corpus.reports.reports.iloc[chosen["report"]]
    about = {
        "margin": chosen["margin"].to_numpy(),
        "report": reports["id"].to_numpy(),
        "title of report": reports["title"].to_numpy(),
    }
    return with_urls(pd.DataFrame(about | columns(chosen)), corpus.reports.reports)


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
