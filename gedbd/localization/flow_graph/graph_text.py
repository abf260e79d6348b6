"""A method's flow graph as text: Mermaid for GitHub and mkdocs, DOT for Graphviz, and tables of its nodes and edges."""

import json
from pathlib import Path

import pandas as pd

from gedbd.io.files import write_text
from gedbd.localization.flow_graph.node_types import EdgeKind, FlowGraph, NodeType, Role

MAX_MERMAID_EDGES = 500  # Mermaid's default; GitHub does not raise it
ARROWS = {EdgeKind.DATA: "-->", EdgeKind.CONTROL: "==>", EdgeKind.SEQUENTIAL: "-.->"}
STYLES = {EdgeKind.DATA: "solid", EdgeKind.CONTROL: "bold", EdgeKind.SEQUENTIAL: "dashed"}


def write_graph(graph: FlowGraph, nodes: pd.DataFrame, title: str, stem: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Writes a graph as Mermaid (``.mmd``) and DOT (``.dot``), and creates the folder; returns files and warnings."""
    warnings = []
    if graph.is_approximate:
        warnings.append("the method is so large that edges are left out")
    num_edges = graph.edges.shape[1]
    if num_edges > MAX_MERMAID_EDGES:
        warnings.append(f"the graph has {num_edges:,} edges, and Mermaid draws {MAX_MERMAID_EDGES}: use the DOT file")
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for suffix, text in ((".mmd", mermaid_text(graph, nodes, title)), (".dot", dot_text(graph, nodes, title))):
        files.append(stem.with_name(f"{stem.name}{suffix}"))
        write_text(files[-1], text)
    return files, tuple(warnings)


def mermaid_text(graph: FlowGraph, nodes: pd.DataFrame, title: str) -> str:
    """A Mermaid flowchart: variables are rounded, control nodes are rectangles, and edges differ by kind."""
    lines = ["---", f"title: {json.dumps(title, ensure_ascii=False)}", "---", "flowchart TD"]
    for number, line, name, kind, role in nodes.itertuples(index=False):
        lines.append(
            f'    n{number}("{line}: {name}<br>{kind} {role}")' if name else f'    n{number}["{line}: {kind}"]'
        )
    for (start, end), kind in zip(graph.edges.T.tolist(), graph.kinds.tolist(), strict=True):
        lines.append(f"    n{start + 1} {ARROWS[EdgeKind(kind)]} n{end + 1}")
    return "\n".join(lines) + "\n"


def dot_text(graph: FlowGraph, nodes: pd.DataFrame, title: str) -> str:
    """A Graphviz graph that is drawn like ``mermaid_text``."""
    lines = ["digraph {", f"    label={json.dumps(title, ensure_ascii=False)}"]
    for number, line, name, kind, role in nodes.itertuples(index=False):
        label = f"{line}: {name}\\n{kind} {role}" if name else f"{line}: {kind}"
        lines.append(f'    n{number} [label="{label}" shape={"ellipse" if name else "box"}]')
    for (start, end), kind in zip(graph.edges.T.tolist(), graph.kinds.tolist(), strict=True):
        lines.append(f"    n{start + 1} -> n{end + 1} [style={STYLES[EdgeKind(kind)]}]")
    return "\n".join([*lines, "}"]) + "\n"


def node_table(graph: FlowGraph, source: str, first_line: int = 1) -> pd.DataFrame:
    """A row for each node: its number, line (from ``first_line``), name, type and role."""
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
