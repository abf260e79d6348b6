"""An issue as every tracker has it, and what it was when it was filed."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import NamedTuple

Values = Mapping[str, tuple[str, ...]]

# Trackers log what the reporter or a form chose while filing as changes of the same moment.
FILING = timedelta(seconds=10)


class Link(NamedTuple):
    """Another issue of the same tracker that is named as a duplicate, what names it, and when, in UTC, if known."""

    named: str
    source: str
    made_at: datetime | None = None


class Change(NamedTuple):
    """One change of a field of the corpus.

    Attributes:
        when: UTC.
        field: As in ``gedbd.corpora.documents.FIELDS``.
        before: Value that went, empty for none.
        after: Value that came.
        whole: The field has one value, which was replaced; else one value of several went or came.
    """

    when: datetime | None
    field: str
    before: str
    after: str
    whole: bool = True


class Issue(NamedTuple):
    """One issue.

    Attributes:
        issue_id: Its number or key.
        project: Repository or project that gives the number its meaning; empty if unknown or if the key says it.
        created_at: UTC, null if unknown.
        updated_at: Likewise.
        values: Field to its values as they stand in the export; ``created_at`` and ``id`` are not among them.
        links: Duplicates it names.
        changes: Its history, null where the export has none.
        remarks: What the user should know, worded to follow "issues".
        outside: Keys of the export whose dates are out of range, one for each such date.
        place: File and number of the record, for messages.
    """

    issue_id: str
    project: str
    created_at: datetime | None
    updated_at: datetime | None
    values: Values
    links: tuple[Link, ...] = ()
    changes: tuple[Change, ...] | None = None
    remarks: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()
    place: str = ""


def distinct(links: Iterable[Link]) -> list[Link]:
    """One link for each issue named: the first, so that readers list what is surest first."""
    first: dict[str, Link] = {}
    for link in links:
        first.setdefault(link.named, link)
    return list(first.values())


def as_filed(issue: Issue) -> Issue:
    """Undo the changes that came after filing, the last one first."""
    values = dict(issue.values)
    for change in sorted(later_changes(issue), key=lambda change: change.when or datetime.max, reverse=True):
        values[change.field] = undo(values.get(change.field, ()), change)
    return issue._replace(values=values)


def later_changes(issue: Issue) -> Iterable[Change]:
    """The dated changes that do not belong to filing."""
    for change in issue.changes or ():
        if change.when and not (issue.created_at and change.when - issue.created_at <= FILING):
            yield change


def undo(values: tuple[str, ...], change: Change) -> tuple[str, ...]:
    """The values of a field before a change."""
    before = (change.before,) if change.before else ()
    if change.whole:
        return before
    return tuple(value for value in values if value != change.after and value != change.before) + before
