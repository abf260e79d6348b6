"""Unified diffs: which of their lines belong to hunks, and the fields that a scorer reads of a change."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gedbd.text.words import JAVA_KEYWORDS

FILE_HEADER = "diff --git "
HUNK_HEADER = re.compile(r"@@ -(\d{1,9})(?:,(\d{1,9}))? \+(\d{1,9})(?:,(\d{1,9}))? @@ ?(.*)", re.DOTALL)
NEW_FILE = "d"
NEW_HUNK = "@"
DECLARED = re.compile(r"\b(?:class|interface|enum|record|def|function)\s{1,8}(\w+)")
CALLED = re.compile(r"\b(\w+)\s?\(")
COMMENT = ("//", "/*", "*", "#", "<!--")
INLINE_COMMENT = " // "
ADDED = "[ADDED]"
REMOVED = "[REMOVED]"
CONTEXT = "[CONTEXT]"
MARKS = {"+": ADDED, "-": REMOVED, " ": CONTEXT}


class HunkHeader(NamedTuple):
    """First line and number of lines of a hunk, before and after the change, and the class or function around it."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: str


class DiffReader:
    """Tells what each line of a unified diff is; the diff may be cut off anywhere.

    As many lines belong to a hunk as its header says, however they look: a removed line ``-- x`` is written ``--- x``.
    A hunk ends early where the header of a hunk or file follows, as no line of a hunk begins with ``@`` or ``d``.

    Attributes:
        hunk: The last hunk header.
    """

    def __init__(self) -> None:
        self.hunk = HunkHeader(0, 0, 0, 0, "")
        self._old_left = 0
        self._new_left = 0

    @property
    def is_in_hunk(self) -> bool:
        """Whether lines of the hunk are still to come."""
        return self._old_left > 0 or self._new_left > 0

    def kind(self, line: str) -> str:
        """The sign (``+``, ``-`` or a blank) of a line of a hunk, ``NEW_HUNK``, ``NEW_FILE``, or empty for the rest."""
        sign = line[:1] or " "  # some programs strip the blank of an empty line of context
        if (self._old_left > 0 or self._new_left > 0) and sign in MARKS:
            self._old_left -= sign != "+"
            self._new_left -= sign != "-"
            return sign
        if line.startswith(FILE_HEADER):
            self._old_left = self._new_left = 0
            return NEW_FILE
        if not line.startswith("@@ "):
            return ""
        header = HUNK_HEADER.match(line)
        if header is None:
            self._old_left = self._new_left = 0
            return ""
        # "@@ -3 +4,0 @@" means one line from 3 on, and none after line 4.
        old_start, old_count, new_start, new_count = (int(number or 1) for number in header.groups()[:4])
        self.hunk = HunkHeader(old_start, old_count, new_start, new_count, header[5])
        self._old_left = old_count
        self._new_left = new_count
        return NEW_HUNK


def changed_lines(diff: str) -> Iterator[tuple[str, str]]:
    """Yields sign (``+``, ``-`` or blank) and text of each line inside the hunks of a diff."""
    reader = DiffReader()
    for line in diff.removesuffix("\n").split("\n"):
        sign = reader.kind(line)
        if sign in MARKS:
            yield sign, line[1:]


class ChangeFields(NamedTuple):
    """Texts of a change."""

    names: str  # names of the classes and methods that its lines declare or are inside of
    added: str  # its added lines without comments
    removed: str  # its removed lines without comments
    comments: str  # its comments, changed or not


def change_fields(diff: str) -> ChangeFields:
    """Reads the fields of a unified diff line by line, without a parser, as diffs are fragments.

    A comment is a line that begins with ``//``, ``/*``, ``*``, ``#`` or ``<!--``, or the rest of a line after ``//``.
    Names are those after ``class`` and the like; those before a parenthesis in a line that ends with ``{`` or ``:``;
    and those in the headings of hunks, where Git names the class or method that a hunk is in.
    """
    sections: list[str] = []
    names: list[str] = []
    fields: dict[str, list[str]] = {"+": [], "-": [], " ": [], "comment": []}
    reader = DiffReader()
    for line in diff.removesuffix("\n").split("\n"):
        kind = reader.kind(line)
        if kind == NEW_HUNK:
            sections += declared_names(reader.hunk.section)
        if kind not in MARKS:
            continue
        text = line[1:].strip()
        if text.startswith(COMMENT):
            fields["comment"].append(text)
            continue
        code, _, comment = text.partition(INLINE_COMMENT)
        if comment:
            fields["comment"].append(comment)
        fields[kind].append(code)
        if code.endswith(("{", ":")) or "class " in code:
            names += declared_names(code)
    added, removed, comments = ("\n".join(fields[name]) for name in ("+", "-", "comment"))
    return ChangeFields("\n".join(sections + names), added, removed, comments)


def declared_names(line: str) -> list[str]:
    """Names of classes and methods in a line that declares one; keywords such as ``if (`` do not count."""
    names = DECLARED.findall(line) + CALLED.findall(line)
    return [name for name in names if name not in JAVA_KEYWORDS]
