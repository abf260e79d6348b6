"""Pieces of Markdown."""

import re
from collections.abc import Iterable, Sequence

CODE = re.compile(r"(`[^`]*`)")
DOUBLE_TICKS = re.compile(r"``([^`]+)``")
ASSIGNMENT = re.compile(
    r"(?<![\w?&/:.=-])[+~]?[\w.@/]+=(?:\.{3}|[^\s;()`]*[\w}\]/])"
)  # an option in a sentence: dataset=csv
ANGLE = re.compile(r"<([a-z][\w .-]*)>")  # a placeholder such as <folder>


def code(text: str) -> str:
    """A text as code."""
    return f"`{text}`" if text else ""


def prose(text: str) -> str:
    """A comment or docstring as Markdown: its code is kept, and nothing else in it is markup."""
    text = DOUBLE_TICKS.sub(r"`\1`", text)
    pieces = CODE.split(text if "`" in text else ASSIGNMENT.sub(r"`\g<0>`", text))
    # Code is at the odd places, since the pattern has a group.
    plain = [piece if number % 2 else _escaped(piece) for number, piece in enumerate(pieces)]
    return "".join(plain)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table with an empty line behind it."""
    lines = [_row(header), _row(["---"] * len(header))]
    return [*lines, *(_row([cell.replace("|", "\\|") for cell in row]) for row in rows), ""]


def code_block(lines: Iterable[str], language: str = "bash") -> list[str]:
    """The lines of a code block with an empty line behind it."""
    return [f"```{language}", *lines, "```", ""]


def paragraphs(lines: Iterable[str]) -> list[str]:
    """Lines of a comment as a paragraph, and the lines that begin with a dash as a list."""
    joined: list[str] = []
    for line in lines:
        text = line.strip()
        continues_item = bool(joined) and joined[-1].startswith("- ") and not text.startswith("- ")
        if text.startswith("- "):
            if joined and not joined[-1].startswith("- "):
                joined.append("")
            joined.append(f"- {prose(text[2:])}")
        elif continues_item:
            joined[-1] += f" {prose(text)}"
        else:
            joined.append(prose(text))
    return [*joined, ""] if joined else []


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    text = ANGLE.sub(r"&lt;\1&gt;", text)
    return re.sub(r"([*_\[\]])", r"\\\1", text)
