"""Figures as files: SVG and PNG beside each other, the same bytes each time, with what the figure is about above it."""

import logging
from pathlib import Path
from typing import IO

from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import LogFormatter, ScalarFormatter

from gedbd.io.console import printable
from gedbd.io.files import replacing

BLUE = "#0072b2"
VERMILION = "#d55e00"
GREEN = "#009e73"
PURPLE = "#cc79a7"
ORANGE = "#e69f00"
SKY_BLUE = "#56b4e9"
GREY = "#8a8a8a"
DARK_GREY = "#4d4d4d"
SERIES = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY_BLUE, DARK_GREY)  # in the order in which they are used
LINES = ("-", "--", ":", "-.")  # of the first seven lines, of the next seven, ...
DUPLICATE = BLUE
OTHER = VERMILION
DPI = 120
SUBJECT_SIZE = 8  # points
logging.getLogger("fontTools.subset").setLevel(logging.WARNING)  # it logs each table of a PDF file's fonts
SUFFIXES = (".svg", ".png")


def save_figure(figure: Figure, stem: Path, dpi: float = DPI) -> list[Path]:
    """Writes a figure as SVG and PNG, replaces files that exist as a whole, and returns their paths.

    Args:
        figure: The figure.
        stem: The path without a suffix.
        dpi: Pixels per inch of the PNG file.
    """
    files = [stem.with_name(f"{stem.name}{suffix}") for suffix in SUFFIXES]
    for file in files:
        with replacing(file) as unfinished:
            write_figure(figure, unfinished, file.suffix.removeprefix("."), stem.name, dpi)
    return files


def write_figure(figure: Figure, file: Path | IO[bytes], kind: str, salt: str, dpi: float = DPI) -> None:
    """Writes a figure as ``png``, ``svg`` or ``pdf``, without a date; texts with ``$`` are no formulas.

    Args:
        figure: The figure.
        file: Where to.
        kind: The format.
        salt: From it the parts of an SVG get their names, the same ones each time.
        dpi: Pixels per inch of a PNG file.
    """
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    _show_texts_as_they_are(figure)
    # Type 42: publishers refuse the fonts of type 3 that matplotlib embeds otherwise.
    with rc_context({"svg.hashsalt": salt, "pdf.fonttype": 42}):
        figure.savefig(file, format=kind, dpi=dpi, metadata=metadata)


def name_subject(figure: Figure, subject: str) -> Figure:
    """Writes above a figure what it is about, such as corpus and model, unless it says so already.

    Args:
        figure: The figure; one with fixed margins has some space at its top, see ``gedbd.evaluation.figures.MARGINS``.
        subject: One line.
    """
    if figure.get_label():
        return figure
    figure.set_label(subject)
    if figure.get_constrained_layout() and not figure.get_suptitle():
        figure.suptitle(subject, fontsize=SUBJECT_SIZE, color=DARK_GREY)
    else:
        figure.text(0.5, 0.99, subject, ha="center", va="top", fontsize=SUBJECT_SIZE, color=DARK_GREY)
    return figure


def _show_texts_as_they_are(figure: Figure) -> None:
    """Switches formulas off, except in the numbers of axes: tags, names and options may hold ``$`` or control signs."""
    numbers: set[Text] = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        names = axis.get_major_formatter().format_ticks(list(axis.get_majorticklocs()))
        if not all(name.isprintable() for name in names):
            axis.set_ticks(axis.get_majorticklocs(), labels=[printable(name) for name in names])
        # Asking for the ticks makes those that are missing.
        for formatter, ticks in (
            (axis.get_major_formatter(), axis.get_major_ticks()),
            (axis.get_minor_formatter(), axis.get_minor_ticks()),
        ):
            if isinstance(formatter, ScalarFormatter | LogFormatter):
                numbers |= {label for tick in ticks for label in (tick.label1, tick.label2)}
    for text in set(figure.findobj(Text)) - numbers:
        assert isinstance(text, Text)
        text.set_parse_math(False)
        text.set_text(printable(text.get_text(), keep="\n"))


def colour(place: int) -> str:
    """The colour of a line or bar by its place; after seven they come again."""
    return SERIES[place % len(SERIES)]


def line_style(place: int) -> str:
    """The kind of a line by its place, by which lines of one colour differ."""
    return LINES[place // len(SERIES) % len(LINES)]
