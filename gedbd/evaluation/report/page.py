"""Writes a report: one HTML page that needs nothing beside it, and Markdown with its figures in a folder."""

import base64
import io
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from gedbd.data.urls import URL_OF, web_url
from gedbd.evaluation.report.section import Section

BEST = ("f1", "average precision", "rr@1", "rr@5", "rr@10", "rr@20", "rr@100", "mrr", "map", "map@10")
DPI = 110
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


def write_report(folder: Path, title: str, summary: str, sections: list[Section]) -> Path:
    """Writes ``report.html``, ``report.md`` and ``report_figures/`` into a folder; gives the page's path."""
    drawn = [[(slug(name), caption, to_png(figure)) for name, caption, figure in part.figures] for part in sections]
    tables = [[show(table) for table in section.tables] for section in sections]
    parts = [
        {
            "anchor": slug(section.title),
            "title": section.title,
            "text": section.text,
            "tables": shown,
            "figures": [{"caption": caption, "data": base64.b64encode(png).decode()} for _, caption, png in pictures],
        }
        for section, shown, pictures in zip(sections, tables, drawn, strict=True)
    ]
    environment = Environment(
        loader=PackageLoader("gedbd.evaluation", "report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    page = folder / "report.html"
    page.write_text(environment.get_template("page.html.j2").render(title=title, summary=summary, sections=parts))
    (folder / "report_figures").mkdir(exist_ok=True)
    lines = [f"# {title}", "", summary, ""]
    for section, shown, pictures in zip(sections, tables, drawn, strict=True):
        lines += [f"## {section.title}", "", section.text, ""]
        lines += [line for table in shown for line in (*markdown(table), "")]
        for name, caption, png in pictures:
            (folder / "report_figures" / f"{name}.png").write_bytes(png)
            lines += [f"![{caption}](report_figures/{name}.png)", ""]
    (folder / "report.md").write_text("\n".join(lines))
    return page


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
    columns = [[str(name).replace("_", " "), *_cells(table, str(name))] for name in names]
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
        text = "" if pd.isna(value) else f"{value:.3f}" if isinstance(value, float) else str(value)
        if text and f"{name}_low" in table:
            text += f" [{table[f'{name}_low'].iloc[place]:.3f}, {table[f'{name}_high'].iloc[place]:.3f}]"
        cells.append(Cell(text, to_win and bool(value == highest), _url(table, name, place)))
    return cells


def _url(table: pd.DataFrame, name: str, place: int) -> str:
    """The address behind a cell, empty where the table has none."""
    urls = table.get(f"{URL_OF}{name}")
    return "" if urls is None or pd.isna(urls.iloc[place]) else web_url(str(urls.iloc[place]))


def markdown(table: Shown) -> list[str]:
    """A table in Markdown; what is best is bold."""
    rule = ["---:" if number else "---" for number in table.numeric]
    rows = [[_markdown_cell(cell) for cell in row] for row in table.rows]
    return [f"| {' | '.join(cells)} |" for cells in (table.header, rule, *rows)]


def _markdown_cell(cell: Cell) -> str:
    """Bold if it is best, a link if it has an address."""
    if cell.best:
        return f"**{cell.text}**"
    text = cell.text.replace("|", "\\|")
    if not cell.url:
        return text
    text = text.replace("[", "\\[").replace("]", "\\]")
    return f"[{text}]({quote(cell.url, safe=URL_CHARACTERS)})"


def to_png(figure: Figure) -> bytes:
    """The figure as a picture."""
    stream = io.BytesIO()
    figure.savefig(stream, format="png", dpi=DPI)
    return stream.getvalue()


def slug(text: str) -> str:
    """Letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")
