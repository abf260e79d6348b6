"""Renders a report as one self-contained HTML page."""

import base64
import io
import struct
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from gedbd.evaluation.figure_files import write_figure
from gedbd.io.plain_text import printable

DPI = 150  # of the PNG files, for sharp lines on dense screens
SHOWN_DPI = 100  # on the page
SIGNATURE = b"\x89PNG\r\n\x1a\n"  # a PNG file begins with it
HEADER_BYTES = 24  # up to and with width and height


@dataclass(frozen=True)
class Picture:
    """A rendered figure: name of its file, caption, PNG data, and SVG data unless it was a finished file."""

    name: str
    caption: str
    png: bytes
    svg: bytes = b""

    @property
    def data(self) -> str:
        """The file in base64."""
        return base64.b64encode(self.png).decode()

    @property
    def size(self) -> tuple[int, int]:
        """Width and height on the page in CSS pixels; without them the page would move while it loads."""
        width, height = struct.unpack(">II", self.png[16:24])  # a PNG's header chunk begins with them
        return round(width * SHOWN_DPI / DPI), round(height * SHOWN_DPI / DPI)


def to_png(figure: Figure | Path) -> bytes:
    """The figure as a PNG file; a path is that of a finished one.

    Raises:
        ValueError: If the path is not that of a PNG file.
    """
    if isinstance(figure, Path):
        png = figure.read_bytes()
        if len(png) < HEADER_BYTES or not png.startswith(SIGNATURE):
            raise ValueError(f"{figure} is damaged: it is not a PNG file")
        return png
    return _written(figure, "png", "")


def to_svg(figure: Figure | Path, name: str) -> bytes:
    """The figure as an SVG file; nothing of a path. From ``name`` its parts get their names, the same each time."""
    return b"" if isinstance(figure, Path) else _written(figure, "svg", name)


def _written(figure: Figure, kind: str, salt: str) -> bytes:
    stream = io.BytesIO()
    write_figure(figure, stream, kind, salt, DPI)
    return stream.getvalue()


def render(**values: Any) -> str:
    """The page, from ``page.html.j2``; text of reports is escaped, and reorders no text around it."""
    environment = Environment(
        loader=PackageLoader("gedbd.evaluation", "report"),
        autoescape=True,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["exact"] = _exact
    return environment.get_template("page.html.j2").render(**values)


def _shown(value: object) -> object:
    """What the template shows of a value; markup stays as it is."""
    is_markup = hasattr(value, "__html__")
    return printable(value, keep="\n") if isinstance(value, str) and not is_markup else value


def _exact(text: str) -> str:
    """The markup of a text that programs read: characters that ``printable`` would replace become references."""
    return "".join(escape(sign) if sign.isprintable() else f"&#{ord(sign)};" for sign in text)
