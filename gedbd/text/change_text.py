"""The text of a change that an encoder or a scorer reads."""

import re
from collections.abc import Iterator
from typing import Literal, NamedTuple, get_args

from gedbd.text.words import JAVA_KEYWORDS

SECTION = re.compile(r"^@@ -[\d,]+ \+[\d,]+ @@(.*)$", re.MULTILINE)  # no line of a hunk begins with @
DECLARED = re.compile(r"\b(?:class|interface|enum|record|def|function)\s{1,8}(\w+)")
CALLED = re.compile(r"\b(\w+)\s?\(")
COMMENT = ("//", "/*", "*", "#", "<!--")
INLINE_COMMENT = " // "
Form = Literal["D", "ARC", "ARCL"]
ADDED = "[ADDED]"
REMOVED = "[REMOVED]"
CONTEXT = "[CONTEXT]"
MARKS = {"+": ADDED, "-": REMOVED, " ": CONTEXT}
HUNK = re.compile(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")


def change_text(diff: str, form: Form) -> str:
    r"""Writes a diff in one of three forms.

    - ``D``: the whole diff as it stands.
    - ``ARC``: the added, the removed and the context lines, gathered in this order, each group behind its mark; a
      group without a line is left out.
    - ``ARCL``: line by line, the sign of each line replaced by its mark.

    ``ARC`` and ``ARCL`` leave out the headers of files and hunks. The hunk ``-a\n+b\n c`` gives
    ``[ADDED]\nb\n[REMOVED]\na\n[CONTEXT]\nc`` and ``[REMOVED] a\n[ADDED] b\n[CONTEXT] c``.

    Source: Ciborowska and Damevski, "Fast Changeset-based Bug Localization with BERT", ICSE 2022.

    Args:
        diff: A unified diff of a commit, a file or a hunk; it may be cut off anywhere.
        form: See above.

    Raises:
        ValueError: The form is unknown.
    """
    if form not in get_args(Form):
        raise ValueError(f"the form {form!r} of change texts is unknown: choose {', '.join(get_args(Form))}")
    if form == "D":
        return diff
    lines = list(changed_lines(diff))
    if form == "ARCL":
        return "\n".join(f"{MARKS[sign]} {text}" for sign, text in lines)
    groups = []
    for wanted, mark in MARKS.items():
        texts = [text for sign, text in lines if sign == wanted]
        if texts:
            groups.append("\n".join([mark, *texts]))
    return "\n".join(groups)


def changed_lines(diff: str) -> Iterator[tuple[str, str]]:
    """Yields sign (``+``, ``-`` or blank) and text of each line inside the hunks of a diff.

    Headers are told from lines by the counts of the hunk's own header: a removed line ``-- x`` is written ``--- x``.
    A hunk may hold fewer lines than its header says, where the diff was cut.
    """
    old_left = 0
    new_left = 0
    for line in diff.removesuffix("\n").split("\n"):
        header = HUNK.match(line)  # no line of a hunk begins with @ or d
        if header or line.startswith("diff "):
            old_left = int(header[1] or 1) if header else 0
            new_left = int(header[2] or 1) if header else 0
            continue
        sign = line[:1] or " "  # some programs strip the blank of an empty context line
        if (old_left <= 0 and new_left <= 0) or sign not in MARKS:
            continue
        old_left -= sign != "+"
        new_left -= sign != "-"
        yield sign, line[1:]


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
