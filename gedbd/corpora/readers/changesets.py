"""Read a file of changesets: one JSON object a line with commit, parents, date, message, files and diff."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from gedbd.corpora.dates import EXPECTED, parse_date
from gedbd.corpora.readers.json_lines import Record, read_json_lines
from gedbd.corpora.repository.commits import Commit, FileChange
from gedbd.corpora.repository.patch import parse_patch

# What a record must have, with the type of each; ``truncated`` may be absent.
FIELDS = {"commit": str, "parents": list, "commit_date": str, "message": str, "files": list, "diff": str}


class Changesets:
    """The changesets of a file, oldest first; ``warnings`` are complete once all were read.

    A file lists them newest first, as ``git log`` does. A commit dated before its parent takes the parent's date.

    Args:
        path: The file, plain or packed as ``.xz`` or ``.gz``.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._counts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Commit]:
        """Yields the commits.

        Raises:
            ValueError: A record is malformed, an id occurs twice, or there is none; names file and row.
        """
        records = list(read_json_lines(self.path))
        if not records:
            raise ValueError(f"{self.path}: the file is empty; it needs one changeset per line")
        dates: dict[str, datetime] = {}
        for row, record in reversed(records):
            commit = self._commit(f"{self.path}, row {row}", record, dates)
            if commit.id in dates:
                raise ValueError(
                    f"{self.path}, row {row}: the commit {commit.id} occurs twice; keep only one of the two"
                )
            dates[commit.id] = commit.created_at
            yield commit

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was unusual so far, with counts."""
        return tuple(f"{what}: {count:,}" for what, count in self._counts.items() if count)

    def _commit(self, place: str, record: Record, dates: dict[str, datetime]) -> Commit:
        """The commit of a record; ``dates`` holds those of the commits before it."""
        check_record(place, record)
        try:
            created_at = parse_date(record["commit_date"])
        except ValueError as error:
            raise ValueError(
                f"{place}: unreadable commit_date {record['commit_date']!r}; expected: {EXPECTED}"
            ) from error
        latest = max([created_at, *(dates[parent] for parent in record["parents"] if parent in dates)])
        self._counts["commits dated before their parent, given the date of the parent"] += latest > created_at
        is_cut = bool(record.get("truncated", False))
        shown = parse_patch(record["diff"].strip("\n").split("\n"))
        files = self._all_files(shown, record["files"], is_cut)
        return Commit(record["commit"], tuple(record["parents"]), latest, record["message"], files, is_cut)

    def _all_files(self, shown: list[FileChange], named: list[str], is_cut: bool) -> tuple[FileChange, ...]:
        """The files that the diff shows, and those that the record only names; a cut diff lacks the last ones."""
        if is_cut and shown and shown[-1].path not in named:
            shown = shown[:-1]  # its path was cut off too
        paths = {change.path for change in shown} | {change.old_path for change in shown}
        absent = [path for path in dict.fromkeys(named) if path not in paths]
        if not is_cut:
            self._counts["files missing from a complete diff, kept without hunks"] += len(absent)
        return (*shown, *(FileChange("M", path, path, False, False, (), is_cut) for path in absent))


def check_record(place: str, record: Record) -> None:
    """Raises ValueError if a field is missing, or has another type."""
    for name, kind in FIELDS.items():
        if not isinstance(record.get(name), kind):
            raise ValueError(f"{place}: {name!r} must be a {'list' if kind is list else 'string'}")
    for name in ("parents", "files"):
        if not all(isinstance(item, str) for item in record[name]):
            raise ValueError(f"{place}: {name!r} must be a list of strings")
    if not record["commit"].isalnum():
        raise ValueError(f"{place}: 'commit' must be the id of a commit")
