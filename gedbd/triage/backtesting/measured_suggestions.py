"""The best matches of replayed reports, their precision at each probability, and the files that store them."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.significance import share_columns
from gedbd.evaluation.thresholds import (
    LIST_LENGTH,
    NO_THRESHOLD,
    TOO_FEW,
    TargetResult,
    choose_threshold,
    duplicates_needed,
    target_status,
)
from gedbd.experiments.report.judging import PAIR, VERDICT
from gedbd.io.console import stage
from gedbd.io.table_files import read_parquet, write_parquet
from gedbd.retrieval.report_ranking.report_ranker import ReportRanker
from gedbd.triage.backtesting.history_replay import learn_probability, unknown_reasons
from gedbd.triage.triage_model import CONFIDENCE_FEATURES, NUM_BINS, TriageModel, calibration_error

SUGGESTIONS = "suggestions.parquet"
REPORTS = "reports.parquet"
GRID = np.round(np.arange(0.01, 1.0, 0.01), 2)
TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9)
RANKS = (1, 5, 10)
AS_MARKED = "as marked"
WITHOUT_UNKNOWN = "without unknown"
UNKNOWN_LIST = "one of the list is unknown"
MAX_ROWS = 20
# The default splits of a history and the lowest target that a backtest measures.
VALIDATION_FROM = 0.6
TEST_FROM = 0.8
LOWEST_TARGET = 0.5
LOWEST_CONFIDENCE = 0.9


@dataclass(frozen=True)
class Suggestions:
    """The best match of each replayed report of a split."""

    # one row per report with a candidate: ``query``, ``candidate``, ``right``, ``rank`` (of the first right candidate,
    # 0 if none is right), ``unknown`` (see ``unknown_reasons``), ``probability``
    best: pd.DataFrame
    group: np.ndarray  # ``(N,)`` group of each report

    @classmethod
    def of_part(cls, matches: pd.DataFrame, corpus: Corpus) -> "Suggestions":
        """The best of the replayed matches of a split, which have a ``probability``."""
        first = matches[matches["place"] == 1]
        best = first[["query", "candidate", "right", "rank"]].reset_index(drop=True)
        best = best.assign(unknown=unknown_reasons(best, corpus), probability=first["probability"].to_numpy())
        return cls(best, corpus.group)

    @classmethod
    def lists(cls, matches: pd.DataFrame, group: np.ndarray) -> "Suggestions":
        """Lists of the best matches; a list is right if one of its matches is.

        The probability of a list is the sum of those of its matches, as at most one group is right. A list without a
        right match is unknown if one of its matches is.
        """
        lists = matches[matches["place"] <= LIST_LENGTH].groupby("query")
        best = lists[["candidate", "rank"]].first()
        right = lists["right"].any()
        is_unknown = lists["unknown"].any() & ~right
        probability = lists["probability"].sum().clip(upper=1)
        best = best.assign(right=right, unknown=np.where(is_unknown, UNKNOWN_LIST, ""), probability=probability)
        return cls(best.reset_index(), group)

    @property
    def cluster(self) -> np.ndarray:
        """``(B,)`` group of each query."""
        return np.asarray(self.group[self.best["query"]])

    @property
    def is_duplicate(self) -> np.ndarray:
        """``(B,)`` bool, whether each query has an earlier duplicate."""
        # The number of a group is the row of its first report.
        return np.asarray(self.cluster < self.best["query"].to_numpy())

    @property
    def duplicates(self) -> int:
        """Number of queries with an earlier duplicate."""
        return int(self.is_duplicate.sum())

    @property
    def is_known(self) -> np.ndarray:
        """``(B,)`` bool, whether each best match is known to be right or wrong."""
        return (self.best["unknown"] == "").to_numpy()

    @property
    def known(self) -> pd.DataFrame:
        """The best matches that are known to be right or wrong."""
        return self.best[self.is_known]

    def at(self, thresholds: np.ndarray) -> np.ndarray:
        """``(B, T)`` bool: whether each best match is a suggestion at each threshold; NaN gives none."""
        suggested: np.ndarray = self.best["probability"].to_numpy()[:, None] >= np.asarray(thresholds)[None, :]
        return suggested


@dataclass(frozen=True)
class Backtest:
    """The result of a backtest."""

    matching: TriageModel  # the learned ranker, probabilities and thresholds
    replayed: pd.DataFrame  # see ``LearnedHistory``; empty for a stored backtest
    val: Suggestions  # best matches of the validation split
    test: Suggestions  # best matches of the test split
    # by name: ``targets``, ``lists`` (the same for ``Suggestions.lists``), ``search``, ``thresholds``, ``reliability``,
    # ``hubs``, ``unknown``, ``right``, ``wrong``, ``probabilities``
    tables: dict[str, pd.DataFrame]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error on the known matches of test."""
        return float(self.tables["probabilities"]["calibration_error"].iloc[-1])

    @property
    def average_precision(self) -> float:
        """Average precision on the known matches of test, by probability."""
        return float(self.tables["probabilities"]["average_precision"].iloc[-1])


