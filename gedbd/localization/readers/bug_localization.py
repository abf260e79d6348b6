"""Read the data sets that papers on bug localization publish: reports, and the commits or files that fixed them.

Three formats are recognised from the content of a file:

- Ye, Bunescu and Liu (FSE 2014; six Java projects): XML with ``<table><column name="bug_id">``, or the same columns in
  a CSV file with any separator.
- BugLocator, BLIA and Bench4BL: XML with ``<bugrepository><bug id="1" opendate="..."><buginformation>``, and the fixed
  files as paths or as names of classes such as ``org.example.Parser.java``.
- SWE-bench and its descendants: JSON, one object per line or a list.
"""

import html
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple
from xml.etree.ElementTree import Element

import pandas as pd

from gedbd.corpora.corpus import FIX_COLUMNS, FixedReports
from gedbd.corpora.dates import EXPECTED, OutOfRangeError, parse_date
from gedbd.corpora.readers.csv_file import HEAD_BYTES, open_packed, read_table
from gedbd.corpora.readers.export_pages import ExportPage, read_text, read_values
from gedbd.corpora.readers.jira_xml import child_text, parse_safely
from gedbd.corpora.readers.record_values import Record, text
from gedbd.io.files import corpus_name, locate
from gedbd.io.unpacking import UnpackLimit
from gedbd.localization.readers.changesets import read_reports
from gedbd.localization.repository.commits import parse_patch
from gedbd.text.diffs import FILE_HEADER

KINDS = ("xml", "csv", "txt", "tsv", "json", "jsonl")  # of the file in a zip archive
COLUMNS = ("bug_id", "summary", "commit", "files")  # without them, a table is not one of Ye et al.
TIMES = ("report_timestamp", "report_time")  # a table has one of them; the first is exact
KEYS = ("instance_id", "base_commit", "problem_statement", "patch")
EXPECTED_FILE = (
    f"expected: XML with <bugrepository> or with <table> and <column name=...>, a CSV file with the columns"
    f" {', '.join(COLUMNS)} and {' or '.join(TIMES)}, or JSON lines with {', '.join(KEYS)}"
)
# Encodings that such files declare; in any other case they are read as UTF-8.
DECLARED = re.compile(
    rb"<\?xml[^>]{0,80}?encoding\s*=\s*[\"'](iso-8859-\d\d?|windows-125\d|us-ascii)[\"']", re.IGNORECASE
)
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
NULL = "NULL"  # how phpMyAdmin writes a missing value
SECONDS = re.compile(r"\d{1,11}")
ENDING = re.compile(r"\.\w{1,5}$", re.ASCII)
RANK = re.compile(r"^\d+:")


class PublishedReport(NamedTuple):
    """A report as a data set publishes it."""

    row: int  # row of the table, or number of the record, for messages
    id: str  # unique in the tracker
    title: str  # one line
    description: str  # the rest
    created_at: str  # date in ISO 8601; unchanged if out of range; empty if unknown
    status: str = ""  # status and resolution, separated by a blank; empty if unknown
    commits: tuple[str, ...] = ()  # ids of the commits that fixed it, whole or shortened
    paths: tuple[str, ...] = ()  # the files that the fix changed, as the data set names them
    base_commit: str = ""  # id of the commit whose files are searched; empty if the data set names none


def read_bug_localization(path: str, name: str | None = None) -> FixedReports:
    """Read one file of a published data set, plain or packed as ``.gz``, ``.xz`` or ``.zip``.

    The history of the project is not in these files: ``read_git`` finds commits and files in a clone. A report with
    several rows is kept once, with the commits and files of all its rows. The reports are in chronological order, each
    in its own group, with their fixes. Raises ValueError, which names file and row, if the file has none of the
    formats, is damaged, or has an invalid row.
    """
    file = locate(path)
    published, file_warnings = _read_published(file)
    reports: dict[str, PublishedReport] = {}
    for report in published:
        if not report.id:
            raise ValueError(f"{file}, row {report.row}: the report has no id; give it a unique one")
        first = reports.setdefault(report.id, report)
        if first is not report:
            combined = first._replace(commits=first.commits + report.commits, paths=first.paths + report.paths)
            reports[report.id] = combined
    if not reports:
        raise ValueError(f"{file}: the file has no reports; {EXPECTED_FILE}")
    rows = [
        (report.id, report.title, report.description, report.created_at, report.status) for report in reports.values()
    ]
    names = ["bug_id", "summary", "description", "report_time", "status"]
    bugs = pd.DataFrame(rows, columns=names, index=[report.row for report in reports.values()], dtype=str)
    corpus = read_reports(name or corpus_name(file), bugs, file)
    counts = {
        "rows that repeat a report, with merged fixes": len(published) - len(reports),
        "reports without a fixing commit or a fixed file in the data": sum(
            not report.commits and not report.paths for report in reports.values()
        ),
    }
    warnings = (*file_warnings, *corpus.warnings, *(f"{what}: {count:,}" for what, count in counts.items() if count))
    return FixedReports(replace(corpus.documents, warnings=warnings), corpus.relevance, fixes=_fixes(reports))


