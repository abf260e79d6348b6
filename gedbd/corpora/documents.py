"""The corpus: every report of one tracker, in chronological order, with its duplicate group."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.corpora.chronology import check_ids, in_chronological_order
from gedbd.corpora.relevance import circle_notices, find_groups, read_links
from gedbd.corpora.urls import report_urls

FIELDS = (
    "issue_id",
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
LONG_DESCRIPTION = 100_000


@dataclass(frozen=True)
class Corpus:
    """All reports of a tracker. From here on the row number is a report's only identity.

    Attributes:
        name: Short name of the tracker, used for folders and titles.
        reports: N rows in chronological order, indexed 0..N-1, with the columns of ``FIELDS``; ``created_at`` is UTC,
            ``NaT`` throughout where the tracker gives no dates (the rows are then in the order of their ids);
            ``attachments`` names files, separated by ``;``; ``url`` is the report's page, an http or https address,
            empty where it is unknown.
        group: ``(N,)`` int64. A group is a connected component of the "is a duplicate of" links; its number is the
            row of its master, the oldest report. A report without a link is a group of its own.
        notices: What the reader met, kept or left out, counted, in sentences for the user.
        image_dir: The folder under which the files lie that ``attachments`` names, if any.
        links: The links behind the groups, if known: ``report`` and ``duplicate`` (rows), in the direction in which
            the tracker has them, and ``source``, what says so (``dupe_of``, ``issue link``, ``comment``, ...).
        url_template: Address of a report that has none, with ``{issue_id}`` in place of its id, if given.
    """

    name: str
    reports: pd.DataFrame
    group: np.ndarray
    notices: tuple[str, ...] = ()
    image_dir: Path | None = None
    links: pd.DataFrame | None = None
    url_template: str | None = None

    def __len__(self) -> int:
        return len(self.reports)

    @property
    def in_group(self) -> np.ndarray:
        """``(N,)`` bool: reports that have at least one duplicate."""
        _, inverse, counts = np.unique(self.group, return_inverse=True, return_counts=True)
        return np.asarray(counts[inverse] > 1)

    @property
    def fingerprint(self) -> str:
        """A hash of ids, texts and groups, by which a run knows its corpus again."""
        texts = self.reports[["issue_id", "title", "description"]].assign(group=self.group)
        return hashlib.blake2b(pd.util.hash_pandas_object(texts).to_numpy().tobytes(), digest_size=16).hexdigest()


def build_corpus(
    name: str,
    reports: pd.DataFrame,
    source: str,
    columns: Mapping[str, str | None],
    notices: tuple[str, ...] = (),
    date_format: str = "ISO8601",
    mutual: bool = False,
    url_template: str | None = None,
) -> Corpus:
    """Check a tracker's reports, order them by filing time and find their duplicate groups.

    Args:
        name: Short name of the tracker.
        reports: Text columns of ``FIELDS`` and ``duplicate`` (ids separated by ``;``), indexed by row in the source.
            Where each of these ids comes from stands in ``link_source``, separated likewise; without it they come from
            a column of the file.
        source: The file, for messages.
        columns: Name in the file of each field, for messages; null for what the tracker does not have.
        notices: What was met before, while the file was read.
        date_format: ``ISO8601``, or as in ``datetime.strptime``.
        mutual: The duplicates of a group name each other by convention, so circles are nothing to remark on.
        url_template: Address of a report that has none, with ``{issue_id}`` in place of its id; null for none.

    Raises:
        ValueError: An empty or doubled id, an unreadable date, a template that gives no address, or no report at all.
    """
    if reports.empty:
        raise ValueError(f"{source}: no report is left to read; at least one row is needed under the header")
    reports = reports.assign(issue_id=reports["issue_id"].str.strip())
    check_ids(reports["issue_id"], source, columns["issue_id"])
    urls, url_notices = report_urls(reports, url_template)
    reports = reports.assign(url=urls)
    met = [*notices, *text_notices(reports, columns), *url_notices]
    reports, date_notices = in_chronological_order(reports, source, columns.get("created_at"), date_format)
    sources = reports.get("link_source", pd.Series("column", index=reports.index))
    found, link_notices = read_links(reports["issue_id"], reports["duplicate"], sources)
    links = found[["report", "duplicate"]].to_numpy().T
    circles = [] if mutual else circle_notices(links, reports["issue_id"])
    met += [*date_notices, *link_notices, *circles, *size_notices(len(reports), links.shape[1])]
    kept = reports[list(FIELDS)].reset_index(drop=True)
    group = find_groups(links, len(reports))
    return Corpus(name, kept, group, tuple(met), links=found, url_template=url_template)


def keep_last(corpus: Corpus, count: int) -> Corpus:
    """The reports filed last; a group that loses members goes on with the others.

    Raises:
        ValueError: If ``count`` is not above 0.
    """
    if count < 1:
        raise ValueError(f"dataset.last_n={count} must be 1 or more, or null for all reports")
    if count >= len(corpus):
        return corpus
    _, masters, group = np.unique(corpus.group[-count:], return_index=True, return_inverse=True)
    notice = f"the newest {count:,} of {len(corpus):,} reports are kept, as dataset.last_n says"
    reports = corpus.reports.iloc[-count:].reset_index(drop=True)
    group = masters[group].astype(np.int64)
    links = None if corpus.links is None else links_of_last(corpus.links, len(corpus) - count)
    return replace(corpus, reports=reports, group=group, notices=(*corpus.notices, notice), links=links)


def links_of_last(links: pd.DataFrame, first: int) -> pd.DataFrame:
    """The links between reports from row ``first`` on, which becomes row 0."""
    kept = links[(links[["report", "duplicate"]] >= first).all(axis=1)].reset_index(drop=True)
    return kept.assign(report=kept["report"] - first, duplicate=kept["duplicate"] - first)


def text_notices(reports: pd.DataFrame, columns: Mapping[str, str | None]) -> list[str]:
    """Count the reports whose text is empty or very long; all of them are kept."""
    empty = {field: reports[field].str.strip() == "" for field in ("title", "description") if columns.get(field)}
    remarks = {f"with an empty {field}": rows for field, rows in empty.items()}
    if len(empty) == 2:
        remarks["with neither title nor description"] = empty["title"] & empty["description"]
    longer = reports["description"].str.len() > LONG_DESCRIPTION
    remarks[f"with a description of more than {LONG_DESCRIPTION:,} characters"] = longer
    return [
        f"reports {remark}: {rows.sum():,}, kept (first: row {rows.idxmax()})"
        for remark, rows in remarks.items()
        if rows.any()
    ]


def size_notices(num_reports: int, num_links: int) -> list[str]:
    """Say when there is too little to learn from."""
    notices = ["there is only one report: it has nothing to be compared with"] if num_reports == 1 else []
    if num_links == 0:
        notices.append("no report is marked as a duplicate of another: every report is a group of its own")
    return notices