@stage("measure", is_long=True)
def measure(
    replayed: pd.DataFrame,
    corpus: Corpus,
    ranker: ReportRanker,
    target_precision: float,
    confidence_level: float,
    seed: int,
    max_examples: int = MAX_ROWS,
) -> Backtest:
    """Learns probabilities and thresholds on the splits before test, and measures suggestions on test.

    For ``replayed`` see ``LearnedHistory``, for ``confidence_level`` see ``choose_threshold``. ``target_precision`` is
    the precision target of the index, measured beside ``TARGETS``; ``seed`` is that of the trees, and ``max_examples``
    the maximum number of listed suggestions of each kind.
    """
    confidence, val_probability = learn_probability(replayed, ranker, seed)
    val_matches = replayed[replayed["part"] == "val"].assign(probability=val_probability)
    test_matches = replayed[replayed["part"] == "test"]
    test_probability = confidence(test_matches[list(CONFIDENCE_FEATURES)].to_numpy())
    test_matches = test_matches.assign(probability=test_probability)
    val = Suggestions.of_part(val_matches, corpus)
    test = Suggestions.of_part(test_matches, corpus)
    further = [target for target in TARGETS if not isclose(target, target_precision)]
    target_precisions = sorted([*further, target_precision])
    targets = targets_table(val, test, target_precisions, confidence_level)
    val_lists, test_lists = (Suggestions.lists(matches, corpus.group) for matches in (val_matches, test_matches))
    lists = targets_table(val_lists, test_lists, target_precisions, confidence_level)
    dates = corpus.reports["created_at"].iloc[test.best["query"]].dropna()
    matching = TriageModel(
        ranker, confidence, target_results(targets, dates), target_precision, target_results(lists, dates, LIST_LENGTH)
    )
    tables = {"targets": targets, "lists": lists} | tables_of(test, corpus, matching.target.threshold, max_examples)
    return Backtest(matching, replayed, val, test, tables)


def at_thresholds(suggestions: Suggestions, thresholds: Sequence[float] | np.ndarray) -> pd.DataFrame:
    """Precision, coverage and suggestion rate at each threshold.

    A suggestion is right if the two reports are now in one group. Intervals (95%) are over duplicate groups, see
    ``ratio_intervals``.

    Returns:
        One row per threshold: ``threshold``, ``suggestions`` (without unknown ones), ``right``, ``precision`` (share of
        right suggestions), ``coverage`` (share of all duplicates for which the right group is suggested) and
        ``precision_as_marked`` (unknown ones count as wrong), each with ``_low`` and ``_high``; ``unknown`` (number of
        unknown suggestions), and ``suggestion_rate`` (share of all reports with a suggestion). A NaN threshold gives no
        suggestion.
    """
    cluster = suggestions.cluster
    # (reports, thresholds): whether each report gets a suggestion, a known one, a right one; and is a duplicate
    suggested = suggestions.at(np.asarray(thresholds))
    known = suggested & suggestions.is_known[:, None]
    hits = suggested & suggestions.best["right"].to_numpy()[:, None]
    duplicate = suggestions.is_duplicate[:, None] & np.ones_like(suggested)
    count = known.sum(axis=0)
    table = pd.DataFrame({"threshold": thresholds, "suggestions": count, "right": hits.sum(axis=0)})
    for name, counted in (("precision", known), ("coverage", duplicate), ("precision_as_marked", suggested)):
        table = table.join(share_columns(name, hits, counted, cluster))
    total = suggested.sum(axis=0)
    return table.assign(unknown=total - count, suggestion_rate=total / max(len(suggestions.best), 1))


