"""Reads a report from a text: plain, with front matter as in the templates of issues, or as an e-mail."""

import json
import re
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import yaml

from gedbd.corpora.bug_report import FIELD_NAMES, Report, check_report, report_from_json
from gedbd.corpora.readers.rich_text import html_text

FRONT_MATTER = re.compile(r"---[ \t]*\n(?P<fields>.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)


def report_from_text(text: str) -> Report:
    """A report whose title is the first line of a text; raises ValueError if the text is empty or too long."""
    title, _, description = text.strip().partition("\n")
    report = Report(title=title.strip(), description=description.strip())
    check_report(report)
    return report


def read_text(path: Path) -> str:
    """The text of a file in UTF-8 or UTF-16, with or without a byte order mark. Raises ValueError if it is none."""
    content = path.read_bytes()
    encoding = json.detect_encoding(content)  # by the mark, or by which of the first bytes are zero
    text = content.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")
    if "\0" in text:
        raise ValueError(f"file={path} holds no text: save the report as plain text in UTF-8, .eml or .json")
    return re.sub(r"\r\n?", "\n", text)


def report_with_front_matter(text: str) -> Report:
    """A report of a text that may begin with the fields of ``Report`` in YAML, between two lines of hyphens.

    Without a title there, it is the first line of the rest. Other fields are ignored.

    Raises:
        ValueError: If the fields are not YAML, or a value of a report is invalid.
    """
    match = FRONT_MATTER.match(text)
    try:
        fields: Any = yaml.safe_load(match["fields"]) if match else None
    except yaml.YAMLError as error:
        reason = getattr(error, "problem", None) or type(error).__name__
        raise ValueError(f"the front matter is not YAML ({reason}): correct it, or delete it") from error
    if match is None or not isinstance(fields, dict):
        return report_from_text(text)
    values = {name: _plain(fields[name]) for name in FIELD_NAMES if fields.get(name) not in (None, "")}
    body = text[match.end() :].strip()
    title, _, rest = ("", "", body) if "title" in values else body.partition("\n")
    return report_from_json({"title": title, "description": rest.strip()} | values)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def report_of_email(content: bytes) -> Report:
    """The subject, date and decoded text of an e-mail; the text of its HTML if it has no other.

    Raises:
        ValueError: If it has neither subject nor text, or names an unknown encoding.
    """
    message = message_from_bytes(content, policy=policy.default)
    assert isinstance(message, EmailMessage)
    body = message.get_body(("plain", "html"))
    try:
        text = "" if body is None else str(body.get_content())
    except LookupError as error:
        raise ValueError(f"the e-mail has an encoding that is not known ({error}): save its text as UTF-8") from error
    if body is not None and body.get_content_subtype() == "html":
        text = html_text(text)
    sent = message["date"].datetime if message["date"] else None
    values = {"title": str(message["subject"] or ""), "description": text.strip()}
    return report_from_json(values | {"created_at": sent.isoformat() if sent else None})
