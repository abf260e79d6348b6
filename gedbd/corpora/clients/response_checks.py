"""Check the shape of responses; errors name the address."""

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
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise unexpected(answer, f"a whole number under {key!r}")
    return value


def section(record: object, *path: str) -> Record:
    """The object under ``path``, an empty one if there is none."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def sized(text: str | None) -> int | None:
    """The number in a header, ``None`` if it holds none."""
    return int(text) if text and text.isdecimal() else None


def unexpected(answer: Answer, wanted: str) -> ValueError:
    """The error for a JSON response of another shape than the expected one."""
    return ValueError(
        f"{shown_url(answer.url)}: unexpected response: expected {wanted}; is tracker= set to the right kind of"
        " tracker?"
    )