def targets_table(
    val: Suggestions, test: Suggestions, targets: Sequence[float], confidence_level: float
) -> pd.DataFrame:
    """Chooses a threshold on validation for each precision target, and measures it on test.

    Returns:
        One row per target: ``target``, ``threshold`` (NaN if there is none), ``validation_suggestions``,
        ``validation_precision``, ``validation_duplicates``, ``duplicates_needed`` (see ``duplicates_needed``), the
        columns of ``at_thresholds`` for test, and ``status``.
    """
    best = val.known
    columns = (best["probability"].to_numpy(), best["right"].to_numpy(), val.group[best["query"]])
    optional = [choose_threshold(*columns, target, confidence_level) for target in targets]
    thresholds = np.array([np.nan if threshold is None else threshold for threshold in optional])
    on_val = at_thresholds(val, thresholds)
    on_test = at_thresholds(test, thresholds)
    table = pd.DataFrame(
        {
            "target": targets,
            "threshold": thresholds,
            "validation_suggestions": on_val["suggestions"],
            "validation_precision": on_val["precision"],
            "validation_duplicates": val.duplicates,
            "duplicates_needed": [duplicates_needed(target, confidence_level) for target in targets],
        }
    )
    table = pd.concat([table, on_test.drop(columns="threshold")], axis=1)
    return table.assign(status=[_status(row) for row in table.to_dict("records")])


def _status(row: Mapping[Hashable, Any]) -> str:
    if not np.isnan(row["threshold"]):
        return target_status(row["target"], row["precision_low"], row["precision_high"])
    return TOO_FEW if row["validation_duplicates"] < row["duplicates_needed"] else NO_THRESHOLD


def target_results(table: pd.DataFrame, dates: pd.Series, list_length: int = 1) -> tuple[TargetResult, ...]:
    """The rows of ``targets_table`` for an index; ``dates`` are the known dates of the test reports."""
    first, last = (None, None) if dates.empty else (f"{dates.min():%Y-%m-%d}", f"{dates.max():%Y-%m-%d}")
    measured = ("threshold", "precision", "precision_low", "precision_high")
    return tuple(
        TargetResult(
            target_precision=row["target"],
            status=row["status"],
            suggestions=row["suggestions"],
            right=row["right"],
            unknown=row["unknown"],
            first=first,
            last=last,
            list_length=list_length,
            **{name: None if np.isnan(row[name]) else row[name] for name in measured},
        )
        for row in table.to_dict("records")
    )


def tables_of(
    test: Suggestions, corpus: Corpus, threshold: float | None, max_examples: int = MAX_ROWS
) -> dict[str, pd.DataFrame]:
    """The tables of the test split by name; ``threshold`` is the chosen threshold."""
    tables = {
        "search": search_table(test),
        "thresholds": at_thresholds(test, GRID if threshold is None else np.union1d(GRID, [threshold])),
        "probabilities": probability_table(test),
        "reliability": reliability(test.known),
        "hubs": hubs(test, corpus),
        "unknown": unknown_table(test, corpus),
        "right": examples(test, corpus, threshold, True, max_examples),
        "wrong": examples(test, corpus, threshold, False, max_examples),
    }
    return {name: with_urls(table, corpus.reports) for name, table in tables.items()}


def search_table(suggestions: Suggestions) -> pd.DataFrame:
    """The share of duplicates for which a search ranks the right group among the first.

    Returns:
        A row for each of ``RANKS``: ``first`` (number of matches), ``found``, ``duplicates``,
        ``share`` with its 95% interval, ``share_low`` and ``share_high``; NaN without duplicates.
    """
    rank = suggestions.best["rank"].to_numpy()[:, None]
    hits = (rank > 0) & (rank <= np.array(RANKS))
    duplicate = suggestions.is_duplicate[:, None] & np.ones_like(hits)
    table = pd.DataFrame({"first": RANKS, "found": hits.sum(axis=0), "duplicates": suggestions.duplicates})
    return table.join(share_columns("share", hits, duplicate, suggestions.cluster))


