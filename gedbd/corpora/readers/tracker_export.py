"""Build a corpus from the issues of a tracker's export."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Unpack

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.dates import outside_warning
from gedbd.corpora.fields import SEPARATOR
from gedbd.corpora.readers.bug_reports import BUG_FIELDS, RESOLVED_AT, ReportOptions, build_corpus
from gedbd.corpora.readers.comments import is_here
from gedbd.corpora.readers.export_pages import JSON_KINDS, ExportPage, ExportRecord, read_pages, read_records
from gedbd.corpora.readers.fields_read import UnreadKeys
from gedbd.corpora.readers.formats import recognise
from gedbd.corpora.readers.issue import ELSEWHERE, NAMED_NOWHERE, Issue, distinct, marked_at, reset_to_creation
from gedbd.corpora.readers.record_values import Record
from gedbd.corpora.urls import check_template
from gedbd.io.files import corpus_name

Parse = Callable[[Record], Issue | str]  # the issue, or for other records the plural name of their kind
NEVER = datetime.min.replace(tzinfo=UTC)


class ExportRow(int):
    """The number of a record, counted over all pages; messages show its number on its page."""

    label: str  # ``49``, or with several pages ``49 of issues-2.csv``

    def __str__(self) -> str:
        return self.label


class ExportOptions(ReportOptions, total=False):
    """The options that the readers of all trackers share; ``image_dir`` is by default the folder of the export."""

    as_created: bool  # reset titles and fields to their values at the creation of a report, if its history is known
    repositories: Sequence[str] | None  # keep only the issues of these repositories or projects; ``None`` keeps all


def read_tracker(
    tracker: str,
    parse: Parse,
    columns: Mapping[str, str],
    further_keys: str,
    path: str,
    name: str | None = None,
    inside: str = "",
    kinds: Sequence[str] = (*JSON_KINDS, "csv"),
    split: Callable[[ExportPage], Iterator[ExportRecord]] = read_records,
    as_created: bool = True,
    repositories: Sequence[str] | None = None,
    join: Callable[[Iterable[ExportRecord]], Iterable[ExportRecord]] = iter,
    **options: Unpack[ReportOptions],
) -> Corpus:
    """Reads the pages of an export, parses their records, merges repeated issues and builds the corpus.

    Args:
        tracker: The tracker's name in ``dataset=``.
        parse: Parses one record, see ``Parse``.
        columns: Field of the corpus to key of the export, to be shown.
        further_keys: Further keys that are read, separated by blanks.
        path: The file or folder.
        name: Short name of the corpus; ``None`` takes it from the path.
        inside: See ``UnreadKeys``.
        kinds: Endings of the pages.
        split: Splits a page into records.
        as_created: See ``ExportOptions``.
        repositories: Likewise.
        join: Joins the records of issues that are spread over several records.
        options: See ``ReportOptions``.

    Raises:
        ValueError: A record is malformed, or there is no issue. The message names file and record.
    """
    check_template(options.get("url_template"))
    location = Path(path).expanduser()
    pages, warnings = read_pages(location, kinds)
    records = join(record for page in pages for record in split(page))
    unread = UnreadKeys([*columns.values(), *further_keys.split()], inside)
    issues, dropped = gather(tracker, records, parse, location, unread, repositories)
    outside = [f"{issue.position}, {key!r}" for issue in issues.values() for key in issue.outside]
    date_warnings = [outside_warning(len(outside), outside[0])] if outside else []
    warnings += (*dropped, *date_warnings, *remark_warnings(issues))
    links = links_of(issues.values())
    if as_created:
        created = {row: reset_to_creation(issue) for row, issue in issues.items()}
        warnings += tuple(history_warnings(issues, created, tracker))
        issues = created
    title = name or corpus_name(location)
    folder = location if location.is_dir() else location.parent
    content = (title, table_of(issues), links, str(location), columns, warnings)
    option = "dataset.fields.duplicate"
    return build_corpus(*content, mutual=True, folder=folder, unread=unread, duplicate_option=option, **options)


def gather(
    tracker: str,
    records: Iterable[ExportRecord],
    parse: Parse,
    path: Path,
    unread: UnreadKeys,
    repositories: Sequence[str] | None = None,
) -> tuple[dict[int, Issue], list[str]]:
    """The distinct issues of all pages, by number of their record, and warnings about dropped records.

    Raises:
        ValueError: A record is malformed or from another tracker, or there is no issue.
    """
    issues: dict[int, Issue] = {}
    dropped: Counter[str] = Counter()
    for row, (position, record) in enumerate(records, start=1):
        unread.add(record)
        # A record of another tracker would be parsed wrongly.
        detected = recognise(record)
        if detected not in {tracker, ""}:
            raise ValueError(f"{position}: this looks like a {detected} export: set dataset={detected}")
        try:
            issue = parse(record)
        except ValueError as error:
            raise ValueError(f"{position}: {error}") from error
        except RecursionError as error:
            raise ValueError(f"{position}: lists and objects are nested too deeply for an issue") from error
        if isinstance(issue, str):
            dropped[issue] += 1
        elif repositories is not None and not any(is_here(name, issue.project) for name in repositories):
            dropped["issues of other repositories"] += 1
        else:
            issues[row] = issue._replace(position=position)
    counts = [f"{what}: {count:,}, dropped" for what, count in dropped.items()]
    if not issues:
        reasons = f", only {', '.join(f'{count:,} {what}' for what, count in dropped.items())}" if dropped else ""
        raise ValueError(f"{path}: no issue in the export{reasons}; at least one is needed")
    kept, joined = join_pages(in_repositories(issues))
    return kept, [*counts, *joined]


def in_repositories(issues: Mapping[int, Issue]) -> dict[int, Issue]:
    """Keeps the links that lead to a repository of the export, and adds remarks on the others.

    If there are several repositories, ids include their names: ``owner/repo#12``.
    """
    projects = sorted({issue.project for issue in issues.values() if issue.project})
    several = len(projects) > 1

    def full_id(project: str, number: str) -> str:
        # ``owner/repo`` for ``github.com/owner/repo``
        host, has_path, path = project.partition("/")
        short = path if has_path and "." in host and "/" in path else project
        return f"{short}#{number}" if several and project else number

    resolved = {}
    for row, issue in issues.items():
        links = []
        for link in issue.links:
            project = issue.project
            if link.project:
                project = next((name for name in projects if several and is_here(link.project, name)), "")
            if project or not link.project:
                links.append(link._replace(named=full_id(project, link.named.strip()), project=""))
        remarks = [ELSEWHERE] * (len(links) < len(issue.links)) + [NAMED_NOWHERE] * (issue.is_duplicate and not links)
        resolved[row] = issue._replace(
            issue_id=full_id(issue.project, issue.issue_id), links=tuple(links), remarks=(*remarks, *issue.remarks)
        )
    return resolved


def join_pages(issues: Mapping[int, Issue]) -> tuple[dict[int, Issue], list[str]]:
    """Keeps the most recently updated record of each issue; of equally recent ones, the one read last.

    Args:
        issues: Number of the record, counted through all pages, to issue.
    """
    last: dict[str, int] = {}
    for row, issue in issues.items():
        before = issues.get(last.get(issue.issue_id, 0))  # numbers of records begin at 1, so 0 finds none
        if before is None or (issue.updated_at or NEVER) >= (before.updated_at or NEVER):
            last[issue.issue_id] = row
    kept = {row: issues[row] for row in sorted(last.values())}
    num_repeated = len(issues) - len(kept)
    warning = f"issues that occur on several pages: {num_repeated:,}, only the most recently updated record is used"
    return kept, [warning] if num_repeated else []


def remark_warnings(issues: Mapping[int, Issue]) -> list[str]:
    """Warnings that count the issues with each remark and name the first one."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for issue in issues.values():
        for remark in issue.remarks:
            counts[remark] += 1
            first.setdefault(remark, issue.issue_id)
    return [f"issues {remark}: {count:,} (first: {first[remark]})" for remark, count in counts.items()]


