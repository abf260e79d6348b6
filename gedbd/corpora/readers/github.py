"""Parse GitHub issues: ``gh issue list --json``, REST lists and GraphQL pages.

Archives spread an issue over several records: events of GH Archive, and migration archives.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import Any, Unpack
from urllib.parse import unquote

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import (
    QUERY,
    SCHEME,
    Comment,
    References,
    bare_links,
    comment_links,
    is_bot_name,
    other_project,
)
from gedbd.corpora.readers.duplicate_cells import is_duplicate_label
from gedbd.corpora.readers.export_pages import HUMP, ExportRecord, with_rest_names
from gedbd.corpora.readers.issue import (
    DUPLICATE,
    DateKeys,
    FieldChange,
    Issue,
    Link,
    components_of,
    list_changes,
    make_issue,
)
from gedbd.corpora.readers.pull_requests import PULL_REQUESTS, is_pull_request
from gedbd.corpora.readers.record_values import Record, moment, names, needed_text, number_of, part, parts, text
from gedbd.corpora.readers.rich_text import shown_markdown
from gedbd.corpora.readers.tracker_export import ExportOptions, read_tracker

COLUMNS = {"id": "number", "title": "title", "description": "body", "created_at": "createdAt", "labels": "labels"}
COLUMNS |= {"status": "state", "resolution": "stateReason", "url": "url", "resolved_at": "closedAt"}
FURTHER_KEYS = "created_at closed_at updated_at updatedAt state_reason html_url comments timeline timelineItems events"
FURTHER_KEYS += " repository repository_url pull_request isPullRequest duplicateOf duplicate_of __typename type payload"
DATES = DateKeys("created_at", "updated_at", "closed_at", "created_at")  # a reopened issue has no closed_at
# An address, which may lack its scheme, "owner/repo#12" or "#12", and "GH-12".
REFERENCES = References(
    rf"(?:{SCHEME}(?P<place1>[\w.:-]{{1,100}}/[\w.-]{{1,100}}/[\w.-]{{1,100}})/(?:issues|pull)/(?P<id1>\d+){QUERY}"
    r"|(?<![\w./-])(?P<place2>[\w.-]{1,100}/[\w.-]{1,100})?#(?P<id2>\d+)\b|\bGH-(?P<id3>\d+)\b)"
)
ADDRESS = re.compile(r"https?://(?:www\.)?([^/]+/[^/]+/[^/]+)(?:/(issues|pull)/(\d+))?")
API_ADDRESS = re.compile(r"https?://[^/]+/(?:api/v3/)?repos/")
# Key to its name in gh issue list --json, and what it is for. REST lists hold all of these.
READ_FIELDS = {
    "body": ("body", "the description"),
    "created_at": ("createdAt", "the chronological order"),
    "updated_at": ("updatedAt", "which of two records of an issue is newer"),
    "closed_at": ("closedAt", "whether a candidate was still open when a report came in"),
    "url": ("url", "the address of the page, and the repository"),
    "labels": ("labels", "components, and the label duplicate"),
    "state": ("state", "whether an issue is closed"),
    "state_reason": ("stateReason", "issues that were closed as duplicates"),
    "comments": ("comments", "duplicates that people name"),
}
OTHER_KIND = "records of other kinds"  # pushes, users, milestones, ...
COUNTED_COMMENTS = "whose comments are counted but not exported; duplicates named in them are missing"


def read_github(
    name: str | None,
    path: str,
    component_labels: Sequence[str] = (),
    references: bool = True,
    **options: Unpack[ExportOptions],
) -> Corpus:
    """Reads the issues of a repository, or of several; pull requests are counted and dropped.

    Args:
        name: Short name of the corpus; ``None`` takes it from the path.
        path: A file of issues (``.json``, or one issue per line), plain or packed, or a folder of such pages.
        component_labels: Prefixes of the labels that name a component.
        references: Whether a member's comment of nothing but an issue's number, on the day of closing, is a link to it.
        options: See ``ExportOptions``. The history of an issue is in its events.

    Raises:
        ValueError: The export is malformed. The message names file and record.
    """
    parse = partial(parse_issue, prefixes=tuple(component_labels), references=references)
    return read_tracker("github", parse, COLUMNS, FURTHER_KEYS, path, name, join=join_issues, **options)


def parse_issue(raw: Record, prefixes: tuple[str, ...] = (), references: bool = True) -> Issue | str:
    """Parses one issue of any of the three formats."""
    if is_event(raw) or (is_migrated(raw) and "title" not in raw):
        return OTHER_KIND
    record = with_rest_names(raw)
    here, page = address(record)
    if is_pull_request(record) or page == "pull":
        return PULL_REQUESTS
    number = number_of(record, "number")
    title = needed_text(record, "title", "gh issue list --json needs number,title,body,createdAt and more")
    state = text(record, "state").lower()
    state_reason = text(record, "state_reason").lower()
    formal = state_reason == DUPLICATE
    labels = names(record, "labels")
    closed = formal or (state == "closed" and any(map(is_duplicate_label, labels)))
    comments, unseen = comments_of(record)
    closed_at = moment(record, "closed_at")
    links = formal_links(record, here, number)
    source = "state reason" if formal else "comment"
    of_comments = comment_links(comments, REFERENCES, here, closed and not links, source, closed_at)
    if references and not of_comments and state == "closed":
        of_comments = bare_links(comments, REFERENCES, here, closed_at)
    values = {
        "title": (title,),
        "description": (shown_markdown(text(record, "body")),),
        "component": components_of(labels, prefixes),
        "labels": tuple(label for label in labels if not is_duplicate_label(label)),
        "status": (state,),
        "resolution": (state_reason,) if state_reason else (),
        "url": (page_url(record),),
    }
    links += of_comments
    changes = partial(changes_of, prefixes=prefixes)
    remarks = [COUNTED_COMMENTS] * unseen + missing_fields(record)
    return make_issue(record, DATES, number, values, links, closed, events(record), changes, here, remarks)


def missing_fields(record: Record) -> list[str]:
    """Remarks on the fields that the export lacks, with their purposes."""
    present = set(record)
    if "html_url" in present:
        present.add("url")
    if any(kind(event) == "commented" for event in events(record) or ()):
        present.add("comments")
    return [
        f"without the field {name} ({purpose})" for key, (name, purpose) in READ_FIELDS.items() if key not in present
    ]


def address(record: Record) -> tuple[str, str]:
    """The repository with its host, empty if the issue has no address, and ``issues`` or ``pull``."""
    for key in ("html_url", "url"):
        match = ADDRESS.match(text(record, key))
        if match and match[2]:
            return match[1], match[2]
    repository = part(record, "repository")
    full = text(repository, "name_with_owner") or text(repository, "full_name")
    api = text(record, "repository_url").partition("/repos/")[2]
    return full or api, ""


def page_url(record: Record) -> str:
    """The address of the issue's page: ``html_url`` of REST, ``url`` of gh and GraphQL."""
    url = text(record, "html_url") or text(record, "url")
    # The "url" of REST is an address of the API.
    return "" if API_ADDRESS.match(url) else url