def probability_table(suggestions: Suggestions) -> pd.DataFrame:
    """How well probabilities separate right from wrong best matches, with and without unknown matches.

    Returns:
        Two rows: ``counted`` (``AS_MARKED`` or ``WITHOUT_UNKNOWN``), ``matches``, ``right``, ``average_precision``
        (the area under the curve of precision and recall; NaN if none is right) and ``calibration_error``.
    """
    from sklearn.metrics import average_precision_score

    rows = []
    for counted, best in ((AS_MARKED, suggestions.best), (WITHOUT_UNKNOWN, suggestions.known)):
        probability = best["probability"].to_numpy()
        right = best["right"].to_numpy()
        average = average_precision_score(right, probability) if right.any() else np.nan
        error = calibration_error(probability, right)
        rows.append((counted, len(right), int(right.sum()), float(average), error))
    return pd.DataFrame(rows, columns=["counted", "matches", "right", "average_precision", "calibration_error"])


def reliability(best: pd.DataFrame) -> pd.DataFrame:
    """Predicted and observed probability in bins of equal width, without empty bins.

    Returns:
        One row per bin: ``from``, ``to``, ``reports``, ``predicted`` (mean probability), ``right`` (share right).
    """
    bins = (best["probability"] * NUM_BINS).astype(int).clip(upper=NUM_BINS - 1)  # 1.0 belongs to the last bin
    table = best.groupby(bins).agg(
        reports=("right", "size"), predicted=("probability", "mean"), right=("right", "mean")
    )
    table.insert(0, "from", table.index / NUM_BINS)
    table.insert(1, "to", (table.index + 1) / NUM_BINS)
    return table.reset_index(drop=True)


