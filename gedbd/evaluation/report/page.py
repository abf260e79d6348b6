"""Writes a report: one HTML page that needs nothing beside it, and Markdown with its figures in a folder."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from gedbd.corpora.urls import URL_OF, web_url
from gedbd.evaluation.names import column_name, is_option
from gedbd.evaluation.report.html import Picture, render, to_png
from gedbd.evaluation.report.section import Section
from gedbd.io.files import replacing, write_text

BEST = ("f1", "average precision", "rr@1", "rr@5", "rr@10", "rr@20", "rr@100", "mrr", "map", "map@10")
LONG = 24  # characters of a cell
# Underscores within a word, brackets and parentheses that make no link are left as they are.
MARKDOWN_SIGNS = re.compile(r"[\\`*~|]|(?<!\w)_|_(?!\w)|(?<=\])[(\[:]")
URL_CHARACTERS = ":/?#@!$&*+,;=%~[]"  # all that stands in an address but what ends one in Markdown


@dataclass(frozen=True)
class Cell:
    """A cell as it is shown; ``best`` if no value in its column is higher and the column is one to win.

    ``url`` is the address of the page that it links to, empty for none.
    """

    text: str
    best: bool = False
    url: str = ""


@dataclass(frozen=True)
class Shown:
    """A table as it is shown."""

    header: list[str]
    numeric: list[bool]
    rows: list[list[Cell]]

    @property
    def kinds(self) -> list[str]:
        """How the page sets each column: as numbers, as long text that needs room, or as it comes."""
        longest = [max((len(row[place].text) for row in self.rows), default=0) for place in range(len(self.header))]
        return [
            "number" if number else "long" if length > LONG else ""
            for number, length in zip(self.numeric, longest, strict=True)
        ]


@dataclass(frozen=True)
class ShownSection:
    """A section as it is shown, without tables that have no rows."""

    title: str
    text: str
    tables: list[Shown]
    pictures: list[Picture]

    @property
    def anchor(self) -> str:
        """Where links to it lead."""
        return slug(self.title)


def write_report(
    folder: Path,
    title: str,
    summary: str,
    sections: list[Section],
    *,
    command: str | None = None,
    date: datetime | None = None,
    next_steps: Sequence[tuple[str, str]] = (),
) -> Path:
    """Writes ``report.html``, ``report.md`` and ``report_figures/`` into a folder; gives the page's path.

    Tables without rows are left out, and with them the sections that have nothing else to show; the page names these.

    Args:
        folder: Where to write; it exists.
        title: Heading of the page.
        summary: A few sentences below it.
        sections: The parts of the page.
        command: The command that made the page, as one would type it.
        date: When it was made, with its time zone.
        next_steps: What the reader can do next: a sentence and a command each; the command may be empty.
    """
    filled = [section for section in sections if _has_content(section)]
    empty = [section.title for section in sections if not _has_content(section)]
    left_out = f"Left out, as there is nothing to show: {', '.join(empty)}." if empty else ""
    shown = [_shown_section(section) for section in filled]
    written = f"{date:%Y-%m-%d %H:%M %Z}".strip() if date else ""
    header = {"command": command, "date": date, "written": written, "next_steps": next_steps, "left_out": left_out}
    page = folder / "report.html"
    write_text(page, render(title=title, summary=summary, sections=shown, **header))
    (folder / "report_figures").mkdir(exist_ok=True)
    for picture in (picture for section in shown for picture in section.pictures):
        with replacing(folder / "report_figures" / f"{picture.name}.png") as unfinished:
            unfinished.write_bytes(picture.png)
    write_text(folder / "report.md", _markdown_page(title, summary, shown, header))
    return page


def _has_content(section: Section) -> bool:
    """Whether a section has something to show: a table with rows, a figure, or text alone by design."""
    return bool(section.figures) or not section.tables or any(len(table) for table in section.tables)


def _shown_section(section: Section) -> ShownSection:
    tables = [show(table) for table in section.tables if len(table)]
    pictures = [Picture(slug(name), caption, to_png(figure)) for name, caption, figure in section.figures]
    return ShownSection(section.title, section.text, tables, pictures)


def _markdown_page(title: str, summary: str, sections: list[ShownSection], header: dict[str, Any]) -> str:
    lines = [f"# {escape_markdown(title)}", "", escape_markdown(summary), ""]
    if header["date"]:
        lines += [f"Made {header['written']}{' by' if header['command'] else ''}", ""]
    if header["command"]:
        lines += _code(header["command"])
    if header["next_steps"]:
        lines += ["**Next**", ""]
    for text, command in header["next_steps"]:
        lines += [text, "", *(_code(command) if command else [])]
    for section in sections:
        lines += [f"## {section.title}", "", section.text, ""]
        lines += [line for table in section.tables for line in (*markdown(table), "")]
        for picture in section.pictures:
            lines += [f"![{picture.caption}](report_figures/{picture.name}.png)", ""]
    return "\n".join([*lines, *([header["left_out"], ""] if header["left_out"] else [])])


def _code(command: str) -> list[str]:
    return ["```", command, "```", ""]


def fill_tables(text: str, sections: list[Section]) -> str:
    """Puts tables into Markdown, each between ``<!-- report: <section> -->`` and ``<!-- end -->``.

    Raises:
        ValueError: If a section is asked for that the report does not have.
    """
    tables = {section.title: section.tables for section in sections}

    def filled(match: re.Match[str]) -> str:
        if match[1] not in tables:
            raise ValueError(f"there is no section {match[1]} in the report: it has {', '.join(tables)}")
        lines = [line for table in tables[match[1]] for line in (*markdown(show(table)), "")]
        return "\n".join([f"<!-- report: {match[1]} -->", *lines, "<!-- end -->"])

    return re.sub(r"<!-- report: (.*?) -->.*?<!-- end -->", filled, text, flags=re.DOTALL)


def show(table: pd.DataFrame) -> Shown:
    """Three decimals, intervals behind their value, the best value of a metric marked, ids linked (``with_urls``)."""
    linking = {f"{URL_OF}{name}" for name in table.columns}
    names = [name for name in table.columns if not str(name).endswith(("_low", "_high")) and name not in linking]
    columns = [[column_name(str(name)), *_cells(table, str(name))] for name in names]
    numeric = [bool(pd.api.types.is_numeric_dtype(table[name])) for name in names]
    header = [str(column[0]) for column in columns]
    rows = [
        [cell for cell in row if isinstance(cell, Cell)]
        for row in zip(*(column[1:] for column in columns), strict=True)
    ]
    return Shown(header, numeric, rows)


def _cells(table: pd.DataFrame, name: str) -> list[Cell]:
    values = table[name]
    to_win = name.replace("_", " ").removeprefix("pool ") in BEST
    highest = values.max() if to_win and len(values) > 1 else np.nan
    cells = []
    for place, value in enumerate(values):
        text = "" if pd.isna(value) else _text(value, "g" if is_option(name) else ".3f")
        if text and f"{name}_low" in table:
            low, high = (_text(table[f"{name}_{end}"].iloc[place], ".3f") for end in ("low", "high"))
            text += f" [{low}, {high}]"
        cells.append(Cell(text, to_win and bool(value == highest), _url(table, name, place)))
    return cells


def _text(value: object, form: str) -> str:
    """A number in a form, and never as minus zero; anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:z{form}}"


