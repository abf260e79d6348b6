"""The best matches of replayed reports: the files that keep them, and tables of hubs, right and wrong ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.significance import ratio_intervals
from gedbd.evaluation.thresholds import LIST_LENGTH
from gedbd.experiments.report.judging import PAIR, VERDICT
from gedbd.io.table_files import read_parquet, write_parquet
from gedbd.triage.backtesting.unknown_matches import unknown_reasons

SUGGESTIONS = "suggestions.parquet"
REPORTS = "reports.parquet"
KEPT_PARTS = ("val", "test")
RANKS = (1, 5, 10)
UNKNOWN_LIST = "one of the list is unknown"
MAX_ROWS = 20


@dataclass(frozen=True)
class Suggestions:
    """The best match of each replayed report of one part.

    Attributes:
        best: One row a report with a candidate: ``query``, ``candidate``, ``right``, ``rank`` (of the first right
            candidate, 0 if none is right), ``unknown`` (why it is unknown whether it is wrong, see
            ``unknown_reasons``), ``probability``.
        duplicates: Number of replayed reports that have an earlier duplicate, found or not.
        group: ``(N,)`` group of every report.
    """

    best: pd.DataFrame
    duplicates: int
    group: np.ndarray

    @classmethod
    def of(cls, best: pd.DataFrame, group: np.ndarray) -> "Suggestions":
        """The best matches with the number of duplicates among their queries."""
        # A group is named by its first report: a report of an earlier group has an earlier duplicate.
        return cls(best, int((group[best["query"]] < best["query"]).sum()), group)

    @classmethod
    def of_part(cls, matches: pd.DataFrame, corpus: Corpus) -> "Suggestions":
        """The best matches of a part; ``matches`` are its replayed ones with their ``probability``."""
        mine = matches[matches["place"] == 1]
        best = mine[["query", "candidate", "right", "rank"]].reset_index(drop=True)
        best = best.assign(unknown=unknown_reasons(best, corpus), probability=mine["probability"].to_numpy())
        return cls.of(best, corpus.group)

    @classmethod
    def lists(cls, matches: pd.DataFrame, group: np.ndarray) -> "Suggestions":
        """Lists of the best matches instead of best matches alone: right if one of them is.

        The probability that one is right is the sum of theirs, as at most one group is the right one. A list without a
        right match is unknown if one of its matches is.

        Args:
            matches: See ``of_part``.
            group: ``(N,)`` group of every report.
        """
        listed = matches[matches["place"] <= LIST_LENGTH].groupby("query")
        best = listed[["candidate", "rank"]].first()
        right = listed["right"].any()
        is_unknown = listed["unknown"].any() & ~right
        probability = listed["probability"].sum().clip(upper=1)
        best = best.assign(right=right, unknown=np.where(is_unknown, UNKNOWN_LIST, ""), probability=probability)
        return cls.of(best.reset_index(), group)

    @property
    def is_known(self) -> np.ndarray:
        """``(B,)`` bool, whether it is known if a best match is right."""
        return (self.best["unknown"] == "").to_numpy()

    @property
    def known(self) -> "Suggestions":
        """Those of which it is known whether they are right."""
        return Suggestions(self.best[self.is_known], self.duplicates, self.group)

    def at(self, thresholds: np.ndarray) -> np.ndarray:
        """``(B, T)`` bool: whether each best match is a suggestion from each probability; NaN gives none."""
        suggested: np.ndarray = self.best["probability"].to_numpy()[:, None] >= np.asarray(thresholds)[None, :]
        return suggested


def search_table(found: Suggestions) -> pd.DataFrame:
    """For how many duplicates a search would have shown the right group among the first.

    Returns:
        A row for each of ``RANKS``: ``first`` (number of matches that are looked at), ``found``, ``duplicates``,
        ``share`` with its 95% interval, ``share_low`` and ``share_high``; NaN without duplicates.
    """
    best = found.best
    cluster = found.group[best["query"]]
    rank = best["rank"].to_numpy()[:, None]
    hits = (rank > 0) & (rank <= np.array(RANKS))
    duplicate = (cluster < best["query"].to_numpy())[:, None] & np.ones_like(hits)
    table = pd.DataFrame({"first": RANKS, "found": hits.sum(axis=0), "duplicates": found.duplicates})
    return table.join(shares("share", hits, duplicate, cluster))


def shares(name: str, numerator: np.ndarray, denominator: np.ndarray, cluster: np.ndarray) -> pd.DataFrame:
    """Shares with their 95% intervals, see ``ratio_intervals``.

    Args:
        name: Name of the share.
        numerator: ``(B, T)`` bool, the hits.
        denominator: ``(B, T)`` bool, what is counted.
        cluster: ``(B,)`` group of each unit.

    Returns:
        T rows: ``<name>``, ``<name>_low``, ``<name>_high``; NaN where nothing is counted.
    """
    counted = np.where(denominator.any(axis=0), denominator.sum(axis=0), np.nan)
    low, high = ratio_intervals(numerator, denominator, cluster)
    return pd.DataFrame({name: numerator.sum(axis=0) / counted, f"{name}_low": low, f"{name}_high": high})


def keep_suggestions(folder: Path, val: Suggestions, test: Suggestions, corpus: Corpus) -> None:
    """Writes the best matches, and id, title, address and group of every report, for ``read_suggestions``."""
    best = pd.concat([val.best.assign(part="val"), test.best.assign(part="test")], ignore_index=True)
    write_parquet(folder / SUGGESTIONS, best)
    write_parquet(folder / REPORTS, corpus.reports[["id", "title", "url"]].assign(group=corpus.group))


def read_suggestions(folder: Path, name: str) -> tuple[Suggestions, Suggestions, Corpus]:
    """The best matches of validation and test, and the reports, which have no other columns than these.

    Args:
        folder: The run folder.
        name: Name of the corpus.

    Raises:
        ValueError: If a file is damaged; names the file.
    """
    best = _read(folder / SUGGESTIONS, "part", "query", "candidate", "right", "rank", "unknown", "probability")
    reports = _read(folder / REPORTS, "id", "title", "url", "group")
    if ((best[["query", "candidate"]] < 0) | (best[["query", "candidate"]] >= len(reports))).to_numpy().any():
        raise ValueError(f"{folder / SUGGESTIONS} is damaged: it names rows that {REPORTS} does not have")
    group = reports.pop("group").to_numpy(dtype=np.int64)
    val, test = (
        Suggestions.of(best[best["part"] == part].drop(columns="part").reset_index(drop=True), group)
        for part in KEPT_PARTS
    )
    return val, test, Corpus.of_table(name, reports, group)


def _read(path: Path, *columns: str) -> pd.DataFrame:
    """A Parquet table with some columns."""
    table = read_parquet(path)
    missing = [column for column in columns if column not in table]
    if missing:
        raise ValueError(f"{path} is damaged: it has no column {missing[0]!r}; run gedbd backtest again")
    return table


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
    """The most probable right or wrong suggestions, for inspection, without unknown ones.

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
    best = found.known.best
    chosen = best[(best["right"] == right) & (best["probability"] >= (threshold or 0))]
    return named_pairs(chosen.sort_values("probability", ascending=False, kind="stable").head(max_rows), corpus)


