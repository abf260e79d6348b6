"""The corpus: every report of one tracker, in filing order, with its duplicate group."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

FIELDS = ("issue_id", "title", "description", "created_at", "component", "version", "priority", "status", "resolution")


@dataclass(frozen=True)
class Corpus:
    """All reports of a tracker. From here on the row number is a report's only identity.

    Attributes:
        name: Short name of the tracker, used for folders and titles.
        reports: N rows in filing order, indexed 0..N-1, with the columns of ``FIELDS``; ``created_at`` is UTC,
            ``NaT`` throughout where the tracker gives no dates (the rows are then in the order of their ids).
        group: ``(N,)`` int64. A group is a connected component of the "is a duplicate of" links; its number is the
            row of its master, the oldest report. A report without a link is a group of its own.
        notices: What the reader met, kept or left out, counted, in sentences for the user.
    """

    name: str
    reports: pd.DataFrame
    group: np.ndarray
    notices: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.reports)

    @property
    def in_group(self) -> np.ndarray:
        """``(N,)`` bool: reports that have at least one duplicate."""
        _, inverse, counts = np.unique(self.group, return_inverse=True, return_counts=True)
        return np.asarray(counts[inverse] > 1)