def _url(table: pd.DataFrame, name: str, place: int) -> str:
    """The address behind a cell, empty where the table has none."""
    urls = table.get(f"{URL_OF}{name}")
    return "" if urls is None or pd.isna(urls.iloc[place]) else web_url(str(urls.iloc[place]))


def markdown(table: Shown) -> list[str]:
    """A table in Markdown; what is best is bold."""
    rule = ["---:" if number else "---" for number in table.numeric]
    rows = [[_markdown_cell(cell) for cell in row] for row in table.rows]
    header = [escape_markdown(name) for name in table.header]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def _markdown_cell(cell: Cell) -> str:
    """Bold if it is best, a link if it has an address."""
    text = escape_markdown(cell.text)
    if cell.best:
        return f"**{text}**"
    if not cell.url:
        return text
    text = text.replace("[", "\\[").replace("]", "\\]")
    return f"[{text}]({quote(cell.url, safe=URL_CHARACTERS)})"


def escape_markdown(text: str) -> str:
    """A text of one line that Markdown shows as it stands: no HTML, link, image, heading, emphasis or further cell.

    Titles come from trackers, where anybody may write them.
    """
    line = "".join(sign if sign.isprintable() else " " for sign in " ".join(text.split()))
    marked = MARKDOWN_SIGNS.sub(r"\\\g<0>", line)
    return marked.replace("&", "&amp;").replace("<", "&lt;")


def slug(text: str) -> str:
    """Letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