def named_pairs(best: pd.DataFrame, corpus: Corpus) -> pd.DataFrame:
    """Best matches with ids and titles instead of row numbers; see ``examples``."""
    columns: dict[str, object] = {"probability": best["probability"].to_numpy()}
    for name, rows in zip(PAIR, (best["query"], best["candidate"]), strict=True):
        reports = corpus.reports.iloc[rows]
        columns[name] = reports["id"].to_numpy()
        columns[f"title of {name}"] = reports["title"].to_numpy()
    return pd.DataFrame(columns)


def unknown_table(found: Suggestions, corpus: Corpus) -> pd.DataFrame:
    """All best matches that are unknown, as ``examples`` returns them, with a column ``why``."""
    unknown = found.best[~found.is_known].sort_values("probability", ascending=False, kind="stable")
    return named_pairs(unknown, corpus).assign(why=unknown["unknown"].to_numpy())


def to_judge(tables: Mapping[str, pd.DataFrame], max_rows: int) -> pd.DataFrame:
    """The pairs that a page lists for verdicts, each once: wrong, unknown and right suggestions.

    Args:
        tables: ``wrong``, ``right`` and ``unknown``.
        max_rows: Number of unknown pairs at most.

    Returns:
        Their columns behind ``verdict``, which is empty, and ``marked`` (yes if the two are marked as duplicates).
    """
    listed = [tables["wrong"], tables["unknown"].head(max_rows).drop(columns="why"), tables["right"]]
    marks = ["no", "no", "yes"]
    both = pd.concat([table.assign(marked=mark) for table, mark in zip(listed, marks, strict=True)])
    both = both.drop_duplicates(list(PAIR), ignore_index=True)
    both.insert(0, VERDICT, "")
    both.insert(1, "marked", both.pop("marked"))
    return both
