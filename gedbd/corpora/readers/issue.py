"""The issue of any tracker, and its fields at the time it was created."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from gedbd.corpora.readers.duplicate_cells import says_duplicate
from gedbd.corpora.readers.record_values import Record, moment, text

Values = Mapping[str, tuple[str, ...]]

# Trackers log the values that the reporter or a form sets on creation as changes at that time.
CREATION = timedelta(seconds=10)
DUPLICATE = "duplicate"  # the resolution of duplicates in trackers that record them in another way
NAMED_NOWHERE = "closed as duplicates, the original not recognised"
ELSEWHERE = "that name a duplicate in another repository or project, dropped"


class Link(NamedTuple):
    """Another issue that is named as a duplicate."""

    named: str  # its number or key
    source: str  # what names it
    made_at: datetime | None = None  # when it was named, UTC; ``None`` if unknown
    project: str = ""  # its repository or project, as far as it is written; empty if it is that of the issue


class DateKeys(NamedTuple):
    """The keys of the dates in a tracker's records; ``changed`` is the key in an entry of the history."""

    created: str
    updated: str
    resolved: str
    changed: str


class FieldChange(NamedTuple):
    """One change of a field of the corpus."""

    when: datetime | None  # when it was made, UTC; ``None`` if unknown
    field: str  # its name in the table of documents
    before: str  # the removed value, empty for none
    after: str  # the added value, empty for none
    # whether the field has a single value, which was replaced; else one of several was removed or added
    whole: bool = True


class Issue(NamedTuple):
    """One issue."""

    issue_id: str  # its number or key
    project: str  # the repository or project within which the number is unique; empty if unknown or part of the key
    created_at: datetime | None  # UTC, ``None`` if unknown
    updated_at: datetime | None  # UTC, ``None`` if unknown
    values: Values  # field to its values in the export, without ``created_at`` and ``id``
    links: tuple[Link, ...] = ()  # the duplicates that it names
    changes: tuple[FieldChange, ...] | None = None  # its history, ``None`` if the export does not hold it
    remarks: tuple[str, ...] = ()  # notes for the user, worded to follow "issues"
    outside: tuple[str, ...] = ()  # the key of each date that is out of range
    position: str = ""  # file and number of the record, for messages
    is_duplicate: bool = False  # whether it was closed as a duplicate
    # when it was last resolved or closed, UTC; ``None`` if it is open, or unknown. It is not reset to creation, as it
    # tells which issues were open at a moment.
    resolved_at: datetime | None = None


def make_issue(
    record: Record,
    keys: DateKeys,
    issue_id: str,
    values: Values,
    links: Iterable[Link],
    closed: bool,
    history: Sequence[Record] | None,
    changes_of: Callable[[Sequence[Record]], Iterable[FieldChange]],
    project: str = "",
    remarks: Iterable[str] = (),
) -> Issue:
    """The issue of a record, which holds its dates under ``keys``.

    ``closed`` says whether it was closed as a duplicate; ``changes_of`` parses the entries of its ``history``, ``None``
    if the export does not hold it. For the others see ``Issue``.

    Raises:
        ValueError: A date is unreadable.
    """
    dated = [(key, record) for key in (keys.created, keys.updated, keys.resolved)]
    dated += [(keys.changed, entry) for entry in history or ()]
    return Issue(
        issue_id,
        project,
        moment(record, keys.created),
        moment(record, keys.updated),
        values,
        tuple(links),
        None if history is None else tuple(changes_of(history)),
        tuple(remarks),
        tuple(key for key, entry in dated if text(entry, key).strip() and moment(entry, key) is None),
        is_duplicate=closed,
        resolved_at=moment(record, keys.resolved),
    )


def components_of(labels: Iterable[str], prefixes: Iterable[str]) -> tuple[str, ...]:
    """The components that labels name: ``map`` for ``area: map`` and the prefix ``area``."""
    components = []
    for label in labels:
        prefix = next((prefix for prefix in prefixes if label.lower().startswith(prefix.lower())), None)
        components.append("" if prefix is None else label[len(prefix) :].strip(" :/"))
    return tuple(filter(None, components))


def distinct(links: Iterable[Link]) -> list[Link]:
    """One link per named issue, the first one: readers list formal links before comments."""
    first: dict[str, Link] = {}
    for link in links:
        first.setdefault(link.named, link)
    return list(first.values())


def reset_to_creation(issue: Issue) -> Issue:
    """Undoes the changes after the creation of an issue, the last one first."""
    values = dict(issue.values)
    # A change without a date cannot be placed after the creation.
    dated = [(change.when, change) for change in issue.changes or () if change.when]
    later = [pair for pair in dated if not (issue.created_at and pair[0] - issue.created_at <= CREATION)]
    for _, change in sorted(later, key=lambda pair: pair[0], reverse=True):
        values[change.field] = undo(values.get(change.field, ()), change)
    return issue._replace(values=values)


def list_changes(
    when: datetime | None, field: str, before: Iterable[str], after: Iterable[str]
) -> Iterator[FieldChange]:
    """Yields the removed and the added values of a change from one list of values to another."""
    old = set(before)
    new = set(after)
    for value in sorted(old - new):
        yield FieldChange(when, field, value, "", whole=False)
    for value in sorted(new - old):
        yield FieldChange(when, field, "", value, whole=False)


def marked_at(issue: Issue) -> datetime | None:
    """When the issue was last resolved as a duplicate, by its history; ``None`` if it is no duplicate, or unknown.

    Args:
        issue: The issue with its values in the export, not those at creation.
    """
    if not any(says_duplicate(value) for value in issue.values.get("resolution", ())):
        return None
    resolved = [change for change in issue.changes or () if change.field == "resolution"]
    dates = [change.when for change in resolved if change.when and says_duplicate(change.after)]
    return max(dates, default=None)


def undo(values: tuple[str, ...], change: FieldChange) -> tuple[str, ...]:
    """The values of a field before a change."""
    before = (change.before,) if change.before else ()
    # One value of several: adding "1.0" to "2.0" is undone by removing "1.0".
    if change.whole:
        return before
    return tuple(value for value in values if value != change.after and value != change.before) + before
