"""Backtest of the ranking of files and commits: trains on older reports and ranks for newer ones by several systems."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import ChangeCorpus, Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.significance import compare_means, interval_columns, share_columns
from gedbd.evaluation.thresholds import INCONCLUSIVE, target_status
from gedbd.io.console import stage, track
from gedbd.localization.change_ranking.change_history import ChangeHistory, ChangeQuery
from gedbd.localization.change_ranking.change_ranker import ChangeRanker, default_ranker
from gedbd.localization.change_ranking.change_training import (
    ChangeExample,
    ChangeTrainingOptions,
    Replay,
    existing_paths,
    fit_examples,
    fit_files,
    query_of,
    reports_of,
)
from gedbd.localization.change_ranking.file_features import FILE_FEATURES, KnownFix, KnownFixes, named_paths
from gedbd.localization.change_ranking.query_features import query_features
from gedbd.localization.change_ranking.report_words import report_words
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
from gedbd.localization.locating.tracker_ranker import TOP, HitRate, HitRates
from gedbd.retrieval.scorers.bm25 import CodeBm25
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

MARGIN_RANK = 10  # the margin is the score of the first minus that of this rank
BM25 = "BM25 over diffs"
NUM_FILES = "number of changed files"
BM25_CHANGES = "BM25 over changes"
RECENCY = "last changed"
CONTROL = "another report's text"
LEARNED = "learnt ranker"
DEFAULT = "default ranker"
COLUMNS = ("report", "system", "rank", "average_precision", "candidates", "first", "found", "right", "margin")
TOP_K = (1, 5, TOP)
CURVE_K = (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 50, 100)
COMPARED = (f"hit@{TOP}", "mrr", "map")
MIN_YEAR_REPORTS = 10  # of the two largest years; with fewer, there is no table by year
MAX_ROWS = 20
SHORT_ID = 12
NAMING = {True: "name a file", False: "name no file"}
# The first commit of each history that the default ranker was trained on, Apache Tomcat and AspectJ.
DEFAULT_LEARNED_FROM = ("a84fabcbc6fee8a69253ad92a304b4718e96a7c9", "c3300283ecc397d26ad9dfe31d1710ec45db2af0")
LEFT_OUT = "the default ranker was trained on this history and is left out"
TOO_HIGH = "the default ranker was trained on this history, so its figures are too high"
AnswerColumns = Callable[[pd.DataFrame], dict[str, object]]  # columns that describe the first answer of each row
Candidates = tuple[np.ndarray, np.ndarray]
"""Rows of C candidates and their scores, ``(C,)`` each."""


def replay_commits(
    corpus: ChangeCorpus,
    history: ChangeHistory,
    queries: Sequence[ChangeQuery],
    reports: LabelledReports,
    tested: np.ndarray,
    rankers: Mapping[str, ChangeRanker],
    fixes: KnownFixes,
) -> pd.DataFrame:
    """Ranks of the inducing commits of reports, by position, in each system; newer commits first among ties.

    The rankers, BM25 of the report over the diffs, and the number of changed files, which ignores the report, rank the
    commits before the report. For the arguments see ``replay_files``. Returns the columns of ``_replay`` without
    ``average_precision`` and ``found``.
    """
    commits = corpus.commits.table
    bm25 = CodeBm25("diff")
    bm25.fit(ScorerInputs(commits, reports_of(corpus).reports, corpus.inducing["commit"].table))
    num_files = commits["num_files"].to_numpy(dtype=np.float64)

    def candidates(row: int) -> dict[str, Candidates]:
        before = history.num_before(queries[row].created_at)
        scores = {}
        for name, ranker in rankers.items():
            scores[name] = ranker.scores(history, queries[row], fixes if name == LEARNED else None)
        scores |= {BM25: bm25.earlier_scores(row, before), NUM_FILES: num_files[:before]}
        return {name: (np.arange(before), values) for name, values in scores.items()}

    table = _replay(reports, tested, candidates, newest_first=True)
    return table.drop(columns=["average_precision", "found"]).astype({"rank": np.int64})


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
    of another replayed report, chosen by the seed.

    ``tested`` are positions among ``reports``. ``examples`` are features that are already computed, by the row of the
    report. Each report reads the fixes known before it. Returns the columns of ``_replay``, and ``names_file`` from the
    function of this name.
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
    """Ranks the candidates and scores that ``candidates`` returns for the row of a report, by system.

    A row for each tested report, by position, and system: ``report`` (its row), ``system``, and what
    ``rank_candidates`` returns.
    """
    rows: list[dict[str, object]] = []
    for number in track(tested.tolist(), "replay", unit="reports"):
        report = int(reports.rows[number])
        for system, (documents, scores) in candidates(report).items():
            ranked = rank_candidates(documents, scores, reports.relevant[number], newest_first)
            rows.append({"report": report, "system": system, **ranked})
    return pd.DataFrame(rows, columns=list(COLUMNS))


def rank_candidates(
    documents: np.ndarray, scores: np.ndarray, relevant: np.ndarray, newest_first: bool = False
) -> dict[str, object]:
    """Ranks the candidates of one report.

    Unlike in ``gedbd.retrieval.ranking_tasks.rank``, scores are compared in double precision, and relevant documents
    that a system does not rank lower the average precision.

    ``documents`` are the rows of the candidates and ``scores`` their scores, ``(C,)`` each; ``relevant`` are rows too.
    Of equal scores, higher rows come first with ``newest_first``, otherwise lower ones.

    Returns:
        ``rank`` of the best relevant document from 1, infinite if none is a candidate; ``average_precision``;
        ``candidates`` (their number); ``first`` (the first candidate) and ``found`` (the best relevant document), or
        -1; ``right`` (the first candidate is relevant); ``margin`` (score of the first minus that of the tenth).
    """
    order = np.lexsort((-documents if newest_first else documents, -scores))
    ranked = documents[order]
    ranks = np.flatnonzero(np.isin(ranked, relevant)) + 1
    precision = np.arange(1, len(ranks) + 1) / ranks
    near = order[: min(MARGIN_RANK, len(order))]
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
    num_rows = history.table.num_rows(before)
    last = np.zeros(history.table.num_paths(num_rows), dtype=np.int64)
    last[history.table.row_path[:num_rows]] = history.table.row_commit[:num_rows]  # of several rows the last one counts
    exists = existing_paths(history, np.flatnonzero(history.table.is_source), before)
    return exists, last[exists]


def names_file(history: ChangeHistory, query: ChangeQuery) -> bool:
    """Whether a report names a source file that exists at its date.

    Names are identifiers of code (not capitalised words), qualified names, and frames of stack traces.
    """
    before = history.num_before(query.created_at)
    report = report_words(query.title, query.description)
    report = report._replace(names=tuple(name for name in report.names if name.weight == 1))
    exists = existing_paths(history, np.flatnonzero(history.table.is_source), before)
    named = named_paths(history.table, report, history.table.num_paths(history.table.num_rows(before)))
    return any(bool((scores[exists] > 0).any()) for scores in named.values())


@dataclass(frozen=True)
class ReplayedReports:
    """Ranks of the relevant documents, inducing commits or fixed files, by several systems."""

    reports: LabelledReports  # the reports with relevant documents
    split: ReplaySplit  # training and test set
    system: str  # the main system: the learned ranker, or the default ranker without training
    ranks: pd.DataFrame  # see ``replay_commits`` and ``replay_files``


@dataclass(frozen=True)
class LocatingBacktest:
    """The result of a backtest."""

    hit_rate: HitRates  # share of reports with an inducing commit, and with a fixed file, among the first ``TOP``
    # the final ranker: its models are trained on all fixed reports, or the default models if there are too few
    ranker: ChangeRanker
    fixes: list[KnownFix]  # the fixed reports that the ranker reads; empty for the default ranker
    commits: ReplayedReports  # replay of the reports with inducing commits
    files: ReplayedReports  # replay of the reports with fixed files
    # ``metrics``, ``differences``, ``curve``, ``years``, ``right``, ``wrong`` and ``counts`` by name; those of files
    # begin with ``files_``, among them ``files_named``. Without tested reports there are only counts
    tables: dict[str, pd.DataFrame]
    warnings: tuple[str, ...] = ()  # failures of the training, and whether the default ranker is left out


@stage("train and replay")
def run_replay(
    corpus: ChangeCorpus, target: float, min_reports: int, max_replayed: int, max_learnt: int, seed: int
) -> LocatingBacktest:
    """Trains on the older half of the labelled reports and tests on the newer half, for files and for commits.

    Raises ValueError if no report can be tested.

    Args:
        corpus: Commits and reports, with inducing commits or known fixes.
        target: Desired share of reports with a relevant document among the first ``TOP``.
        min_reports: Minimum number of labelled reports for training.
        max_replayed: Maximum number of test reports, evenly spaced in time.
        max_learnt: Maximum number of training reports, the newest.
        seed: Seed of the training, and of the choice of the control's texts.
    """
    corpus = with_all_links(corpus)
    queries = [query_of(report) for _, report in reports_of(corpus).reports.iterrows()]
    replay = Replay(corpus)
    history = replay.history
    fixed = fixed_reports(corpus)
    sources = sources_of_fixes(corpus, history)
    commit_reports = labelled_reports(corpus)
    path_reports = file_reports(corpus, history, sources, fixed.known_at)
    if not len(commit_reports) and not len(path_reports):
        raise ValueError(
            f"{corpus.name}: none of the {commit_reports.num_reports:,} reports has an inducing commit before it"
            f" ({commit_reports.num_fixed:,} are fixed by a commit), or a fix that changed a source file that existed"
            " before it: check fix_patterns and suffixes"
        )

    commit_split = split_reports(corpus, commit_reports, min_reports, max_replayed)
    file_split = split_reports(corpus, path_reports, min_reports, max_replayed)
    commit_train = commit_split.train[-max_learnt:]
    file_train = file_split.train[-max_learnt:]
    final_train = fixed.before(None)[-max_learnt:]
    if not len(commit_train) and not len(file_train):
        final_train = final_train[:0]
    rows = np.unique(np.concatenate([final_train, commit_train, file_train]))
    examples = replay.examples(rows.tolist(), sources)
    learned = learn_rankers(examples, final_train, commit_train, file_train, seed)
    if learned.commits is None:
        commit_split = all_tested(commit_reports, max_replayed)
    if learned.files is None:
        file_split = all_tested(path_reports, max_replayed)

    fixes = KnownFixes(history, fixed.fixes)
    is_default_biased = default_was_trained_on(history.ids)
    file_rankers = _learned_and_default(learned.files, is_default_biased)
    commit_rankers = _learned_and_default(learned.commits, is_default_biased)
    warnings = list(learned.warnings)
    if is_default_biased:
        biased = [TOO_HIGH if DEFAULT in rankers else LEFT_OUT for rankers in (file_rankers, commit_rankers)]
        warnings += dict.fromkeys(biased)  # without duplicates

    file_ranks = replay_files(history, queries, path_reports, file_split.test, file_rankers, examples, fixes, seed)
    files = ReplayedReports(path_reports, file_split, next(iter(file_rankers)), file_ranks)
    commit_ranks = replay_commits(corpus, history, queries, commit_reports, commit_split.test, commit_rankers, fixes)
    commits = ReplayedReports(commit_reports, commit_split, next(iter(commit_rankers)), commit_ranks)
    commit_counts = {
        "reports": commit_reports.num_reports,
        "fixed by a commit": commit_reports.num_fixed,
        "without an inducing commit before them: not tested": commit_reports.num_reports - len(commit_reports),
        "of these, with later inducing commits only": commit_reports.num_unordered,
        "with an inducing commit before them": len(commit_reports),
    }
    file_counts = {
        "reports": path_reports.num_reports,
        "with a known fix": path_reports.num_fixed,
        "whose fix changed no earlier source file: not tested": path_reports.num_fixed - len(path_reports),
        "whose fix changed an earlier source file": len(path_reports),
    }
    tables = _tables(corpus, commits, commit_counts, partial(first_commits, corpus))
    file_tables = _tables(corpus, files, file_counts, partial(first_files, history))
    return LocatingBacktest(
        HitRates(find_hit_rate(corpus, files, target), find_hit_rate(corpus, commits, target)),
        learned.ranker,
        fixed.fixes if LEARNED in (files.system, commits.system) else [],
        commits,
        files,
        tables | {f"files_{name}": table for name, table in file_tables.items()},
        tuple(warnings),
    )


def default_was_trained_on(ids: Sequence[str]) -> bool:
    """Whether the default ranker was trained on the history of these commits."""
    return not set(DEFAULT_LEARNED_FROM).isdisjoint(ids)


def _learned_and_default(learned: ChangeRanker | None, is_default_biased: bool) -> dict[str, ChangeRanker]:
    """The learned ranker, if any, and the default ranker unless it was trained on this history and is not needed."""
    rankers = {} if learned is None else {LEARNED: learned}
    return rankers if rankers and is_default_biased else rankers | {DEFAULT: default_ranker()}


class LearnedRankers(NamedTuple):
    """Rankers that are trained on the fixed reports of a tracker."""

    commits: ChangeRanker | None  # for the test of commits, trained on older reports only; None if it is not trained
    files: ChangeRanker | None  # likewise for the test of files; its model of commits is the default one
    ranker: ChangeRanker  # final, trained on all fixed reports; models that are not trained are the default models
    warnings: tuple[str, ...]  # failures of the training


def learn_rankers(
    examples: Mapping[int, ChangeExample], rows: np.ndarray, commit_train: np.ndarray, file_train: np.ndarray, seed: int
) -> LearnedRankers:
    """Trains rankers on the older fixed reports, for the test, and the final ranker on all fixed reports, ``rows``.

    ``examples`` are by row of the report; their features are as of its date, so that all rankers can share them.
    ``commit_train`` and ``file_train`` are the training reports for the tests of commits and of files; empty for none.
    """
    options = ChangeTrainingOptions(seed=seed)
    default = default_ranker()
    all_examples, commit_examples, file_examples = (
        [examples[row] for row in split.tolist()] for split in (rows, commit_train, file_train)
    )
    commits = files = None
    ranker = default
    warnings = []
    if commit_examples:
        try:
            commits = fit_examples(commit_examples, options)
            ranker = fit_examples(all_examples, options)
        except ValueError as error:
            warnings.append(f"the ranker of commits was not trained: {error}")
    if file_examples:
        try:
            files = ChangeRanker(fit_files(file_examples, options), default.commits)
            if commits is None:
                ranker = ChangeRanker(fit_files(all_examples, options), default.commits)
        except ValueError as error:
            warnings.append(f"the ranker of files was not trained: {error}")
    return LearnedRankers(commits, files, ranker, tuple(warnings))


def find_hit_rate(corpus: ChangeCorpus, replayed: ReplayedReports, target: float) -> HitRate:
    """The hit rate of the main system."""
    reports = reports_of(corpus)
    ranks = replayed.ranks[replayed.ranks["system"] == replayed.system]
    if not len(ranks):
        return HitRate(reports.name, target, INCONCLUSIVE)
    hits = ranks["rank"].to_numpy() <= TOP
    share, low, high = _share("share", hits, reports.group[ranks["report"]]).values()
    created_at = reports.reports["created_at"].iloc[ranks["report"]]
    return HitRate(
        reports.name,
        target,
        target_status(target, low, high),
        reports=len(ranks),
        hits=int(hits.sum()),
        share=share,
        low=low,
        high=high,
        first=f"{created_at.min():%Y-%m-%d}",
        last=f"{created_at.max():%Y-%m-%d}",
        learnt=replayed.system == LEARNED,
    )


def _tables(
    corpus: ChangeCorpus, replayed: ReplayedReports, counts: dict[str, int], columns: AnswerColumns
) -> dict[str, pd.DataFrame]:
    """The tables of ``LocatingBacktest``; the counts alone if no report was replayed."""
    counts |= {
        "older, used for training": replayed.split.num_labelled,
        "older, but fixed only after the first tested report: left out": replayed.split.num_unknown,
        "tested": len(replayed.split.test),
    }
    counts_table = pd.DataFrame({"what": counts.keys(), "number": counts.values()})
    ranks = replayed.ranks
    if not len(ranks):
        return {"counts": counts_table}
    group = reports_of(corpus).group
    system_ranks = ranks[ranks["system"] == replayed.system]
    answered = system_ranks[system_ranks["first"] >= 0]
    tables = {
        "metrics": metrics(ranks, group),
        "differences": differences(ranks, replayed.system, group),
        "curve": hit_curve(ranks, group),
        "years": by_year(system_ranks, reports_of(corpus)),
        "right": most_certain(answered[answered["right"]], corpus, columns),
        "wrong": most_certain(answered[~answered["right"]], corpus, columns),
    }
    if "names_file" in ranks:
        tables["named"] = by_naming(ranks, group)
    return tables | {"counts": counts_table}


def _values(ranks: pd.DataFrame) -> dict[str, np.ndarray]:
    """The metrics of each report, ``(N,)``: hit@k, MRR and, if there is ``average_precision``, MAP before hit@k."""
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
    """The means of ``_values`` by system, with 95% intervals over the groups of reports, ``group (N,)``."""
    rows = []
    for system, system_ranks in ranks.groupby("system", sort=False):
        cluster = group[system_ranks["report"]]
        row: dict[str, object] = {"system": system, "reports": len(system_ranks)}
        values = pd.DataFrame(_values(system_ranks))
        for name, column in values.items():
            if column.dtype == bool:
                row |= _share(str(name), column.to_numpy(), cluster)
            else:
                row |= {str(name): float(column.mean()), **interval_columns(values, cluster, [str(name)])}
        rows.append(row)
    return pd.DataFrame(rows)


def differences(ranks: pd.DataFrame, system: str, group: np.ndarray) -> pd.DataFrame:
    """Differences of ``COMPARED`` between one system and each other system (``less``), with paired 95% intervals."""
    ordered = ranks.sort_values("report", kind="stable")
    values = {name: _values(system_ranks) for name, system_ranks in ordered.groupby("system", sort=False)}
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
    """Hit@k of each system for ``CURVE_K``: ``system``, ``k``, ``hit``, ``hit_low``, ``hit_high``."""
    rows = []
    for system, system_ranks in ranks.groupby("system", sort=False):
        rank = system_ranks["rank"].to_numpy()
        cluster = group[system_ranks["report"]]
        rows += [{"system": system, "k": k, **_share("hit", rank <= k, cluster)} for k in CURVE_K]
    return pd.DataFrame(rows)


def by_year(ranks: pd.DataFrame, reports: Corpus) -> pd.DataFrame:
    """Hit@10 of one system by year; empty unless two years have ``MIN_YEAR_REPORTS`` reports."""
    years = reports.reports["created_at"].iloc[ranks["report"]].dt.year.to_numpy()
    rows = []
    for year, year_ranks in ranks.groupby(years):
        hits = year_ranks["rank"].to_numpy() <= TOP
        share = _share(f"hit@{TOP}", hits, reports.group[year_ranks["report"]])
        rows.append({"year": str(year), "reports": len(year_ranks), **share})
    table = pd.DataFrame(rows)
    return table if (table["reports"] >= MIN_YEAR_REPORTS).sum() >= 2 else table.iloc[:0]


def by_naming(ranks: pd.DataFrame, group: np.ndarray) -> pd.DataFrame:
    """The metrics of reports that name a file and of those that do not, see ``names_file``."""
    tables = []
    for naming, words in NAMING.items():
        selected = ranks[ranks["names_file"] == naming]
        if len(selected):
            tables.append(metrics(selected, group))
            tables[-1].insert(0, "reports that", words)
    return pd.concat(tables, ignore_index=True)


def most_certain(ranks: pd.DataFrame, corpus: ChangeCorpus, columns: AnswerColumns) -> pd.DataFrame:
    """``margin``, ``report``, ``title of report`` and ``columns`` of the reports with the largest margin."""
    top = ranks.sort_values("margin", ascending=False, kind="stable").head(MAX_ROWS)
    reports = reports_of(corpus).reports.iloc[top["report"]]
    table = {
        "margin": top["margin"].to_numpy(),
        "report": reports["id"].to_numpy(),
        "title of report": reports["title"].to_numpy(),
    }
    return with_urls(pd.DataFrame(table | columns(top)), reports_of(corpus).reports)


def first_commits(corpus: ChangeCorpus, ranks: pd.DataFrame) -> dict[str, object]:
    """``suspect`` (the first commit), its ``message``, and ``rank`` of the first inducing commit."""
    commits = corpus.commits.table.iloc[ranks["first"]]
    return {
        "suspect": commits["id"].str.slice(0, SHORT_ID).to_numpy(),
        "message": commits["title"].to_numpy(),
        "rank": ranks["rank"].to_numpy(),
    }


def first_files(history: ChangeHistory, ranks: pd.DataFrame) -> dict[str, object]:
    """``file`` (the first), ``fixed file`` (the best ranked, empty if none is ranked) and its ``rank``."""
    paths = [*history.table.paths, ""]  # row -1 is the empty path
    return {
        "file": [paths[row] for row in ranks["first"]],
        "fixed file": [paths[row] for row in ranks["found"]],
        "rank": ranks["rank"].where(np.isfinite(ranks["rank"])).astype("Int64").to_numpy(),
    }
