"""What suggestions would have been worth: precision, coverage and calibration on the replayed history."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.data.corpus import Corpus
from gedbd.data.urls import with_urls
from gedbd.evaluation.significance import ratio_intervals
from gedbd.matching.confidence import BINS, SIGNALS, calibration_error
from gedbd.matching.learn import Matching, recommend

GRID = np.round(np.arange(0.01, 1.0, 0.01), 2)
WANTED = (0.5, 0.6, 0.7, 0.8, 0.9)
COUNTS = ("validation suggestions", "suggestions", "right")
MOST_ROWS = 20


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


def suggestions(replayed: pd.DataFrame, matching: Matching, group: np.ndarray, part: str) -> Suggestions:
    """The best matches of a part, with their probabilities."""
    mine = replayed[(replayed["part"] == part) & (replayed["place"] == 1)]
    probability = matching.confidence(mine[list(SIGNALS)].to_numpy())
    best = mine[["query", "candidate", "right"]].assign(probability=probability).reset_index(drop=True)
    return Suggestions(best, int((group[best["query"]] < best["query"]).sum()), group)


def at_thresholds(found: Suggestions, thresholds: Sequence[float] | np.ndarray) -> pd.DataFrame:
    """What comes of suggesting the best match from a probability on.

    A suggestion is right if the two reports are of one group today. Intervals resample duplicate groups, 95%.

    Returns:
        A row a threshold: ``threshold``, ``suggestions``, ``right``, ``precision`` (share of them that is right),
        ``coverage`` (share of all duplicates for which the right group is suggested), each with ``_low`` and ``_high``,
        and ``bothered`` (share of all reports that get a suggestion).
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
    return table.assign(bothered=count / max(len(best), 1))


def promises(val: Suggestions, test: Suggestions) -> pd.DataFrame:
    """For each wanted precision: the threshold that validation recommends, and whether test keeps what it promises.

    ``kept`` says whether the wanted precision lies within or below the interval of test's; empty without a threshold,
    or where test has no suggestion.
    """
    rows = []
    for wanted in WANTED:
        threshold = recommend(val.best["probability"].to_numpy(), val.best["right"].to_numpy(), wanted)
        row: dict[str, object] = {"wanted": wanted, "threshold": np.nan if threshold is None else threshold}
        if threshold is not None:
            on_val, on_test = (at_thresholds(part, [threshold]).iloc[0] for part in (val, test))
            row |= {"validation precision": on_val["precision"], "validation suggestions": on_val["suggestions"]}
            row |= {name: on_test[name] for name in on_test.index if name != "threshold"}
            high = on_test["precision_high"]
            row["kept"] = "" if np.isnan(high) else "yes" if wanted <= high else "no"
        rows.append(row)
    return pd.DataFrame(rows).astype({name: "Int64" for name in COUNTS if any(name in row for row in rows)})


def reliability(found: Suggestions) -> pd.DataFrame:
    """Said and true probability in bins of equal width: ``from``, ``to``, ``reports``, ``said``, ``right``."""
    bins = (found.best["probability"] * BINS).astype(int).clip(upper=BINS - 1)
    means = found.best.groupby(bins)[["probability", "right"]].mean()
    counts = bins.value_counts()[means.index]
    edges = {"from": means.index / BINS, "to": (means.index + 1) / BINS, "reports": counts}
    named = means.rename(columns={"probability": "said"}).assign(
        **{name: np.asarray(edge) for name, edge in edges.items()}
    )
    return named[["from", "to", "reports", "said", "right"]].reset_index(drop=True)


def calibration(found: Suggestions) -> float:
    """Expected calibration error of the best matches."""
    return calibration_error(found.best["probability"].to_numpy(), found.best["right"].to_numpy())


def magnets(found: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """Groups that come first for many reports and are hardly ever right, as filled-in templates and vague reports do.

    Returns:
        At most ``MOST_ROWS``, the worst first: ``issue_id`` and ``title`` of the group's master, ``first`` (for how
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
    table = table[table["wrong"] > 1].sort_values(["wrong", "highest"], ascending=False).head(MOST_ROWS)
    named = corpus.reports.loc[table.index, ["issue_id", "title"]]
    return pd.concat([named, table[["first", "right", "highest"]]], axis=1).reset_index(drop=True)


def wrong_ones(found: Suggestions, corpus: Corpus, threshold: float | None) -> pd.DataFrame:
    """The surest wrong suggestions, to be looked at: some may be duplicates that nobody has marked.

    Without a threshold the surest of all.
    """
    wrong = found.best[~found.best["right"] & (found.best["probability"] >= (threshold or 0))]
    wrong = wrong.sort_values("probability", ascending=False, kind="stable").head(MOST_ROWS)
    columns: dict[str, object] = {"probability": wrong["probability"].to_numpy()}
    for name, rows in (("report", wrong["query"]), ("suggested", wrong["candidate"])):
        chosen = corpus.reports.iloc[rows]
        columns |= {name: chosen["issue_id"].to_numpy(), f"title of {name}": chosen["title"].to_numpy()}
    return pd.DataFrame(columns)


def tables_of(val: Suggestions, test: Suggestions, corpus: Corpus, matching: Matching) -> dict[str, pd.DataFrame]:
    """All tables of a backtest, by name."""
    thresholds = GRID if matching.threshold is None else np.union1d(GRID, [matching.threshold])
    tables = {
        "promises": promises(val, test),
        "thresholds": at_thresholds(test, thresholds),
        "reliability": reliability(test),
        "magnets": magnets(test, corpus),
        "wrong": wrong_ones(test, corpus, matching.threshold),
    }
    return {name: with_urls(table, corpus.reports) for name, table in tables.items()}
