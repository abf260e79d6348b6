"""What suggestions would have been worth: precision, coverage and calibration on the replayed history."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.urls import with_urls
from gedbd.evaluation.significance import ratio_intervals
from gedbd.triage.backtesting.targets import NO_THRESHOLD, TargetResult, verdict_of
from gedbd.triage.backtesting.thresholds import choose_threshold
from gedbd.triage.calibration import MATCH_FEATURES, NUM_BINS, Calibrator, calibration_error
from gedbd.triage.training import TriageModel, learn_probability

GRID = np.round(np.arange(0.01, 1.0, 0.01), 2)
TARGETS = (0.5, 0.6, 0.7, 0.8, 0.9)
MAX_ROWS = 20


@dataclass(frozen=True)
class Suggestions:
    """The best match of each replayed report of one part.

    Attributes:
        best: One row a report that has an earlier one: ``query``, ``candidate``, ``right``, ``probability``.
        duplicates: How many of the replayed reports have an earlier duplicate, whether it was found or not.
        group: ``(N,)`` group of every report.
    """

    best: pd.DataFrame
    duplicates: int
    group: np.ndarray


@dataclass(frozen=True)
class Backtest:
    """What a backtest has learnt and measured.

    Attributes:
        matching: What an index needs.
        val: Best matches of the validation part.
        test: Best matches of the test part.
        tables: By name: ``targets``, ``thresholds``, ``reliability``, ``hubs``, ``right`` and ``wrong``.
        calibration_error: Expected calibration error on test.
    """

    matching: TriageModel
    val: Suggestions
    test: Suggestions
    tables: dict[str, pd.DataFrame]
    calibration_error: float


def measure(
    replayed: pd.DataFrame,
    corpus: Corpus,
    weights: dict[str, float],
    target_precision: float,
    confidence_level: float,
    seed: int,
) -> Backtest:
    """Learns probabilities and thresholds on the older parts, and measures on test what suggestions are worth.

    Args:
        replayed: See ``replay_parts``.
        corpus: The reports.
        weights: Of the scores.
        target_precision: The precision target that counts; those of ``TARGETS`` are measured beside it.
        confidence_level: See ``choose_threshold``.
        seed: Of the regression.
    """
    confidence = learn_probability(replayed, seed)
    val, test = (suggestions(replayed, confidence, corpus.group, part) for part in ("val", "test"))
    others = [target for target in TARGETS if not isclose(target, target_precision)]
    targets = targets_table(val, test, sorted([*others, target_precision]), confidence_level)
    matching = TriageModel(weights, confidence, target_results(targets, period(test, corpus)), target_precision)
    tables = {"targets": targets} | tables_of(test, corpus, matching.target.threshold)
    return Backtest(matching, val, test, tables, calibration(test))


def suggestions(replayed: pd.DataFrame, confidence: Calibrator, group: np.ndarray, part: str) -> Suggestions:
    """The best matches of a part, with their probabilities."""
    mine = replayed[(replayed["part"] == part) & (replayed["place"] == 1)]
    probability = confidence(mine[list(MATCH_FEATURES)].to_numpy())
    best = mine[["query", "candidate", "right"]].assign(probability=probability).reset_index(drop=True)
    return Suggestions(best, int((group[best["query"]] < best["query"]).sum()), group)


def at_thresholds(found: Suggestions, thresholds: Sequence[float] | np.ndarray) -> pd.DataFrame:
    """What comes of suggesting the best match from a probability on.

    A suggestion is right if the two reports are of one group today. 95% intervals over duplicate groups, see
    ``ratio_intervals``.

    Returns:
        A row a threshold: ``threshold``, ``suggestions``, ``right``, ``precision`` (share of them that is right),
        ``coverage`` (share of all duplicates for which the right group is suggested), each with ``_low`` and ``_high``,
        and ``suggestion_rate`` (share of all reports that get a suggestion). At a threshold that is not a number there
        is no suggestion.
    """
    best = found.best
    flagged = best["probability"].to_numpy()[:, None] >= np.asarray(thresholds)[None, :]
    hits = flagged & best["right"].to_numpy()[:, None]
    duplicate = (found.group[best["query"]] < best["query"].to_numpy())[:, None] & np.ones_like(flagged)
    cluster = found.group[best["query"]]
    count, right = flagged.sum(axis=0), hits.sum(axis=0)
    table = pd.DataFrame({"threshold": thresholds, "suggestions": count, "right": right})
    for name, denominator in (("precision", flagged), ("coverage", duplicate)):
        table[name] = right / np.where(denominator.any(axis=0), denominator.sum(axis=0), np.nan)
        table[f"{name}_low"], table[f"{name}_high"] = ratio_intervals(hits, denominator, cluster)
    return table.assign(suggestion_rate=count / max(len(best), 1))


def targets_table(
    val: Suggestions, test: Suggestions, targets: Sequence[float], confidence_level: float
) -> pd.DataFrame:
    """For each precision target: the threshold that validation gives, and what comes of it on test.

    Returns:
        A row a target: ``target``, ``threshold`` (not a number if there is none), ``validation_suggestions`` and
        ``validation_precision`` at this threshold, the columns of ``at_thresholds`` for test, and ``verdict``.
    """
    best = val.best
    columns = best["probability"].to_numpy(), best["right"].to_numpy(), val.group[best["query"]]
    chosen = [choose_threshold(*columns, target, confidence_level) for target in targets]
    thresholds = np.array([np.nan if threshold is None else threshold for threshold in chosen])
    on_val, on_test = at_thresholds(val, thresholds), at_thresholds(test, thresholds)
    told = zip(targets, chosen, on_test["precision_low"], on_test["precision_high"], strict=True)
    verdicts = [
        NO_THRESHOLD if threshold is None else verdict_of(target, low, high) for target, threshold, low, high in told
    ]
    first = pd.DataFrame(
        {
            "target": targets,
            "threshold": thresholds,
            "validation_suggestions": on_val["suggestions"],
            "validation_precision": on_val["precision"],
        }
    )
    return pd.concat([first, on_test.drop(columns="threshold")], axis=1).assign(verdict=verdicts)


def target_results(table: pd.DataFrame, days: tuple[str | None, str | None]) -> tuple[TargetResult, ...]:
    """The rows of ``targets_table`` as an index keeps them; ``days`` are the first and the last of test."""
    first, last = days
    return tuple(
        TargetResult(
            target_precision=row["target"],
            threshold=_number(row["threshold"]),
            verdict=row["verdict"],
            suggestions=row["suggestions"],
            right=row["right"],
            precision=_number(row["precision"]),
            precision_low=_number(row["precision_low"]),
            precision_high=_number(row["precision_high"]),
            first=first,
            last=last,
        )
        for row in table.to_dict("records")
    )


def period(found: Suggestions, corpus: Corpus) -> tuple[str | None, str | None]:
    """First and last day of the replayed reports of a part; None if the corpus has no dates."""
    dates = corpus.reports["created_at"].iloc[found.best["query"]].dropna()
    return (None, None) if dates.empty else (f"{dates.min():%Y-%m-%d}", f"{dates.max():%Y-%m-%d}")


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value


def reliability(found: Suggestions) -> pd.DataFrame:
    """Said and true probability in bins of equal width: ``from``, ``to``, ``reports``, ``said``, ``right``."""
    bins = (found.best["probability"] * NUM_BINS).astype(int).clip(upper=NUM_BINS - 1)
    means = found.best.groupby(bins)[["probability", "right"]].mean()
    counts = bins.value_counts()[means.index]
    edges = {"from": means.index / NUM_BINS, "to": (means.index + 1) / NUM_BINS, "reports": counts}
    named = means.rename(columns={"probability": "said"}).assign(
        **{name: np.asarray(edge) for name, edge in edges.items()}
    )
    return named[["from", "to", "reports", "said", "right"]].reset_index(drop=True)


def calibration(found: Suggestions) -> float:
    """Expected calibration error of the best matches."""
    return calibration_error(found.best["probability"].to_numpy(), found.best["right"].to_numpy())


def hubs(found: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """Groups that come first for many reports and are hardly ever right, as filled-in templates and vague reports do.

    Returns:
        At most ``MAX_ROWS``, the worst first: ``id`` and ``title`` of the group's master, ``first`` (for how
        many reports it is the best match), ``right`` (of them), ``highest`` (probability among the wrong ones).
    """
    best = found.best.assign(group=found.group[found.best["candidate"]])
    wrong = best[~best["right"]]
    table = pd.DataFrame(
        {
            "first": best.groupby("group").size(),
            "right": best.groupby("group")["right"].sum(),
            "highest": wrong.groupby("group")["probability"].max(),
        }
    ).dropna()
    table["wrong"] = table["first"] - table["right"]
    table = table[table["wrong"] > 1].sort_values(["wrong", "highest"], ascending=False).head(MAX_ROWS)
    named = corpus.reports.loc[table.index, ["id", "title"]]
    return pd.concat([named, table[["first", "right", "highest"]]], axis=1).reset_index(drop=True)


def examples(found: Suggestions, corpus: Corpus, threshold: float | None, right: bool) -> pd.DataFrame:
    """The most probable right or wrong suggestions, to be looked at: duplicates that nobody has marked count as wrong.

    Args:
        found: The best matches.
        corpus: The reports.
        threshold: Only suggestions from this probability on; None for all best matches.
        right: Which of them.

    Returns:
        At most ``MAX_ROWS``, the most probable first: ``probability``, ``report``, ``title of report``, ``suggested``,
        ``title of suggested``.
    """
    chosen = found.best[(found.best["right"] == right) & (found.best["probability"] >= (threshold or 0))]
    chosen = chosen.sort_values("probability", ascending=False, kind="stable").head(MAX_ROWS)
    columns: dict[str, object] = {"probability": chosen["probability"].to_numpy()}
    for name, rows in (("report", chosen["query"]), ("suggested", chosen["candidate"])):
        reports = corpus.reports.iloc[rows]
        columns |= {name: reports["id"].to_numpy(), f"title of {name}": reports["title"].to_numpy()}
    return pd.DataFrame(columns)


def tables_of(test: Suggestions, corpus: Corpus, threshold: float | None) -> dict[str, pd.DataFrame]:
    """The tables about test by name; ``threshold`` is the chosen one."""
    thresholds = GRID if threshold is None else np.union1d(GRID, [threshold])
    tables = {
        "thresholds": at_thresholds(test, thresholds),
        "reliability": reliability(test),
        "hubs": hubs(test, corpus),
        "right": examples(test, corpus, threshold, right=True),
        "wrong": examples(test, corpus, threshold, right=False),
    }
    return {name: with_urls(table, corpus.reports) for name, table in tables.items()}
