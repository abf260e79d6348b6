"""Figures of a flow graph as files, and its nodes and edges as tables for the terminal."""

import warnings
from pathlib import Path

import pandas as pd

from gedbd.code.semantic_graph import EdgeKind, FlowGraph, NodeType, Role

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
    from gedbd.evaluation.figure_files import save_figure
    from gedbd.evaluation.flow_graph_figure import draw_flow_graph

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
