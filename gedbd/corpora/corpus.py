"""A corpus: documents, the relevance between them, and histories of changes."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.relevance import Groups, Links

# Columns of the tables of commits, files and hunks.
CHANGE_COLUMNS = ("id", "created_at", "title", "description", "paths", "diff", "commit")
COMMIT_COLUMNS = ("parents", "is_merge", "num_files", "added_lines", "removed_lines", "is_cut")
HUNK_COLUMNS = ("file", "old_start", "old_count", "new_start", "new_count")
# Columns of a table of fixes, text: a report, and a commit, a file, or the commit whose files are to be searched.
FIX_COLUMNS = ("bug_id", "fix_commit", "path", "base_commit")
# The splits and their numbers, in chronological order.
PARTS = ("train", "val", "test")
TRAIN = 0
VAL = 1
TEST = 2
OUTSIDE = -1


class FieldSource(NamedTuple):
    """How a field was read."""

    field: str
    source: str  # its column or path in the file; of duplicates also what names them, such as comments
    num_reports: int  # that have it
    first: str  # the value of the first of these reports, as understood, cut if long


@dataclass(frozen=True)
class Documents:
    """N documents in chronological order. The row number is a document's only identity."""

    name: str  # short name of the collection, used for folders and titles
    # N rows, indexed 0..N-1, with the columns ``id`` (text, unique), ``created_at`` (UTC, ``NaT`` throughout where
    # there are no dates), text columns and attributes. The reader of the collection declares which ones.
    table: pd.DataFrame
    # what the reader dropped, filled in or found unusual, with counts, one sentence each
    warnings: tuple[str, ...] = ()
    # text columns besides title and description that belong to the contents of a document
    more_texts: tuple[str, ...] = ()
    template: tuple[str, ...] = ()  # lines of the tracker's issue template, which were left out of the descriptions
    fields: tuple[FieldSource, ...] = ()  # how each field was read, if the reader says so
    unread: tuple[str, ...] = ()  # columns or keys of the file that no field is read from

    def __len__(self) -> int:
        return len(self.table)

    @property
    def ids(self) -> pd.Series:
        """``(N,)`` ids."""
        return self.table["id"]

    @property
    def first_of_tracker(self) -> np.ndarray:
        """``(N,)`` the first row of each document's tracker, by the column ``tracker``; 0 throughout without it."""
        if "tracker" not in self.table:
            return np.zeros(len(self), dtype=np.int64)
        _, first, inverse = np.unique(self.table["tracker"].to_numpy(), return_index=True, return_inverse=True)
        return np.asarray(first[inverse])

    @property
    def has_dates(self) -> bool:
        """Whether the documents have dates: either all of them do, or none."""
        return not bool(self.table["created_at"].isna().all())

    @property
    def fields_line(self) -> str:
        """How the fields were read, in one line."""
        dated = {source: f"; first {source.first}" for source in self.fields if source.field == "created_at"}
        read = [f"{s.field} <- {s.source} ({s.num_reports:,}{dated.get(s, '')})" for s in self.fields if s.num_reports]
        return "; ".join([", ".join(read), *self.left_out])

    @property
    def left_out(self) -> list[str]:
        """The fields that no report has, and what of the file is not read, each in words."""
        empty = [source.field for source in self.fields if not source.num_reports]
        listed = {"no values": empty, "not read": self.unread}
        return [f"{what}: {', '.join(names)}" for what, names in listed.items() if names]


@dataclass(frozen=True, repr=False)
class Corpus:
    """The reports of a tracker and their duplicates.

    Attributes:
        documents: N reports.
        relevance: Their duplicate groups.
        links: The links behind the groups, in the direction in which the tracker states them; None if unknown.
        image_dir: Folder of the files that the column ``attachments`` names; None if there is none.
        url_template: Address of a report that has none, with ``{issue_id}`` for its id; None if unknown.
        source: The options that it was read with, the section ``dataset`` of a configuration; None if unknown.
    """

    documents: Documents
    relevance: Groups
    links: Links | None = None
    image_dir: Path | None = None
    url_template: str | None = None
    source: Mapping[str, Any] | None = None

    @classmethod
    def of_table(cls, name: str, table: pd.DataFrame, group: np.ndarray) -> "Corpus":
        """Creates a corpus from a table of documents and their group numbers, see ``Documents`` and ``Groups``."""
        return cls(Documents(name, table), Groups(group))

    def __len__(self) -> int:
        return len(self.documents)

    def __repr__(self) -> str:
        sizes = np.unique(self.group, return_counts=True)[1]
        sizes = sizes[sizes > 1]
        parts = [f"{len(self):,} reports", f"{sizes.sum():,} of them in {len(sizes):,} duplicate groups"]
        if len(self) and self.documents.has_dates:
            dates = self.reports["created_at"]
            parts.append(f"{dates.iloc[0]:%Y-%m-%d} to {dates.iloc[-1]:%Y-%m-%d}")
        if self.warnings:
            parts.append(f"{len(self.warnings)} warning{'s' if len(self.warnings) > 1 else ''}")
        return f"Corpus({self.name!r}: {', '.join(parts)})"

    @property
    def name(self) -> str:
        """Short name, see ``Documents``."""
        return self.documents.name

    @property
    def reports(self) -> pd.DataFrame:
        """The table of the documents."""
        return self.documents.table

    @property
    def group(self) -> np.ndarray:
        """``(N,)`` group numbers, see ``Groups``."""
        return self.relevance.group

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reader's warnings, see ``Documents``."""
        return self.documents.warnings

    @property
    def fingerprint(self) -> str:
        """A hash of ids, texts and groups, by which a run recognizes its corpus."""
        # Other columns do not count: with other addresses it is still the same corpus.
        texts = self.reports[["id", "title", "description", *self.documents.more_texts]].assign(group=self.group)
        return hashlib.blake2b(pd.util.hash_pandas_object(texts).to_numpy().tobytes(), digest_size=16).hexdigest()