def events(record: Record) -> list[Record] | None:
    """The history of the issue, ``None`` if the export does not hold it."""
    keys = [key for key in ("timeline", "timeline_items", "events") if isinstance(record.get(key), list)]
    return [event for key in keys for event in parts(record, key)] if keys else None


def kind(event: Record) -> str:
    """The kind of an event by its name in REST, such as ``renamed``."""
    name = text(event, "event") or HUMP.sub("_", text(event, "__typename")).lower()
    return {"renamed_title_event": "renamed", "issue_comment": "commented"}.get(name, name.removesuffix("_event"))


def comments_of(record: Record) -> tuple[list[Comment], bool]:
    """The comments, and whether the export counts comments that it does not hold."""
    counted = record.get("comments")  # REST gives a number, in tables a text, and gh and GraphQL a list
    is_count = isinstance(counted, int | str)
    listed = [] if is_count else parts(record, "comments")
    listed = listed or [event for event in events(record) or () if kind(event) == "commented"]
    comments = [
        Comment(text(comment, "body"), is_bot(comment), is_member(comment), moment(comment, "created_at"))
        for comment in listed
    ]
    return comments, is_count and counted not in {0, "0"} and not comments


def is_member(comment: Record) -> bool:
    """Whether the author of a comment may close issues."""
    return text(comment, "author_association").upper() in {"OWNER", "MEMBER", "COLLABORATOR"}


def is_bot(comment: Record) -> bool:
    """Whether a bot wrote a comment."""
    named = comment.get("author") or comment.get("user")
    author = {"login": named} if isinstance(named, str) else part(comment, "author") or part(comment, "user")
    login = text(author, "login")
    typed = "Bot" in (author.get("type"), author.get("__typename")) or author.get("is_bot") is True
    return typed or is_bot_name(login) or login.lower() in {"github-actions", "app/github-actions"}


