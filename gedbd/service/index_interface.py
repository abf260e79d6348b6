"""The interface of an index, as the service uses it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from gedbd.triage.backtesting.targets import TargetResult
from gedbd.triage.report import Filters, Match, Report


class Index(Protocol):
    """Stored reports that can be searched and changed; every method may be called from many threads at once."""

    folder: Path
    name: str
    targets: tuple[TargetResult, ...]
    target: TargetResult

    def __len__(self) -> int: ...

    def search(self, report: Report, top_k: int = 10, filters: Filters = ...) -> list[Match]:
        """Returns the groups that a report may belong to, the best first."""
        ...

    def add(self, reports: Sequence[Report], fields: Sequence[str] | None = None) -> dict[str, str]:
        """Stores the given fields of reports, or all; returns for each id "added", "updated" or "unchanged"."""
        ...

    def link(self, report_id: str, duplicate_id: str, source: str) -> None:
        """Marks two stored reports as duplicates. Raises ValueError if they are the same report or unknown."""
        ...

    def unlink(self, report_id: str, duplicate_id: str, source: str | None = None) -> bool:
        """Deletes the links between two reports, of one source or of all; returns whether there was one."""
        ...

    def delete(self, issue_id: str) -> bool:
        """Deletes a report; returns whether there was one."""
        ...

    def forget(self, issue_id: str) -> bool:
        """Deletes a report and erases all that came from it; returns whether there was one."""
        ...

    def get(self, issue_id: str) -> Report | None:
        """Returns a stored report."""
        ...

    def close(self) -> None:
        """Closes the files."""
        ...
