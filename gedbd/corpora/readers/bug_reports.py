"""Build a corpus from the rows of a bug tracker: check the fields, sort the reports, resolve the links."""

from collections.abc import Mapping, Set
from pathlib import Path
from typing import Any, TypedDict, Unpack

import pandas as pd

from gedbd.corpora.corpus import Corpus, Documents, keep_last
from gedbd.corpora.dates import check_ids, in_chronological_order, parse_dates
from gedbd.corpora.readers.fields_read import Unread, duplicate_warnings, fields_read
from gedbd.corpora.relevance import Groups, circle_warnings, resolve_links
from gedbd.corpora.urls import report_urls
from gedbd.text.cleaning import template_lines, without_template

# The columns of every tracker's documents, empty where a tracker has no such field. ``attachments`` names files,
# separated by ``;``; ``url`` is the report's page, an http or https address.
BUG_FIELDS = (
    "id",
    "title",
    "description",
    "created_at",
    "product",
    "component",
    "version",
    "os",
    "priority",
    "status",
    "resolution",
    "attachments",
    "url",
)
# Other tasks also read ``labels``, which holds names separated by ``;``.
DOCUMENT_FIELDS = (*BUG_FIELDS, "labels")
# When a report was last resolved or closed, UTC, ``NaT`` if it is open or the tracker does not say. The table of
# documents has this column if any report has such a date.
RESOLVED_AT = "resolved_at"
MIN_COMPARED = 20  # reports needed to suspect swapped columns; in fewer, titles may be longer by chance
LONG_DESCRIPTION = 100_000


class ReportOptions(TypedDict, total=False):
    """The options that the readers of reports share."""

    last_n: int | None  # keep only this many reports, the latest ones; ``None`` keeps all
    image_dir: str | None  # folder of the attached images, by default that of the file
    # address of a report without one, in which ``{issue_id}`` stands for its id; ``None`` for none
    url_template: str | None
    keep_template: bool  # keep the lines of the tracker's issue template in descriptions, as by default
    # how ``dataset=auto`` recognises the format, see ``formats``; readers do not use it
    recognised_by: Mapping[str, Any]


def build_corpus(
    name: str,
    reports: pd.DataFrame,
    links: pd.DataFrame,
    source: str,
    columns: Mapping[str, str | None],
    warnings: tuple[str, ...] = (),
    date_format: str = "ISO8601",
    mutual: bool = False,
    folder: Path | None = None,
    unread: Unread | None = None,
    duplicate_option: str = "dataset.columns.duplicate",
    **options: Unpack[ReportOptions],
) -> Corpus:
    """Checks a tracker's reports, sorts them chronologically and finds their duplicate groups.

    Args:
        name: Short name of the tracker.
        reports: Text columns of ``BUG_FIELDS`` and, where there are any, ``labels``, indexed by row in the source file;
            and, if the tracker provides it, ``RESOLVED_AT`` as dates.
        links: ``id``, ``duplicate_id``, ``source`` and ``made_at`` of each link, see ``duplicate_cells``.
        source: The file, for messages.
        columns: Name in the file of each field, to be shown; None for fields that the tracker does not have.
        warnings: Warnings of the reader, which come first.
        date_format: ``ISO8601``, or as in ``datetime.strptime``.
        mutual: Whether the duplicates of a group name each other by convention, so that circles are not reported.
        folder: Default of ``image_dir``; None for no images.
        unread: What is not read of the file; None if unknown.
        duplicate_option: The option that reads duplicates from a column.
        options: See ``ReportOptions``.

    Raises:
        ValueError: An id, a date or ``url_template`` is invalid, or there is no report.
    """
    url_template = options.get("url_template")
    image_dir = options.get("image_dir")
    last_n = options.get("last_n")
    if reports.empty:
        raise ValueError(f"{source}: the file has no reports; add at least one row below the header")
    reports = reports.assign(id=reports["id"].str.strip())
    check_ids(reports["id"], source, columns["id"])
    urls, url_warnings = report_urls(reports, url_template)
    reports = reports.assign(url=urls)
    template: frozenset[str] = frozenset()
    if not options.get("keep_template", True):
        template = template_lines(reports["description"].tolist())
    reports, template_warnings = leave_out(template, reports)
    all_warnings = [*warnings, *text_warnings(reports, columns), *template_warnings, *url_warnings]
    # Rows have numbers only once they are in order, so links are resolved after this.
    exported = reports
    reports, date_warnings = in_chronological_order(reports, source, columns.get("created_at"), date_format)
    resolved, link_warnings = resolve_links(reports["id"], links)
    circles = [] if mutual else circle_warnings(resolved.pairs, reports["id"])
    pointed_out = duplicate_warnings(unread or {}, duplicate_option, reports["id"])
    all_warnings += [*date_warnings, *early_warnings(reports), *link_warnings, *circles, *pointed_out]
    if len(reports) == 1:
        all_warnings.append("there is only one report, so there is nothing to compare it with")
    if len(resolved) == 0:
        all_warnings.append("no report is marked as a duplicate, so every report is a group of its own")
    is_resolved = RESOLVED_AT in reports and bool(reports[RESOLVED_AT].notna().any())
    kept = [*DOCUMENT_FIELDS, RESOLVED_AT] if is_resolved else list(DOCUMENT_FIELDS)
    table = reports.reindex(columns=kept, fill_value="").reset_index(drop=True)
    images = Path(image_dir).expanduser() if image_dir else folder
    groups = Groups.from_links(resolved)
    fields = fields_read(exported, reports, columns, resolved)
    documents = Documents(name, table, tuple(all_warnings), (), tuple(sorted(template)), fields, tuple(unread or ()))
    corpus = Corpus(documents, groups, resolved, images, url_template)
    return corpus if last_n is None else keep_last(corpus, last_n)


