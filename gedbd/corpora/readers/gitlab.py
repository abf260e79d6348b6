"""Parse GitLab issues: REST lists, with optional ``notes`` in each issue."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Unpack

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.comments import QUERY, SCHEME, Comment, References, comment_links, is_bot_name, other_project
from gedbd.corpora.readers.duplicate_cells import is_duplicate_label
from gedbd.corpora.readers.export_pages import with_rest_names
from gedbd.corpora.readers.issue import DUPLICATE, DateKeys, FieldChange, Issue, Link, components_of, make_issue
from gedbd.corpora.readers.record_values import Record, moment, names, needed_text, number_of, part, parts, text
from gedbd.corpora.readers.rich_text import shown_markdown
from gedbd.corpora.readers.tracker_export import ExportOptions, read_tracker

COLUMNS = {"id": "iid", "title": "title", "description": "description", "created_at": "created_at"}
COLUMNS |= {"status": "state", "url": "web_url", "labels": "labels", "resolved_at": "closed_at"}
FURTHER_KEYS = "createdAt closedAt webUrl updated_at updatedAt notes label_links references project_id _links"
FURTHER_KEYS += " closed_as_duplicate_of closedAsDuplicateOf"
DATES = DateKeys("created_at", "updated_at", "closed_at", "created_at")  # a reopened issue has no closed_at
# An address, "group/project#12" or "#12".
REFERENCES = References(
    rf"(?:{SCHEME}(?P<place1>[\w.:-]{{1,100}}(?:/[\w.-]{{1,100}}){{1,20}}?)(?:/-)?/(?:issues|work_items)/(?P<id1>\d+){QUERY}"
    r"|(?<![\w./-])(?P<place2>[\w.-]{1,100}(?:/[\w.-]{1,100}){0,20})?#(?P<id2>\d+)\b)"
)
ADDRESS = re.compile(r"https?://(.+?)(?:/-)?/(?:issues|work_items)/\d+")
API_LINK = re.compile(r"/projects/([^/]+)/issues/(\d+)")
RENAMED = re.compile(r"changed title from \*\*(.*)\*\* to \*\*(.*)\*\*", re.DOTALL)
# System notes mark the changed words of a title: "Map {-brakes-}{+breaks+}".
DIFF_MARKS = re.compile(r"\{[-+]|[-+]\}")
MARKED = re.compile(r"marked this issue as a duplicate of", re.IGNORECASE)


def read_gitlab(
    name: str | None, path: str, component_labels: Sequence[str] = (), **options: Unpack[ExportOptions]
) -> Corpus:
    """Reads the issues of a project, or of several. For the arguments and errors see ``read_github``.

    The history of an issue is in its system notes; that of its labels is not.
    """
    parse = partial(parse_issue, prefixes=tuple(component_labels))
    return read_tracker("gitlab", parse, COLUMNS, FURTHER_KEYS, path, name, **options)


def parse_issue(raw: Record, prefixes: tuple[str, ...] = ()) -> Issue:
    """Parses one issue of REST or GraphQL; it counts as closed as a duplicate if GitLab or a label says so."""
    record = with_rest_names(raw)
    here = project_of(record)
    number = number_of(record, "iid")
    title = needed_text(record, "title", "export whole issues")
    notes = [dict(note) | {"body": text(note, "body") or text(note, "note")} for note in parts(record, "notes")]
    history = [note for note in notes if note.get("system") is True]
    formal = formal_links(record, here)
    state = text(record, "state")
    # A note about a duplicate counts only while the issue is closed: reopening does not remove it.
    system = [Comment(text(note, "body")) for note in history]
    system = [note for note in system if state == "closed" or not MARKED.match(note.text)]
    user_comments = [Comment(text(note, "body"), is_bot(note)) for note in notes if note.get("system") is not True]
    # The project's export links labels, and names the body of a note differently.
    linked = [part(link, "label") for link in parts(record, "label_links")]
    objects = [label for label in record.get("labels") or [] if isinstance(label, dict)]  # of GraphQL, with titles
    labels = (*names(record, "labels"), *filter(None, (text(label, "title") for label in (*objects, *linked))))
    formally = any(not link.project for link in formal) or any(MARKED.match(note.text) for note in system)
    closed = formally or (state == "closed" and any(map(is_duplicate_label, labels)))
    links = [*formal, *comment_links(system, REFERENCES, here, False, "system note")]
    links += comment_links(user_comments, REFERENCES, here, closed and not links, "comment")
    values = {
        "title": (title,),
        "description": (shown_markdown(text(record, "description")),),
        "component": components_of(labels, prefixes),
        "labels": tuple(label for label in labels if not is_duplicate_label(label)),
        "status": (state,),
        "resolution": (DUPLICATE,) if closed else (),
        "url": (text(record, "web_url"),),
    }
    dated = None if record.get("notes") is None else history
    return make_issue(record, DATES, number, values, links, closed, dated, changes_of, here)


def project_of(record: Record) -> str:
    """The issue's project with its host, or else the project's number."""
    match = ADDRESS.match(text(record, "web_url"))
    if match:
        return match[1]
    full = text(part(record, "references"), "full").partition("#")[0]
    return full or (number_of(record, "project_id") if record.get("project_id") is not None else "")


def is_bot(note: Record) -> bool:
    """Whether a bot wrote a note."""
    author = part(note, "author")
    return author.get("bot") is True or is_bot_name(text(author, "username"))


def formal_links(record: Record, here: str) -> list[Link]:
    """The issue that GitLab records as the original, if any."""
    original = record.get("closed_as_duplicate_of")  # of GraphQL
    if isinstance(original, dict) and original:
        return [
            Link(number_of(original, "iid"), "closed as duplicate", project=other_project(project_of(original), here))
        ]
    target = text(part(record, "_links"), "closed_as_duplicate_of")
    # The link is an address of the API or of the page.
    match = API_LINK.search(target)
    if match:
        project = str(record.get("project_id", match[1]))
        return [Link(match[2], "closed as duplicate", project=other_project(match[1], project))]
    address = ADDRESS.match(target)
    if not address:
        return []
    return [Link(target.rpartition("/")[2], "closed as duplicate", project=other_project(address[1], here))]


def changes_of(notes: Iterable[Record]) -> Iterator[FieldChange]:
    """Yields the changes of title and state that system notes record."""
    for note in notes:
        when = moment(note, "created_at")
        body = text(note, "body")
        renamed = RENAMED.match(body)
        if renamed:
            before, after = (DIFF_MARKS.sub("", title) for title in renamed.groups())
            yield FieldChange(when, "title", before, after)
        elif body.startswith(("closed", "reopened")):
            states = ("opened", "closed") if body.startswith("closed") else ("closed", "opened")
            yield FieldChange(when, "status", *states)
            yield FieldChange(when, "resolution", "", "")
        elif MARKED.match(body):
            yield FieldChange(when, "resolution", "", DUPLICATE)