def _fixes(reports: Mapping[str, PublishedReport]) -> pd.DataFrame:
    """The table of ``FixedReports``: one row per commit, one per file, and one for a report with neither."""
    rows = []
    for id_, report in reports.items():
        rows += [(id_, commit, "", report.base_commit) for commit in report.commits]
        rows += [(id_, "", path, report.base_commit) for path in report.paths]
        rows += [(id_, "", "", report.base_commit)] * (not report.commits and not report.paths)
    return pd.DataFrame(rows, columns=list(FIX_COLUMNS), dtype=str).drop_duplicates(ignore_index=True)


def _read_published(file: Path) -> tuple[list[PublishedReport], tuple[str, ...]]:
    """The reports of a file, and warnings."""
    with open_packed(file, file.suffix, KINDS) as stream:
        head = stream.read(HEAD_BYTES)
    beginning = head.decode(json.detect_encoding(head), "replace").lstrip("\ufeff \t\r\n")
    if beginning.startswith(("{", "[")):
        return list(_read_json(file)), ()
    if beginning.startswith("<"):
        return _read_xml(file)
    if COLUMNS[0] not in beginning.partition("\n")[0]:
        raise ValueError(f"{file}: not a known data set of bug localization; {EXPECTED_FILE}")
    table, warnings = read_table(file, None, None, expected=(*COLUMNS, *TIMES))
    rows = table.itertuples(index=True, name=None)
    return [
        _report_from_columns(file, row, dict(zip(table.columns, values, strict=True))) for row, *values in rows
    ], warnings


def _read_xml(file: Path) -> tuple[list[PublishedReport], tuple[str, ...]]:
    """The reports of an XML file, and a warning that counts replaced characters."""
    with open_packed(file, file.suffix, KINDS) as stream:
        content = stream.read()
    declared = DECLARED.match(content.lstrip())
    encoding = declared[1].decode() if declared else json.detect_encoding(content)
    written = NOT_IN_XML.sub("\ufffd", content.decode(encoding, "replace"))
    root = parse_safely(ExportPage(file, written))
    num_replaced = written.count("\ufffd")
    warning = f"characters that are not {encoding.upper()} or not allowed in XML: {num_replaced:,}, replaced by U+FFFD"
    if root.tag == "bugrepository":
        reports = [_report_from_bug(file, row, bug) for row, bug in enumerate(root.findall("bug"), start=1)]
    else:
        tables = [table for table in root.iter("table") if table.find("column") is not None]
        if not tables:
            raise ValueError(f"{file}: there is neither <bugrepository> nor <table> with columns; {EXPECTED_FILE}")
        reports = [_report_from_columns(file, row, _values(table)) for row, table in enumerate(tables, start=1)]
    return reports, (warning,) if num_replaced else ()


def _values(table: Element) -> dict[str, str]:
    """The values of a row that phpMyAdmin exported, by the names of their columns."""
    values = {column.get("name", ""): column.text or "" for column in table.findall("column")}
    return {name: "" if value == NULL else value for name, value in values.items()}


