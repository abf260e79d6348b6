"""A figure of a method's flow graph: rows follow the lines of the source, control nodes form one column.

Its nodes and edges are also printed as tables.
"""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from gedbd.evaluation.figure_files import BLUE, DARK_GREY, GREY, save_figure
from gedbd.io.console import printable
from gedbd.localization.flow_graph.semantic_graph import EdgeKind, FlowGraph, NodeType, Role

MAX_CHARACTERS = 80  # of a printed line of code; longer ones are broken
MAX_NAME = 28  # characters; longer names are cut
MAX_VARIABLES_WIDTH = 5.2  # inches of variables in one row
INDENT = 4  # characters, of the rest of a broken line
NAME_WIDTH = 0.072  # inches of a character, of the font sizes in the figure
ROLE_WIDTH = 0.05
CODE_WIDTH = 0.0605
ROW_HEIGHT = 0.53
HALF_HEIGHT = 0.145  # of a box
TEXT_HEIGHT = 0.19  # of a line of code without nodes
CONTROL_GUTTER = 1.25  # inches left of the control nodes, for their edges
VARIABLE_GUTTER = 0.62  # right of them, for the edges to variables
GAP = 0.2  # between two variables
MARGIN = 0.25
HEADER = 0.95  # title and legend

LINES = re.compile(r"[^\n]*\n|[^\n]+")
BREAKS = (re.compile(r"[;{}](?= )"), re.compile(r"(?<=\S)(?= )"), re.compile(r"[(,.]"))  # the best first


@dataclass(frozen=True)
class Piece:
    """A line of code, or a part of a long one; ``number`` is empty for the later parts."""

    number: str
    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Box:
    """A node: its centre, width and text, in inches from the upper left corner, downwards, and its row."""

    x: float
    y: float
    width: float
    label: str
    note: str
    row: int


@dataclass
class Layout:
    """Boxes in the order of the nodes, printed lines ``(y, number, text)``, and the size of the figure."""

    boxes: list[Box] = field(default_factory=list)
    lines: list[tuple[float, str, str]] = field(default_factory=list)
    control_x: float = 0.0
    width: float = 0.0
    height: float = 0.0


def place_nodes(graph: FlowGraph, source: str, first_line: int = 1) -> Layout:
    """Places the nodes of a graph.

    Args:
        graph: The graph.
        source: The text that its spans refer to.
        first_line: Line number of the first line.
    """
    pieces = list(_pieces(source, first_line))
    labels = [_label(graph, node) for node in range(len(graph))]
    controls = [_width(*labels[node]) for node in range(len(graph)) if not graph.names[node]]
    control_width = max(controls, default=0.0)
    code_width = CODE_WIDTH * (5 + max((len(piece.text) for piece in pieces), default=0))
    layout = Layout(control_x=MARGIN + code_width + CONTROL_GUTTER + control_width / 2)
    left = layout.control_x + control_width / 2 + VARIABLE_GUTTER
    y = HEADER
    node = 0
    for piece in pieces:
        inside = []
        while node < len(graph) and (graph.spans[node, 0] < piece.end or piece is pieces[-1]):
            inside.append(node)
            node += 1
        rows = _rows(inside, graph, labels)
        starts = [piece.start, *(int(graph.spans[nodes[0], 0]) for nodes in rows[1:]), piece.end]
        for row, text in enumerate(_texts(piece, starts)):
            height = ROW_HEIGHT if rows else TEXT_HEIGHT
            layout.lines.append((y + height / 2, "" if row else piece.number, text))
            if rows:
                _place_row(layout, left, y + height / 2, [labels[member] for member in rows[row]])
            y += height
    layout.width = max((box.x + box.width / 2 for box in layout.boxes), default=left) + 1.0
    layout.height = y + MARGIN
    return layout


def _place_row(layout: Layout, left: float, y: float, nodes: list[tuple[str, str]]) -> None:
    """Adds the boxes of one row: variables one beside the other, a control node in its column."""
    row = layout.boxes[-1].row + 1 if layout.boxes else 0
    for label, note in nodes:
        width = _width(label, note)
        layout.boxes.append(Box(left + width / 2 if note else layout.control_x, y, width, label, note, row))
        left += width + GAP if note else 0.0


def _texts(piece: Piece, starts: list[int]) -> list[str]:
    """The parts of a line that its rows begin with, each at its column.

    ``if (a) b();`` with starts 0, 7 and 11 becomes ``if (a) `` and ``       b();``.
    """
    origin = piece.start - (len(piece.text) - (piece.end - piece.start))  # where the column 0 would be
    texts = []
    for start, end in pairwise(starts):
        column = max(start - origin, 0)
        texts.append(" " * column + piece.text[column : max(end - origin, 0)])
    return texts


