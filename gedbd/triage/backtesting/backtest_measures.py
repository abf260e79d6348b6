"""Measures suggestions on the replayed history: precision, coverage and calibration."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.thresholds import (
    LIST_LENGTH,
    NO_THRESHOLD,
    TOO_FEW,
    TargetResult,
    choose_threshold,
    duplicates_needed,
    target_status,
)
from gedbd.io.console import stage
from gedbd.retrieval.reports.report_ranker import ReportRanker
from gedbd.triage.backtesting.history_learning import learn_probability
from gedbd.triage.backtesting.suggestions import (
    MAX_ROWS,
    Suggestions,
    examples,
    hubs,
    search_table,
    shares,
    unknown_table,
)
from gedbd.triage.confidence import CONFIDENCE_FEATURES, NUM_BINS, calibration_error
from gedbd.triage.triage_model import TriageModel

GRID = np.round(np.arange(0.01, 1.0, 0.01), 2)
TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9)
AS_MARKED = "as marked"
WITHOUT_UNKNOWN = "without unknown"


@dataclass(frozen=True)
class Backtest:
    """The result of a backtest.

    Attributes:
        matching: What was learned, as an index needs it.
        replayed: See ``LearntHistory``; empty for a backtest that was read from its folder.
        val: Best matches of the validation part.
        test: Best matches of the test part.
        tables: By name: ``targets``, ``lists`` (the same for ``Suggestions.lists``), ``search``, ``thresholds``,
            ``reliability``, ``hubs``, ``unknown``, ``right``, ``wrong``, ``probabilities``.
    """

    matching: TriageModel
    replayed: pd.DataFrame
    val: Suggestions
    test: Suggestions
    tables: dict[str, pd.DataFrame]

    @property
    def calibration_error(self) -> float:
        """Expected calibration error on those matches of test that are known to be right or wrong."""
        return float(self._without_unknown["calibration_error"])

    @property
    def average_precision(self) -> float:
        """Likewise the average precision of best matches in the order of their probabilities."""
        return float(self._without_unknown["average_precision"])

    @property
    def _without_unknown(self) -> dict[Hashable, Any]:
        return self.tables["probabilities"].to_dict("records")[-1]


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
    """Learns probabilities and thresholds on the older parts, and measures suggestions on test.

    Args:
        replayed: See ``LearntHistory``.
        corpus: The reports.
        ranker: The ranker of the index.
        target_precision: The precision target of the index; those of ``TARGETS`` are measured too.
        confidence_level: See ``choose_threshold``.
        seed: Seed of the trees.
        max_examples: Number of right and of wrong suggestions that are listed at most.
    """
    confidence, of_val = learn_probability(replayed, ranker, seed)
    val_matches = replayed[replayed["part"] == "val"].assign(probability=of_val)
    test_matches = replayed[replayed["part"] == "test"]
    of_test = confidence(test_matches[list(CONFIDENCE_FEATURES)].to_numpy())
    test_matches = test_matches.assign(probability=of_test)
    val = Suggestions.of_part(val_matches, corpus)
    test = Suggestions.of_part(test_matches, corpus)
    val_lists = Suggestions.lists(val_matches, corpus.group)
    test_lists = Suggestions.lists(test_matches, corpus.group)
    others = [target for target in TARGETS if not isclose(target, target_precision)]
    measured = sorted([*others, target_precision])
    targets = targets_table(val, test, measured, confidence_level)
    lists = targets_table(val_lists, test_lists, measured, confidence_level)
    days = period(test, corpus)
    of_lists = target_results(lists, days, LIST_LENGTH)
    matching = TriageModel(ranker, confidence, target_results(targets, days), target_precision, of_lists)
    tables = {"targets": targets, "lists": lists} | tables_of(test, corpus, matching.target.threshold, max_examples)
    return Backtest(matching, replayed, val, test, tables)


def at_thresholds(found: Suggestions, thresholds: Sequence[float] | np.ndarray) -> pd.DataFrame:
    """Precision, coverage and suggestion rate if the best match is suggested from each probability.

    A suggestion is right if the two reports are of one group today. Intervals (95%) are over duplicate groups, see
    ``ratio_intervals``.

    Returns:
        A row a threshold: ``threshold``, ``suggestions`` (without unknown ones), ``right``, ``precision`` (share of
        right suggestions), ``coverage`` (share of all duplicates for which the right group is suggested) and
        ``precision_as_marked`` (if unknown ones count as wrong), each with ``_low`` and ``_high``; ``unknown`` (number
        of suggestions of which nobody knows whether they are wrong), and ``suggestion_rate`` (share of all reports with
        a suggestion). A NaN threshold gives no suggestion.
    """
    best = found.best
    cluster = found.group[best["query"]]
    # (reports, thresholds): whether each report gets a suggestion, a right one, and whether it is a duplicate
    suggested = found.at(np.asarray(thresholds))
    known = suggested & found.is_known[:, None]
    hits = suggested & best["right"].to_numpy()[:, None]
    duplicate = (cluster < best["query"].to_numpy())[:, None] & np.ones_like(suggested)
    count = known.sum(axis=0)
    table = pd.DataFrame({"threshold": thresholds, "suggestions": count, "right": hits.sum(axis=0)})
    table = table.join(shares("precision", hits, known, cluster)).join(shares("coverage", hits, duplicate, cluster))
    table = table.join(shares("precision_as_marked", hits, suggested, cluster))
    total = suggested.sum(axis=0)
    return table.assign(unknown=total - count, suggestion_rate=total / max(len(best), 1))


def targets_table(
    val: Suggestions, test: Suggestions, targets: Sequence[float], confidence_level: float
) -> pd.DataFrame:
    """For each precision target the threshold chosen on validation, and the results of this threshold on test.

    Returns:
        A row a target: ``target``, ``threshold`` (NaN if there is none), ``validation_suggestions`` and
        ``validation_precision`` at this threshold, ``validation_duplicates`` and ``duplicates_needed`` (see
        ``duplicates_needed``), the columns of ``at_thresholds`` for test, and ``status``.
    """
    best = val.known.best
    columns = (best["probability"].to_numpy(), best["right"].to_numpy(), val.group[best["query"]])
    chosen = [choose_threshold(*columns, target, confidence_level) for target in targets]
    thresholds = np.array([np.nan if threshold is None else threshold for threshold in chosen])
    on_val = at_thresholds(val, thresholds)
    on_test = at_thresholds(test, thresholds)
    needed = [duplicates_needed(target, confidence_level) for target in targets]
    statuses = []
    ends = zip(on_test["precision_low"], on_test["precision_high"], strict=True)
    for target, threshold, least, (low, high) in zip(targets, chosen, needed, ends, strict=True):
        if threshold is not None:
            statuses.append(target_status(target, low, high))
        elif val.duplicates < least:
            statuses.append(TOO_FEW)
        else:
            statuses.append(NO_THRESHOLD)
    first = pd.DataFrame(
        {
            "target": targets,
            "threshold": thresholds,
            "validation_suggestions": on_val["suggestions"],
            "validation_precision": on_val["precision"],
            "validation_duplicates": val.duplicates,
            "duplicates_needed": needed,
        }
    )
    return pd.concat([first, on_test.drop(columns="threshold")], axis=1).assign(status=statuses)


def target_results(
    table: pd.DataFrame, days: tuple[str | None, str | None], list_length: int = 1
) -> tuple[TargetResult, ...]:
    """The rows of ``targets_table`` as an index stores them; ``days`` are the first and the last day of test."""
    first, last = days
    return tuple(
        TargetResult(
            target_precision=row["target"],
            threshold=_number(row["threshold"]),
            status=row["status"],
            suggestions=row["suggestions"],
            right=row["right"],
            unknown=row["unknown"],
            precision=_number(row["precision"]),
            precision_low=_number(row["precision_low"]),
            precision_high=_number(row["precision_high"]),
            first=first,
            last=last,
            list_length=list_length,
        )
        for row in table.to_dict("records")
    )


def period(found: Suggestions, corpus: Corpus) -> tuple[str | None, str | None]:
    """First and last day of the replayed reports; None if the corpus has no dates."""
    dates = corpus.reports["created_at"].iloc[found.best["query"]].dropna()
    return (None, None) if dates.empty else (f"{dates.min():%Y-%m-%d}", f"{dates.max():%Y-%m-%d}")


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def probability_table(found: Suggestions) -> pd.DataFrame:
    """How well probabilities tell right best matches from wrong ones, with unknown matches as wrong and without them.

    Returns:
        Two rows: ``counted`` (``AS_MARKED`` or ``WITHOUT_UNKNOWN``), ``matches``, ``right``, ``average_precision``
        (the area under the curve of precision and recall; NaN if none is right) and ``calibration_error``.
    """
    from sklearn.metrics import average_precision_score

    rows = []
    for counted, some in ((AS_MARKED, found), (WITHOUT_UNKNOWN, found.known)):
        probability = some.best["probability"].to_numpy()
        right = some.best["right"].to_numpy()
        average = average_precision_score(right, probability) if right.any() else np.nan
        error = calibration_error(probability, right)
        rows.append((counted, len(right), int(right.sum()), float(average), error))
    return pd.DataFrame(rows, columns=["counted", "matches", "right", "average_precision", "calibration_error"])


def reliability(found: Suggestions) -> pd.DataFrame:
    """Predicted and observed probability in bins of equal width; bins without reports are left out.

    Returns:
        A row a bin: ``from``, ``to``, ``reports``, ``predicted`` (mean probability), ``right`` (share of right ones).
    """
    bins = (found.best["probability"] * NUM_BINS).astype(int).clip(upper=NUM_BINS - 1)  # 1.0 belongs to the last bin
    means = found.best.groupby(bins)[["probability", "right"]].mean()
    table = pd.DataFrame({"from": means.index / NUM_BINS, "to": (means.index + 1) / NUM_BINS})
    table["reports"] = bins.value_counts()[means.index].to_numpy()
    table["predicted"] = means["probability"].to_numpy()
    table["right"] = means["right"].to_numpy()
    return table


def tables_of(
    test: Suggestions, corpus: Corpus, threshold: float | None, max_examples: int = MAX_ROWS
) -> dict[str, pd.DataFrame]:
    """The tables about test by name; ``threshold`` is the chosen threshold."""
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
