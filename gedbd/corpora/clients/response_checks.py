"""Check the shape of responses; errors name the address."""

import re

from gedbd.corpora.clients.http import Answer, Record
from gedbd.corpora.urls import shown_url


def records(answer: Answer, *path: str, key: str) -> list[Record]:
    """The list of objects under ``path``, each of which must have ``key``.

    Raises:
        ValueError: There is no such list.
    """
    found = answer.content
    for name in path:
        found = found.get(name) if isinstance(found, dict) else None
    if not isinstance(found, list) or not all(isinstance(item, dict) and key in item for item in found):
        raise unexpected(answer, f"a list of objects with {key!r}" + (f" under {'.'.join(path)}" if path else ""))
    return found


def text(record: Record, key: str, answer: Answer) -> str:
    """The value of a field that must hold text.

    Raises:
        ValueError: It holds something else.
    """
    value = record.get(key)
    if not isinstance(value, str):
        raise unexpected(answer, f"text under {key!r}")
    return value


def number(record: Record, key: str, answer: Answer) -> int:
    """The value of a field that must hold an id: a whole number from 0 to 2^63 - 1, as SQLite can store.

    Raises:
        ValueError: It holds something else.
    """
    value = record.get(key)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise unexpected(answer, f"a whole number under {key!r}")
    return value


def identifier(record: Record, key: str, answer: Answer) -> str | int:
    """The value of a field that must hold an id: text, or a number as ``number`` takes it.

    Raises:
        ValueError: It holds something else.
    """
    value = record.get(key)
    return value if isinstance(value, str) and value else number(record, key, answer)


def section(record: object, *path: str) -> Record:
    """The object under ``path``, an empty one if there is none."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def sized(text: str | None) -> int | None:
    """The number in a header or an address, ``None`` if it holds none or one that SQLite cannot store."""
    return int(text) if text and re.fullmatch("[0-9]{1,18}", text) else None


def unexpected(answer: Answer, wanted: str) -> ValueError:
    """The error for a JSON response of another shape than the expected one."""
    return ValueError(
        f"{shown_url(answer.url)}: unexpected response: expected {wanted}; is tracker= set to the right kind of"
        " tracker?"
    )