def _label(graph: FlowGraph, node: int) -> tuple[str, str]:
    """The text of a node: the name and the role of a variable, or the type of a control node."""
    name = graph.names[node]
    if not name:
        return NodeType(int(graph.types[node])).name, ""
    shown = name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 1]}…"
    return printable(shown), Role(int(graph.roles[node])).name


def _width(label: str, note: str) -> float:
    """The width of a box, in inches."""
    size = NAME_WIDTH if note else ROLE_WIDTH * 1.17  # control nodes have a font between the two
    return max(0.34, size * len(label) + 0.14, ROLE_WIDTH * len(note) + 0.14)


def _rows(nodes: list[int], graph: FlowGraph, labels: list[tuple[str, str]]) -> list[list[int]]:
    """Distributes the nodes of a line to rows: at most one control node, and variables as far as they fit."""
    rows: list[list[int]] = []
    has_control = False
    width = 0.0
    for node in nodes:
        is_control = not graph.names[node]
        added = 0.0 if is_control else _width(*labels[node]) + GAP
        if not rows or (is_control and has_control) or (width and width + added > MAX_VARIABLES_WIDTH):
            rows.append([])
            has_control = False
            width = 0.0
        rows[-1].append(node)
        has_control = has_control or is_control
        width += added
    return rows


def _pieces(source: str, first_line: int) -> Iterator[Piece]:
    r"""The lines of a source without blank ones, long ones in parts; the indentation common to all but the first goes.

    ``"a();\n\n    b();\n      c();"`` becomes ``a();``, ``b();`` and ``  c();``, of lines 1, 3 and 4.
    """
    # Not splitlines, to which a form feed ends a line: it does not for the nodes, nor for editors.
    lines = LINES.findall(source)
    indents = [_indent(line) for line in lines[1:] if line.strip()]
    common = min(indents, default=0)
    offset = 0
    for number, line in enumerate(lines, start=first_line):
        if line.strip():
            kept = _indent(line) - common if number > first_line else 0
            yield from _parts(line, offset, max(kept, 0), number)
        offset += len(line)


def _parts(line: str, offset: int, indent: int, number: int) -> Iterator[Piece]:
    """The parts of a line that are short enough, broken at blanks where there are some."""
    shown = str(number)
    end = len(line.rstrip())
    start = len(line) - len(line.lstrip())
    while start < end:
        indent = min(indent, MAX_CHARACTERS // 2)
        limit = start + MAX_CHARACTERS - indent
        cut = end
        if limit < end:
            cut = _break_place(line, start, limit)
        text = printable(line[start:cut])
        yield Piece(shown, offset + start, offset + cut, " " * indent + text)
        indent += INDENT if shown else 0
        shown = ""
        start = cut + (len(line[cut:end]) - len(line[cut:end].lstrip()))


def _break_place(line: str, start: int, limit: int) -> int:
    """Where to break a line so that its first part ends before ``limit``."""
    for pattern in BREAKS:
        ends = [match.end() for match in pattern.finditer(line, start, limit)]
        if ends and ends[-1] > start:
            return ends[-1]
    return limit


def _indent(line: str) -> int:
    """Columns before the first character of a line; a tab counts 4."""
    expanded = line.expandtabs(4)
    return len(expanded) - len(expanded.lstrip())


FONT = "monospace"
CONTROL_FILL = "#ffffff"
FAMILIES = {  # tints of the palette of Okabe and Ito, which colour-blind readers can tell apart
    "number": ("#bfe0f5", "INTEGER FLOAT LONG DOUBLE BYTE SHORT OTHER_PRIMITIVE"),
    "boolean": ("#f4cfe2", "BOOLEAN"),
    "text": ("#fbf3a6", "STRING CHARACTER"),
    "collection": ("#b5e3d3", "ITERABLE COLLECTION LIST SET MAP"),
    "other class of the JDK": ("#fbdba3", "DATE OTHER_JDK VOID"),
    "own class": ("#f2bd94", "USER_DEFINED"),
    "unknown": ("#e6e6e6", "NULL"),
}
DATA_COLOURS = (BLUE, "#00805e", "#8a3ffc", "#1a1a80")  # of the variables in turn, to tell their edges apart
FILLS = {name: colour for colour, names in FAMILIES.values() for name in names.split()}

Point = tuple[float, float]
LineStyle = Literal["-"] | tuple[float, tuple[float, float]]


@dataclass(frozen=True)
class Style:
    """How edges of a kind are drawn."""

    label: str
    colour: str
    line: LineStyle
    width: float


STYLES = {
    EdgeKind.DATA: Style("data edge, by variable", BLUE, "-", 1.0),
    EdgeKind.CONTROL: Style("control edge", "#a63a00", "-", 1.8),
    EdgeKind.SEQUENTIAL: Style("sequential edge", DARK_GREY, (0, (3, 2)), 0.9),
}


def draw_flow_graph(graph: FlowGraph, source: str, title: str, first_line: int = 1) -> Figure:
    """Draws a flow graph: the source at the left, control nodes in one column, variables in the order of their lines.

    Colours of variables follow their types, and those of data edges the name of their variable; the small text is the
    role. The figure grows with the graph.

    Args:
        graph: The graph.
        source: The text that its spans refer to.
        title: Of the figure.
        first_line: Line number of the first line of the source.
    """
    layout = place_nodes(graph, source, first_line)
    width = max(layout.width, 9.0)
    figure = Figure(figsize=(width, layout.height))
    axis = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(layout.height, 0))
    axis.set_axis_off()
    axis.text(MARGIN, 0.3, title, fontsize=12, va="center", parse_math=False)
    _draw_legend(axis, graph, layout.height)
    _draw_code(axis, layout)
    _draw_edges(axis, graph, layout)
    for box, node_type in zip(layout.boxes, graph.types.tolist(), strict=True):
        _draw_box(axis, box, NodeType(node_type))
    return figure


