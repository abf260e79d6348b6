"""Places of a flow graph's nodes in a figure: rows follow the lines of the source, control nodes form one column."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from gedbd.code.semantic_graph import FlowGraph, NodeType, Role
from gedbd.io.console import printable

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