def history_warnings(issues: Mapping[int, Issue], created: Mapping[int, Issue], tracker: str) -> list[str]:
    """Warnings that count the issues that were reset to their creation, and those without a history."""
    num_without_history = sum(issue.changes is None for issue in issues.values())
    if num_without_history == len(issues):
        advice = f" (gedbd fetch tracker={tracker} fetches it)"
        if tracker == "github":
            advice = f" (gh cannot export it; {advice[2:]}"
        return [f"the export has no history, so titles and fields are those at export time{advice}"]
    changed = sum(created[row].values != issue.values for row, issue in issues.items())
    warnings = [f"issues with title or fields reset to those at creation: {changed:,}"]
    return warnings + (
        [f"issues without a history: {num_without_history:,}, used as exported"] if num_without_history else []
    )


def table_of(issues: Mapping[int, Issue]) -> pd.DataFrame:
    """The reports as ``build_corpus`` takes them, indexed by ``ExportRow``."""
    rows = [
        {field: ", ".join(issue.values.get(field, ())) for field in BUG_FIELDS}
        | {
            "id": issue.issue_id,
            "created_at": issue.created_at.isoformat() if issue.created_at else "",
            "attachments": ";".join(issue.values.get("attachments", ())),
            "labels": SEPARATOR.join(label.replace(SEPARATOR, ",") for label in issue.values.get("labels", ())),
        }
        for issue in issues.values()
    ]
    index = numbered_rows({number: issue.position for number, issue in issues.items()})
    resolved_at = pd.Series([issue.resolved_at for issue in issues.values()], index=index, dtype=object)
    table = pd.DataFrame(rows, index=index, dtype=str)
    return table.assign(**{RESOLVED_AT: pd.to_datetime(resolved_at, utc=True)})


def numbered_rows(positions: Mapping[int, str]) -> pd.Index:
    """The index of a table of records: the ``ExportRow`` of each, from its number and position."""
    split = {number: position.rpartition(", ") for number, position in positions.items()}  # "bugs-2.csv, row 49"
    has_pages = len({file for file, _, _ in split.values()}) > 1
    rows = []
    for number, (file, _, number_on_page) in split.items():
        row = ExportRow(number)
        row.label = number_on_page.rpartition(" ")[2] + (f" of {Path(file).name}" if has_pages else "")
        rows.append(row)
    return pd.Index(rows, dtype=object)


def links_of(issues: Iterable[Issue]) -> pd.DataFrame:
    """The links of all issues as ``build_corpus`` takes them, one row per link.

    A link without a date of its own was made when its issue was resolved as a duplicate, see ``marked_at``.
    """
    rows = [
        (issue.issue_id, link.named.strip(), link.source, link.made_at or marked_at(issue))
        for issue in issues
        for link in distinct(issue.links)
        if link.named.strip()
    ]
    links = pd.DataFrame(rows, columns=["id", "duplicate_id", "source", "made_at"])
    return links.assign(made_at=pd.to_datetime(links["made_at"], utc=True))
