"""A page of sections with tables and figures, as self-contained HTML and as Markdown with its figures in a folder."""

import base64
import hashlib
import io
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from gedbd.corpora.urls import URL_OF, web_url
from gedbd.evaluation.display_names import column_name, format_p_value, is_option, is_p_value
from gedbd.evaluation.figures import name_subject, write_figure
from gedbd.experiments.report.judging import PAIR, VERDICT, Judging
from gedbd.io.console import LINK_SIGNS, code_block, escape_markdown, printable, stage
from gedbd.io.files import replacing, write_text
from gedbd.io.table_files import latex

DPI = 150  # of the PNG files, for sharp lines on dense screens
SHOWN_DPI = 100  # on the page
SIGNATURE = b"\x89PNG\r\n\x1a\n"  # a PNG file begins with it
HEADER_BYTES = 24  # up to and including width and height
MAX_SLUG = 100  # file names end in a slug
URL_CHARACTERS = ":/?#@!$&*+,;=%~[]"  # may stay in an address; others, such as ")", would end the Markdown link
BEST = ("f1", "average precision", "rr@1", "rr@5", "rr@10", "rr@20", "rr@100", "mrr", "map", "map@10")
MIN_LONG_CELL = 24  # characters


@dataclass(frozen=True)
class Section:
    """A heading with its text, tables and figures."""

    title: str
    text: str
    tables: list[pd.DataFrame] = field(default_factory=list)
    # names, captions (also the alternative text) and figures, drawn or as PNG files
    figures: Sequence[tuple[str, str, Figure | Path]] = field(default_factory=list)
    # whether the rows of the tables, which have the columns ``report``, ``suggested`` and ``verdict``, get buttons for
    # a verdict; see ``Judging``
    asks_verdicts: bool = False
    subject: str = ""  # corpus and model, for figures that do not name theirs; empty for those of the page


@dataclass(frozen=True)
class Cell:
    """A formatted cell; ``best`` if it has the highest value of a metric, ``url`` if it is a link."""

    text: str
    best: bool = False
    url: str = ""


@dataclass(frozen=True)
class FormattedTable:
    """A formatted table; ``pairs`` are the ids of each row that gets buttons for a verdict."""

    header: list[str]
    numeric: list[bool]
    rows: list[list[Cell]]
    pairs: Sequence[tuple[str, str]] = ()

    @property
    def kinds(self) -> list[str]:
        """The CSS class of each column: ``number``, ``long`` for wide columns of text, or empty."""
        kinds = []
        for index, is_number in enumerate(self.numeric):
            longest = max((len(row[index].text) for row in self.rows), default=0)
            kinds.append("number" if is_number else "long" if longest > MIN_LONG_CELL else "")
        if self.pairs:
            kinds[self.header.index(VERDICT)] = VERDICT
        return kinds


def show(table: pd.DataFrame) -> FormattedTable:
    """Formats a table: three decimals, intervals after values, best metrics marked, ids linked (``with_urls``)."""
    linking = {f"{URL_OF}{name}" for name in table.columns}
    names = [name for name in table.columns if not str(name).endswith(("_low", "_high")) and name not in linking]
    header = [column_name(str(name)) for name in names]
    numeric = [bool(pd.api.types.is_numeric_dtype(table[name])) for name in names]
    columns = [_cells(table, str(name)) for name in names]
    rows = [list(row) for row in zip(*columns, strict=True)]
    return FormattedTable(header, numeric, rows)


def _cells(table: pd.DataFrame, name: str) -> list[Cell]:
    values = table[name]
    is_metric = name.replace("_", " ").removeprefix("pool ") in BEST
    highest = values.max() if is_metric and len(values) > 1 else np.nan  # equal to no value
    format_value = format_p_value if is_p_value(name) else partial(_text, form="g" if is_option(name) else ".3f")
    cells = []
    for index, value in enumerate(values):
        text = "" if pd.isna(value) else format_value(value)
        if text and f"{name}_low" in table:
            low, high = (_text(table[f"{name}_{end}"].iloc[index], ".3f") for end in ("low", "high"))
            text += f" [{low}, {high}]"
        urls = table.get(f"{URL_OF}{name}")
        url = "" if urls is None or pd.isna(urls.iloc[index]) else web_url(str(urls.iloc[index]))
        cells.append(Cell(text, is_metric and bool(value == highest), url))
    return cells