def formal_links(record: Record, here: str, number: str) -> list[Link]:
    """Links that GitHub itself records, unless they were undone."""
    # Maps number and repository (empty for this one) to source and time.
    recorded: dict[tuple[str, str], tuple[str, datetime | None]] = {}
    for event in events(record) or ():
        if kind(event) in {"marked_as_duplicate", "unmarked_as_duplicate"}:
            # An event names the original and the duplicate; one of the two is this issue.
            for linked in (part(event, "canonical"), part(event, "duplicate")):
                if linked and kind(event) == "marked_as_duplicate":
                    recorded[linked_issue(linked, here)] = "timeline event", moment(event, "created_at")
                elif linked:
                    recorded.pop(linked_issue(linked, here), None)
    original = part(record, "duplicate_of")
    if original:
        canonical = linked_issue(original, here)
        _, made_at = recorded.get(canonical, ("", None))
        recorded[canonical] = "state reason", made_at
    recorded.pop((number, ""), None)
    return [Link(named, *how, project) for (named, project), how in recorded.items()]


def linked_issue(issue: Record, here: str) -> tuple[str, str]:
    """Number of a linked issue, and its repository, empty for this one."""
    return number_of(issue, "number"), other_project(address(issue)[0], here)


def changes_of(timeline: Sequence[Record], prefixes: tuple[str, ...]) -> Iterator[FieldChange]:
    """Yields the changes of title, labels, components and state."""
    state = "open"
    for event in sorted(timeline, key=lambda event: moment(event, "created_at") or datetime.max.astimezone()):
        when = moment(event, "created_at")
        event_kind = kind(event)
        if event_kind == "renamed":
            rename = part(event, "rename")
            before = text(rename, "from") or text(event, "previous_title")
            yield FieldChange(when, "title", before, text(rename, "to") or text(event, "current_title"))
        elif event_kind in {"labeled", "unlabeled"}:
            label = text(part(event, "label"), "name")
            removed = [label] if event_kind == "unlabeled" else []
            added = [label] if event_kind == "labeled" else []
            yield from list_changes(when, "labels", removed, added)
            yield from list_changes(when, "component", components_of(removed, prefixes), components_of(added, prefixes))
        elif event_kind in {"closed", "reopened"}:
            new = "closed" if event_kind == "closed" else "open"
            yield FieldChange(when, "status", state, new)
            reason = text(event, "state_reason").lower() if event_kind == "closed" else ""
            yield FieldChange(when, "resolution", "", reason)  # an open issue has none
            state = new


def is_event(record: Record) -> bool:
    """Whether this is an event as GH Archive stores it."""
    return isinstance(record.get("payload"), dict) and isinstance(record.get("type"), str)


def is_migrated(record: Record) -> bool:
    """Whether this is a record of a migration archive, which refers to others by address."""
    return isinstance(record.get("type"), str) and isinstance(record.get("url"), str) and "number" not in record


def join_issues(records: Iterable[ExportRecord]) -> Iterator[ExportRecord]:
    """Yields plain issues in order, and then the issues of other records, each with its comments.

    Of several events about an issue, the last one counts. Records that concern no issue are yielded unchanged.
    """
    issues: dict[str, tuple[str, dict[str, Any]]] = {}
    comments: dict[str, list[Record]] = {}
    for position, record in records:
        if is_event(record):
            payload = part(record, "payload")
            issue = part(payload, "issue")
            key = f"{text(part(record, 'repo'), 'name')}#{issue.get('number')}"
            if issue:
                issues[key] = position, dict(issue) | {"comments": []}
            if issue and payload.get("comment"):
                comments.setdefault(key, []).append(part(payload, "comment"))
        elif is_migrated(record) and record["type"] == "issue":
            issue = migrated_issue(record)
            key = text(record, "url")
            issues[key] = position, dict(issue)
        elif is_migrated(record) and record["type"] == "issue_comment" and record.get("issue"):
            key = text(record, "issue")
            comments.setdefault(key, []).append(dict(record) | {"user": named_by(text(record, "user"))})
        else:
            key = ""
        if not key or (key not in issues and key not in comments):
            yield ExportRecord(position, record)
    for key, (position, joined) in issues.items():
        yield ExportRecord(position, joined | {"comments": comments.get(key, [])})


def migrated_issue(record: Record) -> Record:
    """An issue of a migration archive with the keys of REST."""
    url = text(record, "url")
    labels = record.get("labels") or []
    return dict(record) | {
        "number": url.rpartition("/")[2],
        "html_url": url,
        "state": "closed" if record.get("closed_at") else "open",
        "labels": [named_by(label) if isinstance(label, str) else label for label in labels],
        "user": named_by(text(record, "user")),
    }


def named_by(url: str) -> dict[str, str]:
    """A user or label as an object, from its address."""
    name = unquote(url.rpartition("/")[2])
    return {"login": name, "name": name}
