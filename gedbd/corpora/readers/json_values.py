"""Take typed values out of JSON records of strangers; a value of another type is refused with its key."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from gedbd.corpora.dates import OutOfRangeError, parse_date

Record = Mapping[str, Any]

TYPES = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
SURROGATE = re.compile("[\ud800-\udfff]")  # half a character, which JSON can spell and UTF-8 cannot hold


def refuse(key: str, value: Any, expected: str) -> ValueError:
    """The error that says what was found where something else is expected."""
    shown = repr(value) if isinstance(value, str | int | float) else TYPES.get(type(value), "null")
    return ValueError(f"{key!r} is {shown[:60]} where {expected} is expected")


def text(record: Record, key: str) -> str:
    """The text under ``key``; null and a missing key are an empty text.

    Raises:
        ValueError: The value is no text.
    """
    value = record.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise refuse(key, value, "text")
    return SURROGATE.sub("\ufffd", value)


def needed_text(record: Record, key: str, advice: str) -> str:
    """As ``text``, but the key must be there.

    Raises:
        ValueError: It is not; ends with ``advice``.
    """
    if key not in record:
        raise ValueError(f"the issue has no {key!r}; {advice}")
    return text(record, key)


def number_of(record: Record, key: str) -> str:
    """An id, given as a number or as digits.

    Raises:
        ValueError: There is none.
    """
    value = record.get(key)
    if value is None or value == "":
        raise ValueError(f"the issue has no {key!r}, by which it could be named")
    if isinstance(value, bool) or not str(value).isdecimal():
        raise refuse(key, value, "a whole number")
    return str(value)


def part(record: Record, key: str) -> Record:
    """The object under ``key``, an empty one for null.

    Raises:
        ValueError: The value is no object.
    """
    value = record.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise refuse(key, value, "an object")
    return value


def parts(record: Record, key: str) -> list[Record]:
    """The objects listed under ``key``, none for null.

    Raises:
        ValueError: The value is no list, or lists something else.
    """
    value = record.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise refuse(key, value, "a list")
    for item in value:
        if not isinstance(item, dict):
            raise refuse(key, item, "a list of objects")
    return value


def names(record: Record, key: str) -> tuple[str, ...]:
    """What is listed under ``key``, as texts or as objects that have a ``name``; one alone need not be in a list.

    Raises:
        ValueError: Something listed is neither.
    """
    value = record.get(key)
    listed = value if isinstance(value, list) else [value]
    found = [text(item if isinstance(item, dict) else {"name": item}, "name") for item in listed]
    return tuple(name for name in found if name)


def moment(record: Record, key: str) -> datetime | None:
    """The date under ``key`` in UTC, null where there is none or one that is out of range, see ``gedbd.corpora.dates``.

    Raises:
        ValueError: It cannot be read.
    """
    written = text(record, key).strip()
    if not written:
        return None
    try:
        return parse_date(written)
    except OutOfRangeError:
        return None
    except ValueError as error:
        raise ValueError(f"{key!r}: unreadable date {written[:40]!r}; expected is 2024-01-31T09:30:00Z") from error


def dates_outside(key: str, *records: Record) -> tuple[str, ...]:
    """The key, once for each record whose date under it is out of range, and so null in ``moment``."""
    return tuple(key for record in records if text(record, key).strip() and moment(record, key) is None)
