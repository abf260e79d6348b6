"""Best matches to look at: hubs, right and wrong suggestions, and wrong ones with the same title."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.report.judging import PAIR, VERDICT
from gedbd.triage.backtesting.suggestions import Suggestions, shares

MAX_ROWS = 20


def hubs(found: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """Hubs: groups that are the best match of many reports but rarely the right one, such as empty templates.

    Returns:
        At most ``MAX_ROWS``, the worst first: ``id`` and ``title`` of the group's master, ``first`` (number of
        reports whose best match it is), ``right`` (of them), ``highest`` (probability among the wrong ones).
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


def examples(
    found: Suggestions, corpus: Corpus, threshold: float | None, right: bool, max_rows: int = MAX_ROWS
) -> pd.DataFrame:
    """The most probable right or wrong suggestions, for inspection: duplicates that are not marked count as wrong.

    Args:
        found: The best matches.
        corpus: The reports.
        threshold: Minimum probability of a suggestion; None for all best matches.
        right: Whether right or wrong suggestions are returned.
        max_rows: Number of rows at most.

    Returns:
        The most probable first: ``probability``, ``report``, ``title of report``, ``suggested``,
        ``title of suggested``.
    """
    chosen = found.best[(found.best["right"] == right) & (found.best["probability"] >= (threshold or 0))]
    return named_pairs(chosen.sort_values("probability", ascending=False, kind="stable").head(max_rows), corpus)


def named_pairs(best: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """Best matches with ids and titles instead of row numbers; see ``examples``."""
    columns: dict[str, object] = {"probability": best["probability"].to_numpy()}
    for name, rows in zip(PAIR, (best["query"], best["candidate"]), strict=True):
        reports = corpus.reports.iloc[rows]
        columns[name] = reports["id"].to_numpy()
        columns[f"title of {name}"] = reports["title"].to_numpy()
    return pd.DataFrame(columns)


def unmarked_same_titles(found: Suggestions, corpus: Corpus) -> np.ndarray:
    """``(B,)`` bool: whether a best match has the report's own title, but nobody marked the two as duplicates.

    Case and white space do not count; an empty title is the same as no other.
    """
    titles = corpus.reports["title"].str.casefold().str.split().str.join(" ").to_numpy()
    mine = titles[found.best["query"]]
    same: np.ndarray = (mine == titles[found.best["candidate"]]) & (mine != "") & ~found.best["right"].to_numpy()
    return same


def same_title_table(found: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """The best matches of ``unmarked_same_titles``, all of them, as ``examples`` returns them."""
    same = found.best[unmarked_same_titles(found, corpus)]
    return named_pairs(same.sort_values("probability", ascending=False, kind="stable"), corpus)


def with_same_titles(targets: pd.DataFrame, found: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """Adds to the table of targets the precision if unmarked pairs with the same title do not count at all.

    Args:
        targets: See ``targets_table``; its columns do not change.
        found: The best matches that it was measured on.
        corpus: The reports.

    Returns:
        The table with ``same_title`` (number of suggestions of ``unmarked_same_titles``) and
        ``precision_without_same_title``, with ``_low`` and ``_high``.
    """
    same = unmarked_same_titles(found, corpus)[:, None]
    suggested = found.at(targets["threshold"].to_numpy())
    right = found.best["right"].to_numpy()[:, None]
    cluster = found.group[found.best["query"]]
    without = shares("precision_without_same_title", suggested & right, suggested & ~same, cluster)
    return targets.assign(same_title=(suggested & same).sum(axis=0)).join(without)


def to_judge(tables: Mapping[str, pd.DataFrame], max_rows: int) -> pd.DataFrame:
    """The pairs that a page lists for verdicts, each once: wrong and right suggestions, and same titles.

    Args:
        tables: ``wrong``, ``right`` and ``same_title``.
        max_rows: Number of pairs with the same title at most.

    Returns:
        Their columns behind ``verdict``, which is empty, and ``marked`` (yes if the two are marked as duplicates).
    """
    listed = [tables["wrong"], tables["same_title"].head(max_rows), tables["right"]]
    marks = ["no", "no", "yes"]
    both = pd.concat([table.assign(marked=mark) for table, mark in zip(listed, marks, strict=True)])
    both = both.drop_duplicates(list(PAIR), ignore_index=True)
    both.insert(0, VERDICT, "")
    both.insert(1, "marked", both.pop("marked"))
    return both
