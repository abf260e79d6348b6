"""Turn the issues of a tracker's export into a corpus."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd

from gedbd.corpora.chronology import outside_warning
from gedbd.corpora.corpus import Corpus, keep_last
from gedbd.corpora.readers.bug_reports import BUG_FIELDS, build_corpus
from gedbd.corpora.readers.export_pages import JSON_KINDS, Found, Page, read_pages, read_records, recognise
from gedbd.corpora.readers.issue import Issue, as_filed, distinct
from gedbd.corpora.readers.json_values import Record
from gedbd.corpora.urls import check_template
from gedbd.io.paths import corpus_name

Parse = Callable[[Record], Issue | None]
NEVER = datetime.min.replace(tzinfo=UTC)
NAMED_NOWHERE = "closed as duplicates that name no other issue"
ELSEWHERE = "that name a duplicate of another repository or project, which is dropped"


def read_tracker(
    tracker: str,
    parse: Parse,
    columns: Mapping[str, str],
    path: str,
    name: str | None = None,
    filed: bool = True,
    last_n: int | None = None,
    image_dir: str | None = None,
    kinds: Sequence[str] = JSON_KINDS,
    split: Callable[[Page], Iterator[Found]] = read_records,
    url_template: str | None = None,
) -> Corpus:
    """Read the pages of an export, parse their records, join what occurs twice and build the corpus.

    Args:
        tracker: As in ``dataset=``.
        parse: Reads one record; null for a pull request.
        columns: Field of the corpus to key of the export, for messages.
        path: The file or folder.
        name: Short name of the corpus; null takes it from the path.
        filed: Set titles and fields back to what they were when the report was filed.
        last_n: If given, only so many reports are kept, those filed last.
        image_dir: Folder under which attached images lie, by default that of the export.
        kinds: Endings of the pages.
        split: Takes a page to its records.
        url_template: Address of a report that has none, with ``{issue_id}`` in place of its id; null for none.

    Raises:
        ValueError: A record is not as it should be, or there is no issue; names file and record.
    """
    check_template(url_template)
    place = Path(path).expanduser()
    pages, notices = read_pages(place, kinds)
    issues, met = gather(tracker, (record for page in pages for record in split(page)), parse, place)
    told = (*notices, *met, *date_notices(issues), *remark_notices(issues), *(history_notices(issues) if filed else ()))
    reports = table_of({row: as_filed(issue) for row, issue in issues.items()} if filed else issues)
    corpus = build_corpus(
        name or corpus_name(place),
        reports,
        links_of(issues.values()),
        str(place),
        columns,
        told,
        mutual=True,
        url_template=url_template,
    )
    home = place if place.is_dir() else place.parent
    corpus = replace(corpus, image_dir=Path(image_dir).expanduser() if image_dir else home)
    return corpus if last_n is None else keep_last(corpus, last_n)


def gather(tracker: str, found: Iterable[Found], parse: Parse, path: Path) -> tuple[dict[int, Issue], list[str]]:
    """The issues of all pages by number of the record, each once, and notices about what was left out.

    Raises:
        ValueError: A record is not as it should be, or there is no issue.
    """
    counts: Counter[str] = Counter()
    issues = dict(parse_all(tracker, found, parse, counts))
    if not issues:
        others = f" beside {counts.total():,} pull requests" if counts else ""
        raise ValueError(f"{path}: no issue in the export{others}; at least one is needed")
    kept, joined = join_pages(issues)
    return kept, [*left_out(counts), *joined]


def parse_all(tracker: str, found: Iterable[Found], parse: Parse, counts: Counter[str]) -> Iterator[tuple[int, Issue]]:
    """Parse the records one by one, numbered through all pages, and count what is no issue.

    Raises:
        ValueError: A record is another tracker's, of another repository than those before, or not as it should be.
    """
    project = ""
    for row, (place, record) in enumerate(found, start=1):
        other = recognise(record)
        if other not in {tracker, ""}:
            raise ValueError(f"{place}: looks like a {other} export: dataset={other}")
        try:
            issue = parse(record)
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from error
        except RecursionError as error:
            raise ValueError(f"{place}: lists and objects are nested too deep for an issue") from error
        if issue is None:
            counts["pull requests"] += 1
            continue
        if issue.project and project and issue.project != project:
            raise ValueError(f"{place}: issues of {issue.project} among those of {project}; export each on its own")
        project = project or issue.project
        yield row, issue._replace(place=place)


def left_out(counts: Counter[str]) -> list[str]:
    """Say how many records are no issues."""
    return [f"{what} among the issues: {count:,}, left out" for what, count in counts.items()]


def join_pages(issues: Mapping[int, Issue]) -> tuple[dict[int, Issue], list[str]]:
    """Keep of each issue the record that was updated last, of two equally old ones the one read last.

    Args:
        issues: By number of the record, counted through all pages.
    """
    last: dict[str, int] = {}
    for row, issue in issues.items():
        before = issues.get(last.get(issue.issue_id, 0))
        if before is None or (issue.updated_at or NEVER) >= (before.updated_at or NEVER):
            last[issue.issue_id] = row
    kept = {row: issues[row] for row in sorted(last.values())}
    again = len(issues) - len(kept)
    notice = f"issues that occur again on another page: {again:,}, each taken as it was updated last"
    return kept, [notice] if again else []


def date_notices(issues: Mapping[int, Issue]) -> list[str]:
    """Count the dates that are out of range, and say where the first one stands."""
    places = [f"{issue.place}, {key!r}" for issue in issues.values() for key in issue.outside]
    return [outside_warning(len(places), places[0])] if places else []


def remark_notices(issues: Mapping[int, Issue]) -> list[str]:
    """Count what was remarked on, and name the first issue of each kind."""
    first: dict[str, str] = {}
    counts: Counter[str] = Counter()
    for issue in issues.values():
        for remark in issue.remarks:
            counts[remark] += 1
            first.setdefault(remark, issue.issue_id)
    return [f"issues {remark}: {count:,} (first: {first[remark]})" for remark, count in counts.items()]


def history_notices(issues: Mapping[int, Issue]) -> list[str]:
    """Say how many issues are set back to what they were when filed, and how many have no history to do so."""
    without = sum(issue.changes is None for issue in issues.values())
    if without == len(issues):
        return ["the export has no history: titles and fields are as they stand today"]
    changed = sum(as_filed(issue).values != issue.values for issue in issues.values())
    told = [f"issues whose title or fields are set back to what they were when filed: {changed:,}"]
    return told + ([f"issues without a history: {without:,}, as they stand today"] if without else [])


def table_of(issues: Mapping[int, Issue]) -> pd.DataFrame:
    """The reports as ``build_corpus`` takes them, indexed by number of the record."""
    rows = [
        {field: ", ".join(issue.values.get(field, ())) for field in BUG_FIELDS}
        | {
            "id": issue.issue_id,
            "created_at": issue.created_at.isoformat() if issue.created_at else "",
            "attachments": ";".join(issue.values.get("attachments", ())),
        }
        for issue in issues.values()
    ]
    return pd.DataFrame(rows, index=list(issues), dtype=str)


def links_of(issues: Iterable[Issue]) -> pd.DataFrame:
    """The links of all issues as ``build_corpus`` takes them, one row a link."""
    rows = [
        (issue.issue_id, link.named.strip(), link.source, link.made_at)
        for issue in issues
        for link in distinct(issue.links)
        if link.named.strip()
    ]
    links = pd.DataFrame(rows, columns=["id", "duplicate_id", "source", "made_at"])
    return links.assign(made_at=pd.to_datetime(links["made_at"], utc=True))
