"""Read GitHub issues: ``gh issue list --json``, REST lists and GraphQL pages."""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import Comment, References, comment_links, is_here
from gedbd.corpora.readers.issue import Change, Issue, Link
from gedbd.corpora.readers.json_values import (
    Record,
    dates_outside,
    moment,
    names,
    needed_text,
    number_of,
    part,
    parts,
    text,
)
from gedbd.corpora.readers.tracker_export import ELSEWHERE, NAMED_NOWHERE, read_tracker

COLUMNS = {"id": "number", "title": "title", "description": "body", "created_at": "createdAt"}
REFERENCES = References(
    r"(?:https?://(?P<place1>[\w.-]{1,100}/[\w.-]{1,100}/[\w.-]{1,100})/(?:issues|pull)/(?P<id1>\d+)(?:#[\w-]+)?"
    r"|(?<![\w./-])(?P<place2>[\w.-]{1,100}/[\w.-]{1,100})?#(?P<id2>\d+)\b|\bGH-(?P<id3>\d+)\b)"
)
ADDRESS = re.compile(r"https?://(?:www\.)?([^/]+/[^/]+/[^/]+)(?:/(issues|pull)/(\d+))?")
API_ADDRESS = re.compile(r"https?://[^/]+/(?:api/v3/)?repos/")
HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
DUPLICATE_LABEL = re.compile(
    r"^(?:(?:status|resolution|closed|type|r|s)\s*[:/]+\s*|closed\W+)?(?:duplicate|dupe?)s?$", re.I
)
COUNTED_COMMENTS = "with comments that the export counts but does not hold; duplicates named there are not seen"


def read_github(
    name: str | None,
    path: str,
    component_labels: Sequence[str] = (),
    as_filed: bool = True,
    last_n: int | None = None,
    image_dir: str | None = None,
    url_template: str | None = None,
) -> Corpus:
    """Read the issues of one repository; pull requests are left out and counted.

    Args:
        name: Short name of the corpus; null takes it from the path.
        path: A file of issues, ``.json`` or one a line, plain or packed, or a folder of such pages.
        component_labels: A label that begins with one of these names a component.
        as_filed: Set titles and labels back to what they were when the issue was filed, where its events are there.
        last_n: If given, only so many reports are kept, those filed last.
        image_dir: Folder under which attached images lie, by default that of the export.
        url_template: Address of a report that has none, with ``{issue_id}`` in place of its id; null for none.

    Raises:
        ValueError: The export is not as it should be; names file and record.
    """

    def parse(record: Record) -> Issue | None:
        return parse_issue(record, tuple(component_labels))

    return read_tracker("github", parse, COLUMNS, path, name, as_filed, last_n, image_dir, url_template=url_template)


def parse_issue(raw: Record, prefixes: tuple[str, ...]) -> Issue | None:
    """Read one issue, however its keys are spelled; null for a pull request."""
    record = plain(raw)
    if record.get("pull_request") or record.get("__typename") == "PullRequest" or address(record)[1] == "pull":
        return None
    timeline = events(record)
    here, number = address(record)[0], number_of(record, "number")
    title = needed_text(record, "title", "gh issue list --json needs number,title,body,createdAt and more")
    state, outcome = text(record, "state").lower(), text(record, "state_reason").lower()
    formal = outcome == "duplicate"
    labels = names(record, "labels")
    closed = formal or (state == "closed" and any(DUPLICATE_LABEL.match(label) for label in labels))
    comments, unseen = comments_of(record)
    told, elsewhere = comment_links(comments, REFERENCES, here, closed, "state reason" if formal else "comment")
    noted, far = formal_links(record, here, number)
    links = [*noted, *told]
    remarks = [ELSEWHERE] * (elsewhere or far) + [NAMED_NOWHERE] * (closed and not links) + [COUNTED_COMMENTS] * unseen
    values = {
        "title": (title,),
        "description": (text(record, "body"),),
        "component": tuple(component for label in labels if (component := component_of(label, prefixes))),
        "status": (state,),
        "resolution": (outcome,) if outcome else (),
        "url": (page_url(record),),
    }
    changes = None if timeline is None else tuple(changes_of(timeline, prefixes))
    created, updated = moment(record, "created_at"), moment(record, "updated_at")
    outside = (*dates_outside("created_at", record, *(timeline or ())), *dates_outside("updated_at", record))
    return Issue(number, here, created, updated, values, tuple(links), changes, tuple(remarks), outside)


