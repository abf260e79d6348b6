"""What an answer must look like; what does not is refused with its address."""

from gedbd.corpora.clients.http import Answer, Record
from gedbd.corpora.urls import shown_url


def records(answer: Answer, *path: str, key: str) -> list[Record]:
    """The list of objects under ``path``, each of which has ``key``.

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
    """A field that must hold text.

    Raises:
        ValueError: It does not.
    """
    value = record.get(key)
    if not isinstance(value, str):
        raise unexpected(answer, f"text under {key!r}")
    return value


def number(record: Record, key: str, answer: Answer) -> int:
    """A field that must hold an id: a whole number, not below 0, that a database can hold.

    Raises:
        ValueError: It does not.
    """
    value = record.get(key)
    if not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise unexpected(answer, f"a whole number under {key!r}")
    return value


def section(record: object, *path: str) -> Record:
    """The object under ``path``, empty where there is none."""
    for name in path:
        record = record.get(name) if isinstance(record, dict) else None
    return record if isinstance(record, dict) else {}


def sized(text: str | None) -> int | None:
    """A header's number, if it is one."""
    return int(text) if text and text.isdecimal() else None


def unexpected(answer: Answer, wanted: str) -> ValueError:
    """The error for an answer that is JSON, but not what was asked for."""
    return ValueError(
        f"{shown_url(answer.url)}: the answer is not what is expected: {wanted}; is tracker= the right one?"
    )