def hubs(suggestions: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """Hubs: groups that are the best match of many reports but rarely the right one, such as empty templates.

    Returns:
        At most ``MAX_ROWS`` rows, worst first: ``id`` and ``title`` of the group's master, ``first`` (number of
        reports with this best match), ``right`` (number of right ones), ``highest`` (probability of a wrong one).
    """
    best = suggestions.best.assign(group=suggestions.group[suggestions.best["candidate"]])
    wrong = best[~best["right"]]
    table = best.groupby("group").agg(first=("right", "size"), right=("right", "sum"))
    table = table.assign(highest=wrong.groupby("group")["probability"].max()).dropna()
    table["wrong"] = table["first"] - table["right"]
    table = table[table["wrong"] > 1].sort_values(["wrong", "highest"], ascending=False).head(MAX_ROWS)
    ids_and_titles = corpus.reports.loc[table.index, ["id", "title"]]
    return pd.concat([ids_and_titles, table[["first", "right", "highest"]]], axis=1).reset_index(drop=True)


def examples(
    suggestions: Suggestions, corpus: Corpus, threshold: float | None, right: bool, max_rows: int = MAX_ROWS
) -> pd.DataFrame:
    """The most probable right or wrong suggestions, without unknown ones.

    Returns:
        Most probable first: ``probability``, ``report``, ``title of report``, ``suggested``,
        ``title of suggested``. Without a threshold all best matches are suggestions.
    """
    best = suggestions.known
    suggested = best[(best["right"] == right) & (best["probability"] >= (threshold or 0))]
    return _named_pairs(suggested, corpus).head(max_rows)


def unknown_table(suggestions: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """All unknown best matches with the columns of ``examples`` and ``why``."""
    return _named_pairs(suggestions.best[~suggestions.is_known], corpus, why="unknown")


def _named_pairs(best: pd.DataFrame, corpus: Corpus, **further: str) -> pd.DataFrame:
    """Best matches with ids and titles, most probable first, and ``further`` columns."""
    best = best.sort_values("probability", ascending=False, kind="stable")
    columns: dict[str, object] = {"probability": best["probability"].to_numpy()}
    for name, rows in zip(PAIR, (best["query"], best["candidate"]), strict=True):
        reports = corpus.reports.iloc[rows]
        columns[name] = reports["id"].to_numpy()
        columns[f"title of {name}"] = reports["title"].to_numpy()
    return pd.DataFrame(columns | {name: best[column].to_numpy() for name, column in further.items()})


def to_judge(tables: Mapping[str, pd.DataFrame], max_rows: int) -> pd.DataFrame:
    """The distinct pairs that a page lists for verdicts: wrong, unknown (at most ``max_rows``) and right suggestions.

    Returns:
        ``verdict`` (empty), ``marked`` (yes for marked duplicates), and the columns of the tables.
    """
    listed = [tables["wrong"], tables["unknown"].head(max_rows).drop(columns="why"), tables["right"]]
    marks = ["no", "no", "yes"]
    pairs = pd.concat([table.assign(marked=mark) for table, mark in zip(listed, marks, strict=True)])
    pairs = pairs.drop_duplicates(list(PAIR), ignore_index=True)
    pairs.insert(0, VERDICT, "")
    pairs.insert(1, "marked", pairs.pop("marked"))
    return pairs


def keep_suggestions(folder: Path, val: Suggestions, test: Suggestions, corpus: Corpus) -> None:
    """Writes the best matches, and id, title, address and group of each report, for ``read_suggestions``."""
    best = pd.concat([val.best.assign(part="val"), test.best.assign(part="test")], ignore_index=True)
    write_parquet(folder / SUGGESTIONS, best)
    write_parquet(folder / REPORTS, corpus.reports[["id", "title", "url"]].assign(group=corpus.group))


def read_suggestions(folder: Path, name: str) -> tuple[Suggestions, Suggestions, Corpus]:
    """The best matches of validation and test, and the reports, as ``keep_suggestions`` wrote them into a run folder.

    Raises:
        ValueError: If a file is damaged; names the file.
    """
    best = _read(folder / SUGGESTIONS, "part", "query", "candidate", "right", "rank", "unknown", "probability")
    reports = _read(folder / REPORTS, "id", "title", "url", "group")
    if ((best[["query", "candidate"]] < 0) | (best[["query", "candidate"]] >= len(reports))).to_numpy().any():
        raise ValueError(f"{folder / SUGGESTIONS} is damaged: it names rows that {REPORTS} does not have")
    group = reports.pop("group").to_numpy(dtype=np.int64)
    val, test = (
        Suggestions(best[best["part"] == part].drop(columns="part").reset_index(drop=True), group)
        for part in ("val", "test")
    )
    return val, test, Corpus.of_table(name, reports, group)


def _read(path: Path, *columns: str) -> pd.DataFrame:
    """A Parquet table, which must have the columns."""
    table = read_parquet(path)
    missing = [column for column in columns if column not in table]
    if missing:
        raise ValueError(f"{path} is damaged: it has no column {missing[0]!r}; run gedbd backtest again")
    return table


def enough_duplicates(corpus: Corpus) -> str:
    """Says in two sentences how many duplicates a corpus has, and whether they suffice for a backtest."""
    size = len(corpus)
    rows = np.flatnonzero(corpus.group < np.arange(size))
    count = f"{corpus.name}: {len(rows):,} of {size:,} reports repeat an earlier one ({len(rows) / size:.1%})."
    if not len(rows):
        return (
            f"{count} Nothing can be measured or learned without a known duplicate: gedbd index searches with the"
            " default ranker, and suggests nothing."
        )
    validation = int(((rows >= int(VALIDATION_FROM * size)) & (rows < int(TEST_FROM * size))).sum())
    test = int((rows >= int(TEST_FROM * size)).sum())
    needed = duplicates_needed(LOWEST_TARGET, LOWEST_CONFIDENCE)
    parts = f"The newest fifth of the reports holds {test:,} of them, the fifth before it {validation:,}"
    if validation < needed or not test:
        return (
            f"{count} {parts}: too few for a threshold of suggestions, which needs {needed:,} in the latter. Search"
            " works with the default ranker."
        )
    return f"{count} {parts}: enough for gedbd backtest to look for a threshold of suggestions and to measure them."