def _draw_legend(axis: Axes, graph: FlowGraph, height: float) -> None:
    """The kinds of edges, and the families of types that occur."""
    present = {NodeType(node_type).name for node_type in graph.types.tolist()}
    handles: list[Line2D | Patch] = [
        Line2D([], [], color=style.colour, linestyle=style.line, linewidth=style.width, label=style.label)
        for style in STYLES.values()
    ]
    handles.append(Patch(facecolor=CONTROL_FILL, edgecolor="black", label="control node"))
    for family, (colour, names) in FAMILIES.items():
        if present & set(names.split()):
            handles.append(Patch(facecolor=colour, edgecolor=GREY, label=family))
    anchor = (MARGIN, 0.42)
    axis.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=anchor,
        bbox_transform=axis.transData,
        ncols=11,
        frameon=False,
        fontsize=8,
        borderaxespad=0,
    )


def _draw_code(axis: Axes, layout: Layout) -> None:
    """The lines of the source with their numbers, and a thin line above each."""
    for y, number, text in layout.lines:
        axis.text(MARGIN + 0.26, y, number, fontsize=7, family=FONT, color=GREY, ha="right", va="center")
        axis.text(MARGIN + 0.34, y, text, fontsize=7.2, family=FONT, va="center", parse_math=False)


def _draw_box(axis: Axes, box: Box, node_type: NodeType) -> None:
    """A node: a rounded box for a variable, a rectangle for a control node."""
    corner = (box.x - box.width / 2, box.y - HALF_HEIGHT)
    style = "round,pad=0,rounding_size=0.08" if box.note else "square,pad=0"
    colours: dict[str, Any] = {
        "facecolor": FILLS.get(node_type.name, CONTROL_FILL),
        "edgecolor": "#707070" if box.note else "black",
    }
    # add_artist, as add_patch would look for limits of the axis, which are known.
    axis.add_artist(
        FancyBboxPatch(corner, box.width, 2 * HALF_HEIGHT, boxstyle=style, linewidth=0.8, zorder=4, **colours)
    )
    shift = 0.045 if box.note else 0.0
    size = 8 if box.note else 6.5
    options: dict[str, Any] = {"family": FONT, "ha": "center", "va": "center", "zorder": 5, "parse_math": False}
    axis.text(box.x, box.y - shift, box.label, fontsize=size, **options)
    axis.text(box.x, box.y + 0.085, box.note, fontsize=5.2, color="#333333", **options)


def _draw_edges(axis: Axes, graph: FlowGraph, layout: Layout) -> None:
    """The edges, as arrows behind the boxes."""
    colours = {name: DATA_COLOURS[place % len(DATA_COLOURS)] for place, name in enumerate(dict.fromkeys(graph.names))}
    for (first, second), number in zip(graph.edges.T.tolist(), graph.kinds.tolist(), strict=True):
        kind = EdgeKind(number)
        style = STYLES[kind]
        start, end, bend = edge_ends(layout.boxes[first], layout.boxes[second])
        arrow = FancyArrowPatch(
            start,
            end,
            arrowstyle="-|>",
            connectionstyle=f"arc3,rad={bend}",
            mutation_scale=6,
            shrinkA=0,
            shrinkB=0,
            color=colours[graph.names[first]] if kind == EdgeKind.DATA else style.colour,
            linestyle=style.line,
            linewidth=style.width,
            zorder=2,
        )
        axis.add_artist(arrow)