def _text(value: object, form: str) -> str:
    """A float in a format, never as minus zero; anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:z{form}}"


@dataclass(frozen=True)
class Picture:
    """A rendered figure: name of its file, caption, PNG data, and SVG and PDF data unless it was a finished file."""

    name: str
    caption: str
    png: bytes
    svg: bytes = b""
    pdf: bytes = b""

    @property
    def data(self) -> str:
        """The file in base64."""
        return base64.b64encode(self.png).decode()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on the page in CSS pixels; without them the page would move while it loads."""
        width, height = struct.unpack(">II", self.png[16:24])  # a PNG's header chunk begins with them
        return round(width * SHOWN_DPI / DPI), round(height * SHOWN_DPI / DPI)


@dataclass(frozen=True)
class ShownSection:
    """A formatted section without empty tables."""

    title: str
    text: str
    tables: list[FormattedTable]
    pictures: list[Picture]

    @property
    def anchor(self) -> str:
        """The id of the section in the page."""
        return slug(self.title)


@stage("write the page")
def write_report(
    folder: Path,
    title: str,
    summary: str,
    sections: list[Section],
    *,
    command: str | None = None,
    date: datetime | None = None,
    next_steps: Sequence[tuple[str, str]] = (),
    judging: Judging | None = None,
    subject: str = "",
) -> Path:
    """Writes ``report.html``, ``report.md`` and ``report_figures/`` into a folder; returns the path of the page.

    Tables without rows are left out, and so are sections that have nothing else; the page names these sections.
    ``command`` made the page, at a ``date`` with a time zone. ``next_steps`` are a sentence and a command each; the
    command may be empty. Figures that do not name their subject name ``subject``, by default the title.
    """
    with_content = [section for section in sections if _has_content(section)]
    empty = [section.title for section in sections if not _has_content(section)]
    left_out = f"Sections without data: {', '.join(empty)}." if empty else ""
    formatted = [_format_section(section, section.subject or subject or title) for section in with_content]
    written = f"{date:%Y-%m-%d %H:%M %Z}".strip() if date else ""
    header = {"command": command, "date": date, "written": written, "next_steps": next_steps, "left_out": left_out}
    page = folder / "report.html"
    write_text(page, render(title=title, summary=summary, sections=formatted, judging=judging, **header))
    (folder / "report_figures").mkdir(exist_ok=True)
    for picture in (picture for section in formatted for picture in section.pictures):
        for suffix, content in ((".png", picture.png), (".svg", picture.svg), (".pdf", picture.pdf)):
            if content:
                with replacing(folder / "report_figures" / f"{picture.name}{suffix}") as unfinished:
                    unfinished.write_bytes(content)
    write_text(folder / "report.md", _markdown_page(title, summary, formatted, header))
    return page


def _has_content(section: Section) -> bool:
    """Whether a section has something to show: a table with rows, a figure, or only text."""
    return bool(section.figures) or not section.tables or any(len(table) for table in section.tables)


def _picture(name: str, caption: str, figure: Figure | Path, subject: str) -> Picture:
    """Renders a figure; a path names a finished PNG file."""
    if isinstance(figure, Path):
        png = figure.read_bytes()
        if len(png) < HEADER_BYTES or not png.startswith(SIGNATURE):
            raise ValueError(f"{figure} is damaged: it is not a PNG file")
        return Picture(name, caption, png, b"", b"")
    name_subject(figure, subject)
    pdf = _figure_bytes(figure, "pdf", name)
    # The ids in the SVG file are derived from ``name``, so that they are reproducible.
    return Picture(name, caption, _figure_bytes(figure, "png", ""), _figure_bytes(figure, "svg", name), pdf)


def _format_section(section: Section, subject: str) -> ShownSection:
    tables = [show(table) for table in section.tables if len(table)]
    if section.asks_verdicts:
        pairs = [list(table[list(PAIR)].itertuples(index=False, name=None)) for table in section.tables if len(table)]
        tables = [replace(table, pairs=ids) for table, ids in zip(tables, pairs, strict=True)]
    pictures = [_picture(slug(name), caption, figure, subject) for name, caption, figure in section.figures]
    return ShownSection(section.title, section.text, tables, pictures)


