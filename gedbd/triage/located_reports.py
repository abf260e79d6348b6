"""Locates the newest open reports of an index, and stores the answers in a file beside it."""

import hashlib
import json
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from gedbd.corpora.bug_report import Report, state_of
from gedbd.io.files import write_text
from gedbd.io.locks import sole_process
from gedbd.localization.locating.answering import as_json
from gedbd.localization.locating.repository_index import Located, RepositoryIndex, query_of
from gedbd.triage.storage.index_folder import FILE, LOCATED, LOCK
from gedbd.triage.storage.index_store import IndexStore

MADE_FROM = "made_from"  # a hash of the inputs of a line


class LocatedReports(NamedTuple):
    """The newly located reports, newest first, and the numbers of reports located before and of older, ignored ones."""

    new: tuple[tuple[Report, Located], ...]
    num_kept: int
    num_older: int
    warnings: tuple[str, ...]


def locate_reports(folder: Path, index: RepositoryIndex, max_located: int) -> LocatedReports:
    """Updates the file of located reports with the ``max_located`` newest ones that are not closed, newest first.

    The file has one line of ``gedbd locate json=true`` per report. A report is located as of its date, and again if its
    text, the repository or the ranker changes. Lines of other reports are removed. Raises ValueError if the repository
    cannot be read, or another process updates the index of reports.
    """
    update = index.update()
    with sole_process(folder / LOCK, f"{folder}: the index is updated"):
        with closing(IndexStore(folder / FILE, create=False)) as store:
            ids = [*store.contents()][::-1]
            not_closed = (report for report in store.each_report(ids) if state_of(report) in ("open", "unknown"))
            with_text = (report for report in not_closed if report.title.strip() or report.description.strip())
            reports = list(islice(with_text, max_located))
        num_older = len(ids) - ids.index(reports[-1].issue_id) - 1 if len(reports) == max_located else 0
        known = {line[MADE_FROM]: text for text, line in _lines(folder)}
        index_hash = hashlib.blake2b(f"{index.git.path.resolve()}\n{index.revision}".encode("utf-8", "surrogateescape"))
        index_hash.update(index.ranker.ranker.to_text().encode())
        index_hash.update(repr(index.ranker.fixes).encode())
        new = []
        lines = []
        for report in reports:
            texts = (report.issue_id, report.title, report.description, report.created_at)
            made_from = hashlib.blake2b(index_hash.digest() + repr(texts).encode()).hexdigest()
            line = known.get(made_from)
            if line is None:
                query = query_of(report)
                located = index.locate(query)
                facts = index.facts(query) | {"statement": index.ranker.statement, MADE_FROM: made_from}
                line = as_json(report, located, facts)
                new.append((report, located))
            lines.append(line)
        write_text(folder / LOCATED, "".join(f"{line}\n" for line in lines))
    return LocatedReports(tuple(new), len(lines) - len(new), num_older, update.warnings)


def forget_located(folder: Path, issue_id: str) -> None:
    """Erases a report from the file; raises LockedError if another process updates the index of reports."""
    if (folder / LOCATED).exists():
        with sole_process(folder / LOCK, f"{folder}: the index is updated"):
            kept = [text for text, line in _lines(folder) if line["query"]["issue_id"] != issue_id]
            write_text(folder / LOCATED, "".join(f"{text}\n" for text in kept))


def _lines(folder: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """The lines of the file and their content, without damaged lines."""
    file = folder / LOCATED
    if not file.is_file():
        return
    for text in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            line = json.loads(text)
            is_whole = isinstance(line[MADE_FROM], str) and isinstance(line["query"]["issue_id"], str)
        except (ValueError, KeyError, TypeError, RecursionError):
            continue
        if is_whole:
            yield text, line