def plain(value: Any) -> Any:
    """Spell all keys as REST does, and turn the connections of GraphQL into lists."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    if isinstance(value.get("nodes"), list):
        return plain(value["nodes"])
    if isinstance(value.get("edges"), list):
        return [plain(edge.get("node") if isinstance(edge, dict) else edge) for edge in value["edges"]]
    return {HUMP.sub("_", key).lower(): plain(item) for key, item in value.items()}


def address(record: Record) -> tuple[str, str]:
    """Repository with its host, empty where the issue has no address, and ``issues`` or ``pull``."""
    for key in ("html_url", "url"):
        match = ADDRESS.match(text(record, key))
        if match and match[2]:
            return match[1], match[2]
    repository = part(record, "repository")
    full = text(repository, "name_with_owner") or text(repository, "full_name")
    api = text(record, "repository_url").partition("/repos/")[2]
    return full or api, ""


def page_url(record: Record) -> str:
    """The issue's page: ``html_url`` of REST, whose ``url`` is that of the API; ``url`` of gh and GraphQL."""
    url = text(record, "html_url") or text(record, "url")
    return "" if API_ADDRESS.match(url) else url


def events(record: Record) -> list[Record] | None:
    """What happened to the issue, null where the export does not tell."""
    keys = [key for key in ("timeline", "timeline_items", "events") if isinstance(record.get(key), list)]
    return [event for key in keys for event in parts(record, key)] if keys else None


def kind(event: Record) -> str:
    """What happened, as REST names it (``renamed``)."""
    name = text(event, "event") or HUMP.sub("_", text(event, "__typename")).lower()
    return {"renamed_title_event": "renamed", "issue_comment": "commented"}.get(name, name.removesuffix("_event"))


def comments_of(record: Record) -> tuple[list[Comment], bool]:
    """The comments, and whether there are some that the export does not hold."""
    counted = record.get("comments")
    listed = [] if isinstance(counted, int) else parts(record, "comments")
    listed = listed or [event for event in events(record) or () if kind(event) == "commented"]
    comments = [Comment(text(comment, "body"), is_bot(comment)) for comment in listed]
    return comments, isinstance(counted, int) and counted > 0 and not comments


def is_bot(comment: Record) -> bool:
    """Whether a program wrote a comment."""
    author = part(comment, "author") or part(comment, "user")
    login = text(author, "login").lower()
    typed = "Bot" in (author.get("type"), author.get("__typename")) or author.get("is_bot") is True
    return typed or login.endswith(("[bot]", "-bot")) or login in {"github-actions", "app/github-actions"}


def formal_links(record: Record, here: str, number: str) -> tuple[list[Link], bool]:
    """Duplicates that GitHub itself has noted down, unless it was undone, and whether one lies elsewhere."""
    noted: dict[tuple[str, bool], tuple[str, datetime | None]] = {}
    for event in events(record) or ():
        if kind(event) in {"marked_as_duplicate", "unmarked_as_duplicate"}:
            for end in (part(event, "canonical"), part(event, "duplicate")):
                if end and kind(event) == "marked_as_duplicate":
                    noted[other_end(end, here)] = "timeline event", moment(event, "created_at")
                elif end:
                    noted.pop(other_end(end, here), None)
    original = part(record, "duplicate_of")
    if original:
        canonical = other_end(original, here)
        _, made_at = noted.get(canonical, ("", None))
        noted[canonical] = "state reason", made_at
    noted.pop((number, True), None)
    links = [Link(named, *how) for (named, same), how in noted.items() if same]
    return links, any(not same for _, same in noted)


def other_end(issue: Record, here: str) -> tuple[str, bool]:
    """Number of an issue that is tied to this one, and whether it is of the same repository."""
    place = address(issue)[0]
    return number_of(issue, "number"), not place or is_here(place, here)


def changes_of(timeline: list[Record], prefixes: tuple[str, ...]) -> Iterator[Change]:
    """The changes of title, components and state."""
    state = "open"
    for event in sorted(timeline, key=lambda event: moment(event, "created_at") or datetime.max.astimezone()):
        when, what = moment(event, "created_at"), kind(event)
        if what == "renamed":
            rename = part(event, "rename")
            before = text(rename, "from") or text(event, "previous_title")
            yield Change(when, "title", before, text(rename, "to") or text(event, "current_title"))
        elif what in {"labeled", "unlabeled"}:
            component = component_of(text(part(event, "label"), "name"), prefixes)
            if component:
                went, came = ("", component) if what == "labeled" else (component, "")
                yield Change(when, "component", went, came, whole=False)
        elif what in {"closed", "reopened"}:
            new = "closed" if what == "closed" else "open"
            yield Change(when, "status", state, new)
            yield Change(when, "resolution", "", "")
            state = new


def component_of(label: str, prefixes: tuple[str, ...]) -> str:
    """The component that a label names, empty if it names none."""
    prefix = next((prefix for prefix in prefixes if label.lower().startswith(prefix.lower())), None)
    return "" if prefix is None else label[len(prefix) :].strip(" :/")
