"""Flow graphs of pieces of code that begin and end anywhere."""

import pytest

from gedbd.localization.flow_graph.node_types import EdgeKind, NodeType
from gedbd.localization.flow_graph.parse import fragment_graph, method_graph


def summary(graph):
    """Names and node types of a graph in source order."""
    return [name or NodeType(kind).name for name, kind in zip(graph.names, graph.types, strict=True)]


@pytest.mark.parametrize(
    ("code", "nodes"),
    [
        ("x = a;", ["x", "a"]),
        ("        }\n        x = a;\n    }\n", ["x", "a"]),
        ("if (a) {\n  x = a;\n", ["IF_CONDITION", "a", "IF_THEN", "x", "a"]),
        ("  } else {\n    x = a;\n  }", ["IF_ELSE", "x", "a", "IF_CONVERGENCE"]),
        ("else\n    x = a;", ["IF_ELSE", "x", "a", "IF_CONVERGENCE"]),
        ("  b();\n} catch (E e) {\n  g(e);", ["CATCH", "e", "e"]),
        ("finally {\n  x = a;\n}", ["FINALLY", "x", "a", "TRY_CONVERGENCE"]),
        ("  x = a;\n} while (b);", ["x", "a", "DO_WHILE_CONDITION", "b", "DO_CONVERGENCE_OUTSIDE"]),
        ("case 1:\n  x = a;\n  break;", ["CASE_EXPRESSION", "x", "a", "BREAK"]),
        ("  x = a;\n});\ny = b;", ["x", "a", "LAMBDA_EXIT", "y", "b"]),
        ("  * half a comment\n  */\n  x = a; // one } more", ["x", "a"]),
        ("x = a;\n/* half a comment {", ["x", "a"]),
        ("  x = a;\n  f(b,", ["x", "a"]),
        ("  b, c);\n  x = a;", ["x", "a"]),
        ("g(\"{\", '}', a)", ["a"]),
        ("import a.b;\n", []),
        ("return a;", ["RETURN_EXIT", "a"]),
    ],
)
def test_statements_are_completed(code, nodes):
    assert summary(fragment_graph(code)) == nodes


def test_members_are_methods_of_their_own():
    code = "private int x = 1;\nint f(int a) {\n  return x + a;\n}\nvoid g() {\n  x = b;\n"
    graph = fragment_graph(code)
    assert summary(graph) == ["x", "a", "x", "a", "x", "b"]
    pairs = zip(*graph.edges.tolist(), graph.kinds.tolist(), strict=True)
    assert set(pairs) == {(1, 3, EdgeKind.DATA), (5, 4, EdgeKind.DATA)}
    assert graph.types.tolist()[:3] == [NodeType.INTEGER] * 3


def test_the_end_of_a_method_may_precede_members():
    graph = fragment_graph("    x = a;\n  }\n\n  void f(int b) {\n    y = b;\n  }\n}\n")
    assert summary(graph) == ["x", "a", "b", "y", "b"]


def test_files_are_read_as_such():
    graph = fragment_graph("package a;\nimport b.C;\nclass A {\n  int f(int a) { return a; }\n}\n")
    assert summary(graph) == ["a", "a"]


@pytest.mark.parametrize("code", ["", " \n\t", "// a", "/** a */", " * a\n * b", "the quick ) brown #", "= +;"])
def test_what_does_not_parse_has_no_graph(code):
    assert fragment_graph(code) is None


def test_places_refer_to_the_given_text():
    code = " ä */\n  größe = 名;\n}"
    graph = fragment_graph("  * " + code)
    assert [("  * " + code)[start:end] for start, end in graph.spans] == ["größe", "名"]


def test_a_whole_method_as_a_member_has_the_graph_of_the_method():
    code = "int f(int a) { if (a > 0) { return a; } throw e; }"
    whole = method_graph(code)
    fragment = fragment_graph(code)
    assert whole.names == fragment.names
    assert whole.spans.tolist() == fragment.spans.tolist()
    assert whole.edges.tolist() == fragment.edges.tolist()
