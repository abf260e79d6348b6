"""The text of a flow graph for Mermaid and Graphviz."""

from gedbd.localization.flow_graph.node_types import MAX_MERMAID_EDGES, dot_text, mermaid_text, node_table, write_graph
from gedbd.localization.flow_graph.parse import method_graph

SOURCE = """int f(int a) {
    while (a > 0) { a = g(a); }
    return a;
}"""
MERMAID = """---
title: "f \\"in\\" F"
---
flowchart TD
    n1("7: a<br>INTEGER PARAMETER")
    n2["8: WHILE_CONTINUE"]
    n3("8: a<br>INTEGER COMPARE_OPERATOR_LEFT")
    n4("8: a<br>INTEGER ASSIGNED")
    n5("8: a<br>INTEGER INVOCATION_ARGUMENT")
    n6["8: WHILE_CONVERGENCE"]
    n7("9: a<br>INTEGER RETURN")
    n1 --> n3
    n1 --> n5
    n1 --> n7
    n2 -.-> n5
    n2 ==> n6
    n3 -.-> n2
    n4 --> n3
    n4 --> n5
    n4 --> n7
    n5 --> n4
    n6 -.-> n7
"""


def test_mermaid_and_dot_have_the_same_nodes_and_edges():
    graph = method_graph(SOURCE)
    nodes = node_table(graph, SOURCE, first_line=7)
    assert mermaid_text(graph, nodes, 'f "in" F') == MERMAID
    lines = dot_text(graph, nodes, 'f "in" F').splitlines()
    assert lines[:4] == [
        "digraph {",
        '    label="f \\"in\\" F"',
        '    n1 [label="7: a\\nINTEGER PARAMETER" shape=ellipse]',
        '    n2 [label="8: WHILE_CONTINUE" shape=box]',
    ]
    assert "    n3 -> n2 [style=dashed]" in lines
    assert len(lines) == 3 + len(graph) + graph.edges.shape[1]
    assert lines[-1] == "}"


def test_graphs_that_mermaid_does_not_draw_are_reported(tmp_path):
    source = "void f(int a) { " + "g(a); " * (MAX_MERMAID_EDGES + 1) + "}"
    graph = method_graph(source)
    files, warnings = write_graph(graph, node_table(graph, source), "f", tmp_path / "new" / "f")
    assert [file.name for file in files] == ["f.mmd", "f.dot"]
    (warning,) = warnings
    assert "DOT" in warning