def keep_last(corpus: Corpus, count: int) -> Corpus:
    """The reports created last; a group that loses members keeps the others. Raises ValueError for a count below 1."""
    if count < 1:
        raise ValueError(f"dataset.last_n={count} must be 1 or more, or null for all reports")
    if count >= len(corpus):
        return corpus
    warning = f"only the newest {count:,} of {len(corpus):,} reports are kept (dataset.last_n)"
    return _reports_between(corpus, len(corpus) - count, len(corpus), warning)


def keep_first(corpus: Corpus, count: int) -> Corpus:
    """The reports created first; a group that loses members keeps the others and its number."""
    warning = (
        f"the last {len(corpus) - count:,} of {len(corpus):,} reports were created after the test set and are left out"
    )
    return _reports_between(corpus, 0, count, warning)


def _reports_between(corpus: Corpus, first: int, stop: int, warning: str) -> Corpus:
    table = corpus.reports.iloc[first:stop].reset_index(drop=True)
    documents = replace(corpus.documents, table=table, warnings=(*corpus.warnings, warning))
    links = None if corpus.links is None else corpus.links.between(first, stop)
    return replace(corpus, documents=documents, relevance=corpus.relevance.between(first, stop), links=links)


Granularity = Literal["commit", "file", "hunk"]

GRANULARITIES: tuple[Granularity, ...] = ("commit", "file", "hunk")


@dataclass(frozen=True, repr=False)
class FixedReports(Corpus):
    """Reports of a bug localization data set that says how they were fixed."""

    # the columns of ``FIX_COLUMNS``, each empty where the data set does not say. A report may have several rows.
    # Commits and files are named as the data set does; ``read_git`` finds them in the project's history
    fixes: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(FIX_COLUMNS), dtype=str))


@dataclass(frozen=True)
class ChangeCorpus:
    """Commits, their files and their hunks as three tables of documents, and the reports that they concern.

    Each table has the columns of ``CHANGE_COLUMNS``: ``title`` and ``description`` are the first line and the rest of
    the commit's message (files and hunks repeat only the first 10,000 characters of each), ``paths`` the changed paths
    separated by line breaks, ``diff`` the change as a unified diff, and ``commit`` the row of the commit. Ids are
    ``COMMIT``, ``COMMIT:path`` and ``COMMIT:path:n`` with n from 1.
    """

    name: str  # short name of the repository
    reports: Corpus | None  # the bug reports; None for a history alone
    commits: Documents  # also has ``COMMIT_COLUMNS``; ``parents`` are ids separated by blanks
    files: Documents  # one row per file of a commit
    hunks: Documents  # one row per hunk of a file; also has ``HUNK_COLUMNS``, of which ``file`` is the row of the file
    # links from report rows to the rows of the commits that fixed them; None without reports
    fixing: Links | None = None
    # links from report rows to the rows of the changes that introduced the bugs, by granularity, if the data has it.
    # ``made_at`` is the date of the fix, which reveals the link.
    inducing: dict[str, Links] = field(default_factory=dict)
    # report row to the sorted paths of the files that its fix changed, for reports of which the data names files but no
    # commit of the history; where ``fixing`` has a commit, the files are those that it changed. All paths occur in the
    # history, but may not exist at the date of the report. None if the data names no files.
    fixed_paths: dict[int, tuple[str, ...]] | None = None
    warnings: tuple[str, ...] = ()  # what was dropped, cut or found unusual, with counts, one sentence each

    def changes(self, granularity: Granularity) -> Documents:
        """The table of a granularity."""
        return {"commit": self.commits, "file": self.files, "hunk": self.hunks}[granularity]

    @property
    def fingerprint(self) -> str:
        """A hash of reports, changes and links, by which a run recognizes its corpus."""
        digest = hashlib.blake2b(digest_size=16)
        if self.reports is not None:
            digest.update(self.reports.fingerprint.encode())
        for table in (self.commits.table, self.files.table, self.hunks.table):
            digest.update(pd.util.hash_pandas_object(table[["id", "title", "diff"]]).to_numpy().tobytes())
        for name, links in [("fixing", self.fixing), *sorted(self.inducing.items())]:
            if links is not None:
                digest.update(name.encode())
                digest.update(links.pairs.tobytes())
        if self.fixed_paths is not None:
            digest.update(repr(sorted(self.fixed_paths.items())).encode())
        return digest.hexdigest()
