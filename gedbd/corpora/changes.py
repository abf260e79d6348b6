"""A history of changes, and which of its commits fixed and which induced the bugs of reports."""

import hashlib
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.documents import Documents
from gedbd.corpora.relevance import Links

Granularity = Literal["commit", "file", "hunk"]

GRANULARITIES: tuple[Granularity, ...] = ("commit", "file", "hunk")
# Columns of the tables of commits, files and hunks.
CHANGE_COLUMNS = ("id", "created_at", "title", "description", "paths", "diff", "commit")
COMMIT_COLUMNS = ("parents", "is_merge", "num_files", "added_lines", "removed_lines", "is_cut")
HUNK_COLUMNS = ("file", "old_start", "old_count", "new_start", "new_count")
# Columns of a table of fixes, text: a report, and a commit, a file, or the commit whose files are to be searched.
FIX_COLUMNS = ("bug_id", "fix_commit", "path", "base_commit")


@dataclass(frozen=True, repr=False)
class FixedReports(Corpus):
    """Reports of a data set of bug localization, which says how they were fixed.

    Attributes:
        fixes: The columns of ``FIX_COLUMNS``, each empty where the data set does not tell. A report may have several
            rows. Commits and files are named as the data set does; ``read_git`` finds them in the project's history.
    """

    fixes: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(FIX_COLUMNS), dtype=str))


@dataclass(frozen=True)
class ChangeCorpus:
    """Commits, their files and their hunks as three tables of documents, and the reports that they concern.

    Each table has the columns of ``CHANGE_COLUMNS``: ``title`` and ``description`` are the first line and the rest of
    the commit's message (files and hunks repeat only the first 10,000 characters of each), ``paths`` the changed paths
    separated by line breaks, ``diff`` the change as a unified diff, and ``commit`` the row of the commit. Ids are
    ``COMMIT``, ``COMMIT:path`` and ``COMMIT:path:n`` with n from 1.

    Attributes:
        name: Short name of the repository.
        reports: The bug reports; None for a history alone.
        commits: Also has ``COMMIT_COLUMNS``; ``parents`` are ids separated by blanks.
        files: One row a file of a commit.
        hunks: One row a hunk of a file; also has ``HUNK_COLUMNS``, of which ``file`` is the row of the file.
        fixing: Links from report rows to the rows of the commits that fixed them; None without reports.
        inducing: Links from report rows to the rows of the changes that induced the bugs, by granularity. One that the
            data does not tell is absent. ``made_at`` is the date of the fix, which reveals the link.
        fixed_paths: By the row of a report the paths of the files that its fix changed, ascending, for reports of which
            the data names files but no commit of the history; where ``fixing`` has a commit, the files are those that
            it changed. The paths occur in the history, some perhaps only before or after the report: of these, its
            date decides which exist. None if the data names no files.
        warnings: What was dropped, cut or found unusual, with counts, one sentence each.
    """

    name: str
    reports: Corpus | None
    commits: Documents
    files: Documents
    hunks: Documents
    fixing: Links | None = None
    inducing: dict[str, Links] = field(default_factory=dict)
    fixed_paths: dict[int, tuple[str, ...]] | None = None
    warnings: tuple[str, ...] = ()

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
