"""Issues of GitHub that archives spread over several records: events of GH Archive, and migration archives."""

from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import unquote

from gedbd.corpora.readers.export_pages import ExportRecord
from gedbd.corpora.readers.json_values import Record, part, text

OTHER_KIND = "records of other kinds"  # pushes, users, milestones, ...


def is_event(record: Record) -> bool:
    """Whether this is an event as GH Archive stores it."""
    return isinstance(record.get("payload"), dict) and isinstance(record.get("type"), str)


def is_migrated(record: Record) -> bool:
    """Whether this is a record of a migration archive, which names others by their addresses."""
    return isinstance(record.get("type"), str) and isinstance(record.get("url"), str) and "number" not in record


def join_issues(found: Iterable[ExportRecord]) -> Iterator[ExportRecord]:
    """Yield plain issues as they come, and at the end those that other records tell of, each with its comments.

    Of several events about an issue, the last one says how it is. Records that concern no issue are passed on.
    """
    issues: dict[str, tuple[str, dict[str, Any]]] = {}
    comments: dict[str, list[Record]] = {}
    for place, record in found:
        if is_event(record):
            payload = part(record, "payload")
            issue = part(payload, "issue")
            key = f"{text(part(record, 'repo'), 'name')}#{issue.get('number')}"
            if issue:
                issues[key] = place, dict(issue) | {"comments": []}
            if issue and payload.get("comment"):
                comments.setdefault(key, []).append(part(payload, "comment"))
        elif is_migrated(record) and record["type"] == "issue":
            issue = migrated_issue(record)
            key = text(record, "url")
            issues[key] = place, dict(issue)
        elif is_migrated(record) and record["type"] == "issue_comment" and record.get("issue"):
            key = text(record, "issue")
            comments.setdefault(key, []).append(dict(record) | {"user": named_by(text(record, "user"))})
        else:
            key = ""
        if not key or (key not in issues and key not in comments):
            yield ExportRecord(place, record)
    for key, (place, joined) in issues.items():
        yield ExportRecord(place, joined | {"comments": comments.get(key, [])})


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
