"""The reports of a tracker for which it is known which earlier commits induced the bug."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.relevance import Links
from gedbd.retrieval.changes.history import ChangeQuery


@dataclass(frozen=True)
class LabelledReports:
    """Reports with an inducing commit before them, in chronological order.

    Attributes:
        rows: ``(L,)`` their rows among all reports.
        inducing: For each of them the rows of its inducing commits before it.
        made_at: ``(L,)`` when the last of these links became known: the date of the fix; ``NaT`` where unknown.
        num_reports: Number of all reports.
        num_fixed: Number of the reports that a commit fixes.
        num_unordered: Number of the reports whose inducing commits are all later than they are.
    """

    rows: np.ndarray
    inducing: list[np.ndarray]
    made_at: pd.Series
    num_reports: int
    num_fixed: int
    num_unordered: int

    def __len__(self) -> int:
        return len(self.rows)

    def query(self, corpus: ChangeCorpus, place: int) -> ChangeQuery:
        """The report in a place as a query."""
        assert corpus.reports is not None
        report = corpus.reports.reports.iloc[int(self.rows[place])]
        return ChangeQuery(report["title"], report["description"], report["created_at"])


def labelled_reports(corpus: ChangeCorpus) -> LabelledReports:
    """The reports that can be tested, and counts of those that cannot.

    Raises:
        ValueError: If the corpus has no reports, no inducing commits or reports without dates.
    """
    if corpus.reports is None or "commit" not in corpus.inducing:
        raise ValueError(
            f"{corpus.name}: there are no reports with inducing commits; give the tracker's export, such as"
            " repo=. dataset=csv dataset.path=issues.csv"
        )
    created_at = corpus.reports.reports["created_at"]
    if created_at.isna().any():
        raise ValueError(f"{corpus.name}: reports without a date cannot be replayed; give dataset.columns.created_at")
    links = corpus.inducing["commit"]
    earlier = _earlier_links(links, created_at, corpus.commits.table["created_at"])
    by_report = earlier.groupby("query")
    # max() skips NaT: a report counts as known once the dated links are, unless one has no date
    made_at = by_report["made_at"].max().where(by_report["made_at"].count() == by_report.size())
    num_fixed = 0 if corpus.fixing is None else int(corpus.fixing.table["query"].nunique())
    return LabelledReports(
        made_at.index.to_numpy(dtype=np.int64),
        [np.unique(rows.to_numpy(dtype=np.int64)) for _, rows in by_report["document"]],
        made_at.reset_index(drop=True),
        len(corpus.reports),
        num_fixed,
        int(links.table["query"].nunique()) - len(made_at),
    )


def _earlier_links(links: Links, reported: pd.Series, committed: pd.Series) -> pd.DataFrame:
    """The links to commits that were made strictly before the report."""
    table = links.table
    queried_at = reported.iloc[table["query"]].reset_index(drop=True)
    changed_at = committed.iloc[table["document"]].reset_index(drop=True)
    return table.reset_index(drop=True)[(changed_at < queried_at).to_numpy()]
