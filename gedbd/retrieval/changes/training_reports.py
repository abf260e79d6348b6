"""Fixed reports to train rankers of changes on."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.retrieval.changes.history import ChangeHistory, ChangeQuery
from gedbd.retrieval.changes.known_fixes import KnownFix, KnownFixes


class TrainingReport(NamedTuple):
    """A fixed report.

    Attributes:
        query: The report.
        fixing: ``(X,)`` rows of the commits that fixed it.
        inducing: ``(I,)`` rows of the commits that induced it; those that are not before the report do not count.
        extra: Further scores of the commits by name, each ``(n,)`` or longer.
    """

    query: ChangeQuery
    fixing: np.ndarray
    inducing: np.ndarray
    extra: Mapping[str, np.ndarray] = {}


class TrainingSet(NamedTuple):
    """The reports of one repository.

    Attributes:
        history: Its commits.
        reports: Its reports. One without an inducing commit teaches which files are meant.
        fixes: Fixed bugs; None if the ranker is for repositories without a tracker.
        rows: Rows of the reports in their corpus, where they are of one.
    """

    history: ChangeHistory
    reports: Sequence[TrainingReport]
    fixes: KnownFixes | None = None
    rows: tuple[int, ...] = ()


def training_set(
    corpus: ChangeCorpus, reports: Iterable[int], history: ChangeHistory | None = None, tracker: bool = True
) -> TrainingSet:
    """Some reports of a corpus, for training.

    Args:
        corpus: Reports, commits and links.
        reports: Rows of reports. Those without a fixing commit are left out.
        history: The commits of the corpus; None makes it.
        tracker: Whether the ranker reads earlier fixes. All fixes of the corpus are given, as each query reads only
            those before it.

    Raises:
        ValueError: The corpus has no reports, or no links to fixing and inducing commits.
    """
    table, fixing, inducing = _links(corpus)
    history = history_of(corpus) if history is None else history
    rows = tuple(row for row in reports if row in fixing)
    nothing = np.empty(0, dtype=np.int64)
    chosen = [TrainingReport(query_of(table.iloc[row]), fixing[row], inducing.get(row, nothing)) for row in rows]
    return TrainingSet(history, chosen, known_fixes(corpus, history) if tracker else None, rows)


def history_of(corpus: ChangeCorpus) -> ChangeHistory:
    """The commits of a corpus; their rows are those of its table."""
    history = ChangeHistory()
    history.add(corpus.commits.table, corpus.files.table)
    return history


def query_of(report: pd.Series) -> ChangeQuery:
    """A row of the table of reports as a query."""
    created_at = None if pd.isna(report["created_at"]) else report["created_at"]
    return ChangeQuery(report["title"], report["description"], created_at)


def known_fixes(corpus: ChangeCorpus, history: ChangeHistory) -> KnownFixes:
    """The fixed bugs of a corpus, see ``fixes_of``. Raises ValueError, see ``training_set``."""
    return KnownFixes(history, list(fixes_of(corpus).values()))


def fixes_of(corpus: ChangeCorpus) -> dict[int, KnownFix]:
    """The fixed bugs of a corpus by the row of their report, each known from the date of its last fix on.

    Where a report was written after its fix, the fix is known from the report's date on: before it, nothing connects
    the two, and what a query reads are fixes known before it, so never its own.

    Raises:
        ValueError: See ``training_set``.
    """
    table, fixing, inducing = _links(corpus)
    ids = np.array(corpus.commits.table["id"])
    dates = corpus.commits.table["created_at"]
    nothing = np.empty(0, dtype=np.int64)
    return {
        row: KnownFix(
            title=table["title"].iloc[row],
            description=table["description"].iloc[row],
            known_at=_later(dates.iloc[commits].max(), table["created_at"].iloc[row]),
            fixing=tuple(ids[commits]),
            inducing=tuple(ids[inducing.get(row, nothing)]),
        )
        for row, commits in fixing.items()
    }


def _later(fixed: pd.Timestamp, created: pd.Timestamp) -> pd.Timestamp:
    """The later one of two dates, of which the second may be missing."""
    return fixed if pd.isna(created) else max(fixed, created)


def _links(corpus: ChangeCorpus) -> tuple[pd.DataFrame, dict[int, np.ndarray], dict[int, np.ndarray]]:
    """The table of reports, and rows of fixing and inducing commits by report."""
    if corpus.reports is None or corpus.fixing is None or "commit" not in corpus.inducing:
        raise ValueError(f"{corpus.name}: a ranker of changes needs reports with links to fixing and inducing commits")
    found = []
    for links in (corpus.fixing, corpus.inducing["commit"]):
        by_report = links.table.groupby("query")["document"]
        rows = links.table["query"].unique().tolist()
        found.append({row: np.unique(by_report.get_group(row).to_numpy(dtype=np.int64)) for row in rows})
    return corpus.reports.documents.table, found[0], found[1]
