"""A figure of a method's flow graph beside its source."""

from dataclasses import dataclass
from typing import Any, Literal

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Patch

from gedbd.code.semantic_graph import EdgeKind, FlowGraph, NodeType
from gedbd.evaluation.figure_files import BLUE, DARK_GREY, GREY
from gedbd.evaluation.flow_graph_layout import CONTROL_GUTTER, HALF_HEIGHT, MARGIN, Box, Layout, place_nodes

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
