"""The text of a change that an encoder or a scorer reads."""

import re
from collections.abc import Iterator
from typing import Literal, get_args

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
