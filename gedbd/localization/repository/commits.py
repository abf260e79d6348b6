"""Commits, the files that they change, and the hunks of these."""

from bisect import bisect_left
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import pandas as pd
from pandas.api.typing import NaTType

from gedbd.corpora.relevance import Links

MIN_ID_LENGTH = 4  # Git's own limit for abbreviations
LINK_COLUMNS = ["query", "document", "source", "made_at"]


class Limits(NamedTuple):
    """How much of a commit is kept. What is left out is flagged with ``is_cut`` and counted, and not held in memory.

    Attributes:
        max_files: Files of a commit.
        max_file_chars: Characters of the hunks of a file.
        max_commit_chars: Characters of the hunks of all files of a commit.
        max_line_chars: Characters of a line, with its prefix.
        max_message_bytes: Bytes of a message.
    """

    max_files: int = 1_000
    max_file_chars: int = 100_000
    max_commit_chars: int = 2_000_000
    max_line_chars: int = 1_000
    max_message_bytes: int = 100_000


NO_LIMITS = Limits(*(2**62,) * len(Limits._fields))


class Hunk(NamedTuple):
    """Neighbouring changed lines of a file, with three lines of context around them.

    Attributes:
        old_start: First line before the change, from 1; the line before the hunk if ``old_count`` is 0.
        old_count: Number of lines before the change.
        new_start: First line after the change, likewise.
        new_count: Number of lines after the change.
        section: What Git shows after ``@@``: mostly the signature of the class or function around the hunk.
        lines: Lines with their prefix ``" "``, ``"+"`` or ``"-"``, without the line end; a carriage return stays. Of a
            cut file they may be fewer than the counts say.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: str
    lines: tuple[str, ...]


class FileChange(NamedTuple):
    """What a commit does to a file.

    Attributes:
        status: A(dded), M(odified, or only the mode), D(eleted), R(enamed), C(opied) or T(ype changed: file, symbolic
            link, submodule).
        path: Path after the change; of a deleted file, its path before.
        old_path: Path before the change; empty for an added file.
        is_binary: The content is no text, or is larger than 16 MB; there are no hunks.
        is_submodule: Before or after the change, the path is a submodule; its hunk holds commit ids.
        hunks: Changed lines; none if only the name or mode changed.
        is_cut: A limit left out lines or parts of lines, or the diff ends in the middle of a hunk.
    """

    status: str
    path: str
    old_path: str
    is_binary: bool
    is_submodule: bool
    hunks: tuple[Hunk, ...]
    is_cut: bool


class Commit(NamedTuple):
    """A commit and what it changes relative to its first parent.

    Attributes:
        id: Hexadecimal object name.
        parents: Ids of the parents; none for a root commit, two and more for a merge.
        created_at: Time of the commit (not of its author), in UTC; never before that of a parent.
        message: The whole message.
        files: Changed files, by path.
        is_cut: Files were left out, or one of ``files`` is cut.
    """

    id: str
    parents: tuple[str, ...]
    created_at: datetime
    message: str
    files: tuple[FileChange, ...]
    is_cut: bool


class CommitIds:
    """Finds rows by the beginning of commit ids; capital and small letters are the same."""

    def __init__(self, ids: Sequence[str]) -> None:
        # Sorted with their rows: the ids that begin with "ab" follow the place where "ab" itself would be.
        self._sorted = sorted((id_.lower(), row) for row, id_ in enumerate(ids))

    def row(self, text: str) -> int | None:
        """The row of the only commit whose id begins with a text; None if there is none, or more than one."""
        wanted = text.strip().lower()
        if len(wanted) < MIN_ID_LENGTH:
            return None
        start = bisect_left(self._sorted, (wanted, -1))
        found = [row for id_, row in self._sorted[start : start + 2] if id_.startswith(wanted)]
        return found[0] if len(found) == 1 else None


class LinkBuilder:
    """Collects links between reports and the rows of one table; each pair once, with the earliest date."""

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