def _markdown_page(title: str, summary: str, sections: list[ShownSection], header: dict[str, Any]) -> str:
    lines = [f"# {escape_markdown(title)}", "", escape_markdown(summary), ""]
    if header["date"]:
        lines += [f"Written {header['written']}{' by' if header['command'] else ''}", ""]
    if header["command"]:
        lines += [code_block(header["command"]), ""]
    if header["next_steps"]:
        lines += ["**Next**", ""]
    for text, command in header["next_steps"]:
        lines += [escape_markdown(text), "", *([code_block(command), ""] if command else [])]
    for section in sections:
        lines += [f"## {escape_markdown(section.title)}", "", escape_markdown(section.text), ""]
        lines += [line for table in section.tables for line in (*markdown(table), "")]
        for picture in section.pictures:
            lines += [f"![{escape_markdown(picture.caption, LINK_SIGNS)}](report_figures/{picture.name}.png)", ""]
    return "\n".join([*lines, *([escape_markdown(header["left_out"]), ""] if header["left_out"] else [])])


def fill_tables(text: str, sections: list[Section], in_latex: bool = False) -> str:
    """Puts tables into a document, each between two marks.

    Args:
        text: Markdown, with the marks ``<!-- report: <section> -->`` and ``<!-- end -->``; or LaTeX, with the lines
            ``% report: <section>`` and ``% end``.
        sections: The sections of the report.
        in_latex: Whether the text is LaTeX.

    Raises:
        ValueError: If the text names no section, or one that the report does not have.
    """
    tables = {section.title: section.tables for section in sections}

    def filled(match: re.Match[str]) -> str:
        if match[1] not in tables:
            raise ValueError(f"the report has no section {match[1]}; choose from {', '.join(tables)}")
        formatted = [show(table) for table in tables[match[1]]]
        if in_latex:
            cells = [
                pd.DataFrame([[cell.text for cell in row] for row in table.rows], columns=table.header)
                for table in formatted
            ]
            kinds = ["".join("r" if number else "l" for number in table.numeric) for table in formatted]
            return f"% report: {match[1]}\n{chr(10).join(map(latex, cells, kinds))}% end"
        lines = [line for table in formatted for line in (*markdown(table), "")]
        return "\n".join([f"<!-- report: {match[1]} -->", *lines, "<!-- end -->"])

    marked = r"^% report: ([^\n]*)\n.*?^% end$" if in_latex else r"<!-- report: (.*?) -->.*?<!-- end -->"
    text, number = re.subn(marked, filled, text, flags=re.DOTALL | re.MULTILINE)
    if not number:
        example = "% report: Runs" if in_latex else "<!-- report: Runs -->"
        raise ValueError(f"the file to fill has no place for a table: write {example!r} before it, and end after it")
    return text


def markdown(table: FormattedTable) -> list[str]:
    """A table in Markdown, with the best values in bold."""
    rule = ["---:" if number else "---" for number in table.numeric]
    rows = [
        [_markdown_cell(cell, is_number) for cell, is_number in zip(row, table.numeric, strict=True)]
        for row in table.rows
    ]
    header = [escape_markdown(name) for name in table.header]
    return [f"| {' | '.join(cells)} |" for cells in (header, rule, *rows)]


def _markdown_cell(cell: Cell, is_number: bool) -> str:
    """A cell in Markdown: bold if it is best, a link if it has an address."""
    text = cell.text if is_number else escape_markdown(cell.text)
    if cell.best:
        return f"**{text}**"
    if not cell.url:
        return text
    return f"[{escape_markdown(cell.text, LINK_SIGNS)}]({quote(cell.url, safe=URL_CHARACTERS)})"


def slug(text: str) -> str:
    """Up to ``MAX_SLUG`` letters, digits and dashes; of a longer text the beginning and a hash."""
    letters = re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
    if len(letters) <= MAX_SLUG:
        return letters
    digest = hashlib.blake2b(text.encode(errors="replace"), digest_size=4).hexdigest()
    return f"{letters[: MAX_SLUG - 9]}-{digest}"


def _figure_bytes(figure: Figure, kind: str, salt: str) -> bytes:
    stream = io.BytesIO()
    write_figure(figure, stream, kind, salt, DPI)
    return stream.getvalue()


def render(**values: Any) -> str:
    """The page, from ``page.html.j2``; text of reports is escaped, and cannot reorder the text around it."""
    environment = Environment(
        loader=PackageLoader("gedbd.experiments", "report"),
        autoescape=True,
        finalize=_printable_value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["exact"] = _exact
    return environment.get_template("page.html.j2").render(**values)


def _printable_value(value: object) -> object:
    """Makes a string printable for the template; markup does not change."""
    is_markup = hasattr(value, "__html__")
    return printable(value, keep="\n") if isinstance(value, str) and not is_markup else value


def _exact(text: str) -> str:
    """The markup of a text that programs read: characters that ``printable`` would replace become references."""
    return "".join(escape(sign) if sign.isprintable() else f"&#{ord(sign)};" for sign in text)
