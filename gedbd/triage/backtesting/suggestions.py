"""The best matches of replayed reports: how often they are right, and the files that keep them in a run folder."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.evaluation.significance import ratio_intervals
from gedbd.io.table_files import read_parquet, write_parquet

SUGGESTIONS = "suggestions.parquet"
REPORTS = "reports.parquet"
KEPT_PARTS = ("val", "test")
RANKS = (1, 5, 10)


@dataclass(frozen=True)
class Suggestions:
    """The best match of each replayed report of one part.

    Attributes:
        best: One row a report with a candidate: ``query``, ``candidate``, ``right``, ``rank`` (of the first right
            candidate, 0 if none is right), ``probability``.
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
    best = _read(folder / SUGGESTIONS, "part", "query", "candidate", "right", "rank", "probability")
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