def _report_from_columns(file: Path, row: int, values: Mapping[str, str]) -> PublishedReport:
    """A row of a table of Ye et al."""
    missing = [column for column in COLUMNS if column not in values]
    if not missing and not any(column in values for column in TIMES):
        missing = [TIMES[0]]
    if missing:
        raise ValueError(f"{file}, row {row}: there is no column {missing[0]!r}; {EXPECTED_FILE}")
    id_ = values["bug_id"].strip()
    # Their titles are those of Bugzilla's pages, such as "Bug 12 Saving fails".
    title = re.sub(rf"^Bug {re.escape(id_)}\b[\s:-]*", "", values["summary"].strip())
    seconds, written = (values.get(column, "").strip() for column in TIMES)
    if SECONDS.fullmatch(seconds):
        created_at = datetime.fromtimestamp(int(seconds), UTC).isoformat()
    else:
        created_at = _iso_date(f"{file}, row {row}", TIMES[1], written)
    commit = values["commit"].strip()
    return PublishedReport(
        row,
        id_,
        title,
        values.get("description", "").strip(),
        created_at,
        values.get("status", "").strip(),
        commits=(commit,) if commit else (),
        paths=tuple(split_paths(values["files"])),
    )


def split_paths(written: str) -> list[str]:
    """Splits a list of paths at blanks, which may also occur in names of folders: ``Eclipse UI/A.java``.

    A path ends at the blank after a file suffix. A number before a path, as in ``21:src/A.java``, is dropped.
    """
    paths: list[str] = []
    parts: list[str] = []
    for part in written.split():
        parts.append(part)
        if ENDING.search(part.rpartition("/")[2]):
            paths.append(" ".join(parts))
            parts = []
    if parts:
        paths.append(" ".join(parts))
    return [RANK.sub("", path) for path in paths]


def _report_from_bug(file: Path, row: int, bug: Element) -> PublishedReport:
    """A ``<bug>`` of BugLocator, BLIA or Bench4BL; BLIA's extended files name commits too."""
    location = f"{file}, row {row}"
    information = bug.find("buginformation")
    if information is None:
        raise ValueError(f"{location}: <bug> has no <buginformation>; {EXPECTED_FILE}")
    commits = bug.findall("fixedCommits/commit")
    files = [*bug.findall("fixedFiles/file"), *bug.findall("fixedCommits/commit/file")]
    paths = [(element.get("name") or element.text or "").strip() for element in files]
    return PublishedReport(
        row,
        bug.get("id", "").strip(),
        # Texts contain the HTML entities of the web page that they come from.
        html.unescape(child_text(information, "summary")),
        html.unescape(child_text(information, "description")),
        _iso_date(location, "opendate", bug.get("opendate", "")),
        commits=tuple(filter(None, (commit.get("id", "").strip() for commit in commits))),
        paths=tuple(filter(None, paths)),
    )


def _read_json(file: Path) -> Iterator[PublishedReport]:
    """The instances of SWE-bench or one of its descendants."""
    page = ExportPage(file, read_text(file, KINDS, UnpackLimit()))
    row = 0
    for value in read_values(page):
        for record in value if isinstance(value, list) else [value]:
            row += 1
            location = f"{file}, row {row}"
            if not isinstance(record, dict):
                raise ValueError(f"{location}: {str(record)[:40]!r} is not an object; {EXPECTED_FILE}")
            try:
                yield _report_from_instance(location, row, record)
            except ValueError as error:
                raise ValueError(error if str(error).startswith(location) else f"{location}: {error}") from error


def _report_from_instance(location: str, row: int, record: Record) -> PublishedReport:
    """An instance of SWE-bench. Its hints, which are newer than the report, and the patch of its tests are not read."""
    missing = [key for key in KEYS if key not in record]
    if missing:
        raise ValueError(f"there is no {missing[0]!r}; {EXPECTED_FILE}")
    patch = text(record, "patch")
    changes = parse_patch(patch.split("\n"))
    if patch.strip() and not changes:
        raise ValueError(f"'patch' has no line that begins with {FILE_HEADER.strip()!r}")
    title, _, description = text(record, "problem_statement").strip().partition("\n")
    return PublishedReport(
        row,
        text(record, "instance_id").strip(),
        title.strip(),
        description.strip(),
        _iso_date(location, "created_at", text(record, "created_at")),
        # Files that the patch adds do not exist in the base commit.
        paths=tuple(change.old_path for change in changes if change.old_path),
        base_commit=text(record, "base_commit").strip(),
    )


def _iso_date(location: str, column: str, value: str) -> str:
    """A date in ISO 8601; a date out of range is unchanged, and is counted by the reader of all dates."""
    if not value.strip():
        return ""
    try:
        return parse_date(value).isoformat()
    except OutOfRangeError:
        return value
    except ValueError as error:
        raise ValueError(f"{location}: unreadable {column} {value[:40]!r}; expected: {EXPECTED}") from error
