"""The parts of a diff that are compared separately: names, added and removed code, comments."""

import re
from typing import NamedTuple

from gedbd.text.change_text import changed_lines
from gedbd.text.code_words import JAVA_KEYWORDS

SECTION = re.compile(r"^@@ -[\d,]+ \+[\d,]+ @@(.*)$", re.MULTILINE)  # no line of a hunk begins with @
DECLARED = re.compile(r"\b(?:class|interface|enum|record|def|function)\s{1,8}(\w+)")
CALLED = re.compile(r"\b(\w+)\s?\(")
COMMENT = ("//", "/*", "*", "#", "<!--")
INLINE_COMMENT = " // "


class ChangeFields(NamedTuple):
    """Texts of a change.

    Attributes:
        names: Names of the classes and methods that its lines declare or are inside of.
        added: Its added lines without comments.
        removed: Its removed lines without comments.
        comments: Its comments, changed or not.
    """

    names: str
    added: str
    removed: str
    comments: str


def change_fields(diff: str) -> ChangeFields:
    """Reads the fields of a unified diff line by line, without a parser, as diffs are fragments.

    A comment is a line that begins with ``//``, ``/*``, ``*``, ``#`` or ``<!--``, or the rest of a line behind ``//``.
    Names are those behind ``class`` and the like; those before a parenthesis in a line that ends with ``{`` or ``:``;
    and those in the headings of hunks, where Git names the class or method that a hunk is in.
    """
    names: list[str] = []
    for match in SECTION.finditer(diff):
        names += declared_names(match[1])
    fields: dict[str, list[str]] = {"+": [], "-": [], " ": [], "comment": []}
    for sign, line in changed_lines(diff):
        text = line.strip()
        if text.startswith(COMMENT):
            fields["comment"].append(text)
            continue
        code, _, comment = text.partition(INLINE_COMMENT)
        if comment:
            fields["comment"].append(comment)
        fields[sign].append(code)
        if code.endswith(("{", ":")) or "class " in code:
            names += declared_names(code)
    added, removed, comments = ("\n".join(fields[name]) for name in ("+", "-", "comment"))
    return ChangeFields("\n".join(names), added, removed, comments)


def declared_names(line: str) -> list[str]:
    """Names of classes and methods in a line that declares one; keywords such as ``if (`` are none."""
    found = DECLARED.findall(line) + CALLED.findall(line)
    return [name for name in found if name not in JAVA_KEYWORDS]
