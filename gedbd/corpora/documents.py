"""Documents: a table of reports, questions or changesets in chronological order."""

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Documents:
    """N documents in chronological order. The row number is a document's only identity.

    Attributes:
        name: Short name of the collection, used for folders and titles.
        table: N rows, indexed 0..N-1, with the columns ``id`` (text, unique), ``created_at`` (UTC, ``NaT`` throughout
            where there are no dates), text columns and attributes. Which ones, the reader of the collection declares.
        warnings: What the reader dropped, filled in or found unusual, with counts, one sentence each.
        more_texts: Text columns besides title and description that belong to the contents of a document.
        template: Lines of the tracker's issue template, which were left out of the descriptions.
    """

    name: str
    table: pd.DataFrame
    warnings: tuple[str, ...] = ()
    more_texts: tuple[str, ...] = ()
    template: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.table)

    @property
    def ids(self) -> pd.Series:
        """``(N,)`` ids."""
        return self.table["id"]

    @property
    def has_dates(self) -> bool:
        """Whether the documents are dated; then each of them is."""
        return not bool(self.table["created_at"].isna().all())