def leave_out(template: Set[str], reports: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """Removes the lines of the tracker's template from the descriptions, and counts both in a warning."""
    if not template:
        return reports, []
    shorter = [without_template(text, template) for text in reports["description"]]
    changed = reports["description"] != shorter
    example = max(sorted(template), key=len)[:60]
    counted_lines = f"{len(template):,} lines of the tracker's issue template, such as '{example}', are"
    if len(template) == 1:
        counted_lines = f"1 line of the tracker's issue template, '{example}', is"
    warning = f"{counted_lines} left out of {changed.sum():,} descriptions; dataset.keep_template=true keeps such lines"
    return reports.assign(description=shorter), [warning]


def resolution_dates(texts: pd.Series, date_format: str) -> tuple[pd.Series, tuple[str, ...]]:
    """When each report was resolved, ``NaT`` where unknown, and a warning that counts the dates that cannot be read."""
    dates, _ = parse_dates(texts, date_format)
    unread = dates.isna() & (texts.str.strip() != "")
    if not unread.any():
        return dates, ()
    return dates, (f"unreadable resolution dates: {unread.sum():,}, treated as missing (first: row {unread.idxmax()})",)


def early_warnings(reports: pd.DataFrame) -> list[str]:
    """A warning that counts the reports resolved on a day before they were created; their dates are kept."""
    if RESOLVED_AT not in reports:
        return []
    # A date without a time is midnight, which comes before the moment of creation on the same day.
    early = reports.index[reports[RESOLVED_AT] < reports["created_at"].dt.floor("D")]
    warning = f"reports resolved before they were created: {len(early):,}, kept (first: row {early.min()})"
    return [warning] if len(early) else []


def text_warnings(reports: pd.DataFrame, columns: Mapping[str, str | None]) -> list[str]:
    """Warnings about empty or very long texts, which are kept, and about columns that seem to be swapped."""
    empty = {field: reports[field].str.strip() == "" for field in ("title", "description") if columns.get(field)}
    remarks = {f"with an empty {field}": rows for field, rows in empty.items()}
    if len(empty) == 2:
        remarks["with neither title nor description"] = empty["title"] & empty["description"]
    longer = reports["description"].str.len() > LONG_DESCRIPTION
    remarks[f"with a description of more than {LONG_DESCRIPTION:,} characters"] = longer
    counted = [
        f"reports {remark}: {rows.sum():,}, kept (first: row {rows.idxmax()})"
        for remark, rows in remarks.items()
        if rows.any()
    ]
    if len(empty) < 2:
        return counted
    texts = reports.loc[~empty["title"] & ~empty["description"], ["title", "description"]].map(len)
    if len(texts) >= MIN_COMPARED and texts["title"].median() > texts["description"].median():
        both = f"titles (column {columns['title']!r}) are longer than descriptions ({columns['description']!r})"
        counted.append(f"most {both}: are the two columns swapped?")
    return counted
