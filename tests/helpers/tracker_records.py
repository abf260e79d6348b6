"""Small records of each tracker, as its interface exports them."""

import json
from pathlib import Path

import pandas as pd

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bugzilla import read_bugzilla
from gedbd.corpora.readers.github import read_github
from gedbd.corpora.readers.gitlab import read_gitlab
from gedbd.corpora.readers.jira import read_jira

READERS = {"github": read_github, "gitlab": read_gitlab, "jira": read_jira, "bugzilla": read_bugzilla}
LISTS = {"jira": "issues", "bugzilla": "bugs"}  # the key of the records in a page that is no plain list
PREFIXES = {"component_labels": ["area:", "component/"]}


def day(number: int) -> str:
    return f"2024-01-{number:02}T00:00:00Z"


def moment(number: int) -> pd.Timestamp:
    return pd.Timestamp(day(number))


def github(number: int, /, **more: object) -> dict:
    """One issue as REST has it."""
    told = {"number": number, "title": f"title {number}", "body": "text", "state": "open", "labels": []}
    page = f"https://github.com/owner/repo/issues/{number}"
    return told | {"created_at": day(number), "updated_at": day(number), "html_url": page} | more


def said(*bodies: str, login: str = "ann") -> list[dict]:
    return [{"user": {"login": login}, "body": body} for body in bodies]


def event(kind: str, when: int | str, **more: object) -> dict:
    return {"event": kind, "created_at": day(when) if isinstance(when, int) else when, **more}


def gitlab(number: int, /, *notes: dict, **more: object) -> dict:
    home = {"project_id": 4, "web_url": f"https://gitlab.example.org/group/sub/project/-/issues/{number}"}
    told = {"id": 100 + number, "iid": number, "title": f"title {number}", "description": "text", "state": "opened"}
    when = {"created_at": day(number), "updated_at": day(number)}
    return told | home | when | ({"notes": list(notes)} if notes else {}) | more


def note(body: str, system: bool = True, username: str = "ann", when: int = 31) -> dict:
    return {"body": body, "system": system, "created_at": day(when), "author": {"username": username}}


def jira(number: int, /, *histories: dict, **more: object) -> dict:
    fields = {"summary": f"title {number}", "description": "text", "created": f"2024-01-{number:02}T10:00:00.000+0100"}
    fields |= {"project": {"key": "ABC", "name": "Alphabet"}, "components": [{"name": "Map"}, {"name": "Print"}]}
    fields |= {"versions": [{"name": "1.0"}], "environment": "Linux", "priority": {"name": "Major"}}
    fields |= {"status": {"name": "Open"}, "resolution": None}
    log = {"changelog": {"histories": list(histories), "total": len(histories)}} if histories else {}
    return {"id": "9", "key": f"ABC-{number}", "fields": fields | more} | log


def changed(when: int, field: str, before: str | None, after: str | None) -> dict:
    return {"created": day(when), "items": [{"field": field, "fromString": before, "toString": after}]}


def bugzilla(number: int, /, *comments: str, **more: object) -> dict:
    told = {"id": number, "summary": f"title {number}", "creation_time": day(number)}
    fields = {"product": "Mail", "component": "Inbox", "version": "1", "op_sys": "Linux", "priority": "P3"}
    spoken = {"comments": [{"text": text, "count": place} for place, text in enumerate(comments)]} if comments else {}
    return told | fields | {"status": "NEW", "resolution": "", "dupe_of": None} | spoken | more


def edited(when: int, field: str, removed: str, added: str) -> dict:
    change = {"field_name": field, "removed": removed, "added": added}
    return {"when": day(when), "who": "ann", "changes": [change]}


RECORDS = {"github": github, "gitlab": gitlab, "jira": jira, "bugzilla": bugzilla}


def read(tracker: str, folder: Path, content: object, **options: object) -> Corpus:
    """The corpus of a list of records, or of the content of a page, which lies in the file ``export.json``."""
    path = folder / "export.json"
    if isinstance(content, list) and tracker in LISTS:
        content = {LISTS[tracker]: content}
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    prefixes = PREFIXES if tracker in {"github", "gitlab"} else {}
    return READERS[tracker](None, str(path), **prefixes, **options)


def tied(corpus: Corpus) -> set[tuple[str, str, str]]:
    ids = corpus.reports["id"]
    return {(ids[link.query], ids[link.document], link.source) for link in corpus.links.table.itertuples()}
