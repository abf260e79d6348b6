"""Take typed values from the records of a tracker's export."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypeVar

from gedbd.corpora.dates import OutOfRangeError, parse_date

TYPES = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can express and UTF-8 cannot
T = TypeVar("T", str, dict[str, Any], list[Any])
Record = Mapping[str, Any]


def refuse(key: str, value: Any, expected: str) -> ValueError:
    """The error for a value of an unexpected type."""
    kind = repr(value) if isinstance(value, str | int | float) else TYPES.get(type(value), "null")
    return ValueError(f"{key!r} is {kind[:60]}; expected: {expected}")


def typed(record: Record, key: str, kind: type[T]) -> T:
    """The value under ``key``, an empty one for null or a missing key. Raises ValueError for another type."""
    value = record.get(key)
    if value is None:
        return kind()
    if not isinstance(value, kind):
        raise refuse(key, value, TYPES[kind])
    return value


def text(record: Record, key: str) -> str:
    """The text under ``key``, see ``typed``."""
    return SURROGATE.sub("\ufffd", typed(record, key, str))


def part(record: Record, key: str) -> Record:
    """The object under ``key``, see ``typed``."""
    return typed(record, key, dict)


def parts(record: Record, key: str) -> list[Record]:
    """The list of objects under ``key``, see ``typed``."""
    items = typed(record, key, list)
    for item in items:
        if not isinstance(item, dict):
            raise refuse(key, item, "a list of objects")
    return items


def needed_text(record: Record, key: str, advice: str) -> str:
    """The text under ``key``. Raises ValueError, with ``advice``, if it is missing."""
    if key not in record:
        raise ValueError(f"the issue has no {key!r}; {advice}")
    return text(record, key)


def number_of(record: Record, key: str) -> str:
    """The id under ``key``, a whole number or a text of digits. Raises ValueError if there is none."""
    value = record.get(key)
    if value is None or value == "":
        raise ValueError(f"the issue has no {key!r}, which identifies it")
    # True is an int in Python.
    if isinstance(value, bool) or not str(value).isdecimal():
        raise refuse(key, value, "a whole number")
    return str(value)


def names(record: Record, key: str) -> tuple[str, ...]:
    """The names under ``key``: texts, or objects with a ``name``, in a list or alone; ValueError for others."""
    value = record.get(key)
    listed = value if isinstance(value, list) else [value]
    objects = [item if isinstance(item, dict) else {"name": item} for item in listed]
    return tuple(filter(None, (text(item, "name") for item in objects)))


def moment(record: Record, key: str) -> datetime | None:
    """The date under ``key`` in UTC, ``None`` if missing or out of range. Raises ValueError if it is unreadable."""
    written = text(record, key).strip()
    if not written:
        return None
    try:
        return parse_date(written)
    except OutOfRangeError:
        return None
    except ValueError as error:
        raise ValueError(f"{key!r}: unreadable date {written[:40]!r}; expected: 2024-01-31T09:30:00Z") from error
