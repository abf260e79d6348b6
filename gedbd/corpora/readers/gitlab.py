"""Read GitLab issues: REST lists, with the notes of each issue under ``notes`` where they were fetched."""

import re
from collections.abc import Iterator, Sequence

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import Comment, References, comment_links, is_here
from gedbd.corpora.readers.github import component_of
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

COLUMNS = {"id": "iid", "title": "title", "description": "description", "created_at": "created_at"}
REFERENCES = References(
    r"(?:https?://(?P<place1>[\w.-]{1,100}(?:/[\w.-]{1,100}){1,20}?)/-/(?:issues|work_items)/(?P<id1>\d+)(?:#[\w-]+)?"
    r"|(?<![\w./-])(?P<place2>[\w.-]{1,100}(?:/[\w.-]{1,100}){0,20})?#(?P<id2>\d+)\b)"
)
ADDRESS = re.compile(r"https?://(.+?)(?:/-)?/(?:issues|work_items)/\d+")
API_LINK = re.compile(r"/projects/([^/]+)/issues/(\d+)")
RENAMED = re.compile(r"changed title from \*\*(.*)\*\* to \*\*(.*)\*\*", re.DOTALL)
DIFF_MARKS = re.compile(r"\{[-+]|[-+]\}")
MARKED = re.compile(r"marked this issue as a duplicate of", re.IGNORECASE)


def read_gitlab(
    name: str | None,
    path: str,
    component_labels: Sequence[str] = (),
    as_filed: bool = True,
    last_n: int | None = None,
    image_dir: str | None = None,
    url_template: str | None = None,
) -> Corpus:
    """Read the issues of one project.

    Args:
        name: Short name of the corpus; null takes it from the path.
        path: A file of issues, ``.json`` or one a line, plain or packed, or a folder of such pages.
        component_labels: A label that begins with one of these names a component.
        as_filed: Set titles and states back to what they were when the issue was filed, where its notes are there.
        last_n: If given, only so many reports are kept, those filed last.
        image_dir: Folder under which attached images lie, by default that of the export.
        url_template: Address of a report that has none, with ``{issue_id}`` in place of its id; null for none.

    Raises:
        ValueError: The export is not as it should be; names file and record.
    """

    def parse(record: Record) -> Issue:
        return parse_issue(record, tuple(component_labels))

    return read_tracker("gitlab", parse, COLUMNS, path, name, as_filed, last_n, image_dir, url_template=url_template)


def parse_issue(record: Record, prefixes: tuple[str, ...]) -> Issue:
    """Read one issue; it counts as closed as a duplicate if GitLab itself says so."""
    here, number = home(record), number_of(record, "iid")
    title = needed_text(record, "title", "export whole issues")
    notes = parts(record, "notes")
    formal, elsewhere = formal_links(record, here)
    state = text(record, "state")
    system = [Comment(text(note, "body")) for note in notes if note.get("system") is True]
    system = [note for note in system if state == "closed" or not MARKED.match(note.text)]
    spoken = [Comment(text(note, "body"), is_bot(note)) for note in notes if note.get("system") is not True]
    closed = bool(formal) or any(MARKED.match(note.text) for note in system)
    marked, far = comment_links(system, REFERENCES, here, closed, "system note")
    told, farther = comment_links(spoken, REFERENCES, here, closed, "comment")
    links = (*formal, *marked, *told)
    remarks = [ELSEWHERE] * (elsewhere or far or farther) + [NAMED_NOWHERE] * (closed and not links)
    labels = names(record, "labels")
    values = {
        "title": (title,),
        "description": (text(record, "description"),),
        "component": tuple(component for label in labels if (component := component_of(label, prefixes))),
        "status": (state,),
        "resolution": ("duplicate",) if closed else (),
        "url": (text(record, "web_url"),),
    }
    changes = tuple(changes_of(notes)) if record.get("notes") is not None else None
    created, updated = moment(record, "created_at"), moment(record, "updated_at")
    dated = [note for note in notes if note.get("system") is True]
    outside = (*dates_outside("created_at", record, *dated), *dates_outside("updated_at", record))
    return Issue(number, here, created, updated, values, links, changes, tuple(remarks), outside)


def home(record: Record) -> str:
    """The issue's project with its host, or else its number."""
    match = ADDRESS.match(text(record, "web_url"))
    if match:
        return match[1]
    full = text(part(record, "references"), "full").partition("#")[0]
    return full or (number_of(record, "project_id") if record.get("project_id") is not None else "")


def is_bot(note: Record) -> bool:
    """Whether a program wrote a note."""
    author = part(note, "author")
    return author.get("bot") is True or "bot" in re.split(r"[_-]|\d+", text(author, "username").lower())


def formal_links(record: Record, here: str) -> tuple[list[Link], bool]:
    """The issue in whose favour this one was closed, and whether it lies in another project."""
    target = text(part(record, "_links"), "closed_as_duplicate_of")
    match = API_LINK.search(target)
    if match:
        same = match[1] == str(record.get("project_id", match[1]))
        return ([Link(match[2], "closed as duplicate")], False) if same else ([], True)
    address = ADDRESS.match(target)
    if not address:
        return [], False
    same = is_here(address[1], here)
    return ([Link(target.rpartition("/")[2], "closed as duplicate")], False) if same else ([], True)


def changes_of(notes: list[Record]) -> Iterator[Change]:
    """The changes of title and state that system notes tell."""
    for note in notes:
        if note.get("system") is not True:
            continue
        when, body = moment(note, "created_at"), text(note, "body")
        renamed = RENAMED.match(body)
        if renamed:
            before, after = (DIFF_MARKS.sub("", title) for title in renamed.groups())
            yield Change(when, "title", before, after)
        elif body.startswith(("closed", "reopened")):
            states = ("opened", "closed") if body.startswith("closed") else ("closed", "opened")
            yield Change(when, "status", *states)
            yield Change(when, "resolution", "", "")
