"""Links from reports to changes, collected one by one."""

import pandas as pd
from pandas.api.typing import NaTType

from gedbd.corpora.relevance import Links

LINK_COLUMNS = ["query", "document", "source", "made_at"]


class LinkBuilder:
    """Collects links between reports and the rows of one table; each pair once, with the earliest date.

    Args:
        num_reports: Number of reports.
        num_documents: Number of rows of the other table.
        source: What states the links.
    """

    def __init__(self, num_reports: int, num_documents: int, source: str) -> None:
        self.num_reports = num_reports
        self.num_documents = num_documents
        self.source = source
        self._rows: list[tuple[int, int, pd.Timestamp | NaTType]] = []

    def add(self, report: int, document: int, made_at: pd.Timestamp | NaTType) -> None:
        """Adds a link between two rows; ``made_at`` is UTC, or ``NaT`` if unknown."""
        self._rows.append((report, document, made_at))

    def links(self) -> Links:
        """The links, by report and then by document."""
        table = pd.DataFrame(self._rows, columns=["query", "document", "made_at"])
        table = table.astype({"query": "int64", "document": "int64"}).assign(source=self.source)
        table["made_at"] = pd.to_datetime(table["made_at"], utc=True)
        table = table.sort_values(["query", "document", "made_at"], kind="stable")
        kept = table.drop_duplicates(["query", "document"])[LINK_COLUMNS].reset_index(drop=True)
        return Links(kept, self.num_reports, self.num_documents)