def edge_ends(start: Box, end: Box) -> tuple[Point, Point, float]:
    """Where an edge leaves a box, where it reaches another, and its bend: the share ``rad`` of matplotlib's ``arc3``.

    In a row, edges pass above the boxes; between control nodes that are not neighbours, at their left; all others lead
    from the lower side of a box to the upper side of one below, or the other way round.
    """
    rows = end.row - start.row
    if not start.note and not end.note and rows != 1:
        first = (start.x - start.width / 2, start.y + 0.07)
        last = (end.x - end.width / 2, end.y - 0.07)
        distance = min(0.14 + 0.085 * abs(rows), CONTROL_GUTTER + 0.1)
        return first, last, 2 * distance / (last[1] - first[1])
    if rows == 0:
        shift = 0.06 if start.x < end.x else -0.06
        first = (start.x + shift, start.y - HALF_HEIGHT)
        last = (end.x - shift, end.y - HALF_HEIGHT)
        height = 0.11 + min(0.03 * abs(start.x - end.x), 0.11)
        return first, last, -2 * height / (last[0] - first[0])
    side = HALF_HEIGHT if rows > 0 else -HALF_HEIGHT
    return (start.x, start.y + side), (end.x, end.y - side), 0.1 if start.note or end.note else 0.0


RESOLUTION = 150  # pixels per inch
MAX_PIXELS = 30_000  # of a side of an image; matplotlib draws no more than 65,535
LARGE = 150  # nodes
LEFT_OUT = "the method is so large that edges are left out"
MISSING_GLYPH = "Glyph .* missing from font"


def check_size(graph: FlowGraph, max_nodes: int) -> None:
    """Checks that a graph can be drawn in about a minute.

    Raises:
        ValueError: If it has too many nodes.
    """
    if len(graph) > max_nodes:
        raise ValueError(
            f"the graph has {len(graph):,} nodes, more than max_nodes={max_nodes}: a figure of as many takes minutes;"
            f" for it, set max_nodes={len(graph)}"
        )


def write_figures(
    graph: FlowGraph, source: str, title: str, stem: Path, first_line: int = 1
) -> tuple[list[Path], tuple[str, ...]]:
    """Writes the figure of a graph as SVG and PNG, and creates the folder; gives the files and warnings.

    Args:
        graph: The graph.
        source: The text that its spans refer to.
        title: Of the figure.
        stem: The files without their suffixes.
        first_line: Line number of the first line of the source.
    """
    stem.parent.mkdir(parents=True, exist_ok=True)
    figure = draw_flow_graph(graph, source, title, first_line)
    width, height = figure.get_size_inches()
    found = []
    if len(graph) > LARGE:
        found.append(f"the figure is large: {len(graph):,} nodes on {width:.0f} by {height:.0f} inches")
    resolution = min(RESOLUTION, MAX_PIXELS / max(width, height))
    with warnings.catch_warnings(record=True) as raised:
        warnings.filterwarnings("always", MISSING_GLYPH)
        files = save_figure(figure, stem, resolution)
    if any("missing from font" in str(warning.message) for warning in raised):
        found.append(f"{files[1]}: the font has no sign for some letters, which are boxes")
    return files, tuple(found)


def node_table(graph: FlowGraph, source: str, first_line: int = 1) -> pd.DataFrame:
    """A row for each node: its number, line, name, type and role."""
    rows = []
    for node, name in enumerate(graph.names):
        line = first_line + source.count("\n", 0, int(graph.spans[node, 0]))
        role = Role(int(graph.roles[node])).name if name else ""
        rows.append((node + 1, line, name, NodeType(int(graph.types[node])).name, role))
    return pd.DataFrame(rows, columns=["node", "line", "name", "type", "role"])


def edge_table(graph: FlowGraph) -> pd.DataFrame:
    """A row for each kind of edges: their number, and the numbers of the nodes that they connect."""
    rows = []
    for kind in EdgeKind:
        pairs = graph.edges[:, graph.kinds == kind].T.tolist()
        rows.append((kind.name, len(pairs), " ".join(f"{start + 1}>{end + 1}" for start, end in pairs)))
    return pd.DataFrame(rows, columns=["kind", "edges", "from>to"])
