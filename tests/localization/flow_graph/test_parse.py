"""Flow graphs of methods that are long, deep, broken or not in ASCII, and of pieces of code."""

import pytest

from gedbd.localization.flow_graph.node_types import EdgeKind, NodeType, Role
from gedbd.localization.flow_graph.parse import fragment_graph, method_graph


def types(graph):
    """Names of the control nodes of a graph in source order."""
    return [NodeType(kind).name for kind in graph.types if kind > NodeType.NULL]


def edges(graph, kind):
    """Edges of one kind between names of variables or node types."""
    labels = [name or NodeType(kind).name for name, kind in zip(graph.names, graph.types, strict=True)]
    pairs = zip(*graph.edges.tolist(), graph.kinds, strict=True)
    return {(labels[source], labels[to]) for source, to, found in pairs if found == kind}


def role(graph, name):
    """The role of the last variable of a name."""
    return Role(graph.roles[len(graph) - 1 - graph.names[::-1].index(name)])


def test_a_method_without_a_body_has_parameters_only():
    graph = method_graph("List<String> f(final int[] a, Map<String, X>... b);")
    assert graph.names == ("a", "b")
    assert graph.types.tolist() == [NodeType.INTEGER, NodeType.MAP]
    assert graph.edges.shape == (2, 0)


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("Long[][]", NodeType.LONG),
        ("java.util.Map<String, List<X>>", NodeType.MAP),
        ("@Nullable java.util.@A List<String>", NodeType.LIST),
        ("java.util.Map.Entry<A, B>", NodeType.OTHER_JDK),
        ("T", NodeType.USER_DEFINED),
        ("foo.Bar<int[]>", NodeType.USER_DEFINED),
        ("EnumSet<A>", NodeType.SET),
        ("var", NodeType.NULL),
    ],
)
def test_declared_types(declared, expected):
    assert method_graph(f"<T> void f({declared} a) {{ }}").types.tolist() == [expected]


@pytest.mark.parametrize("code", ["", " \n", "// void f() {}", "int a;", "import a.b;"])
def test_a_text_without_a_method_is_refused(code):
    with pytest.raises(ValueError, match=r"no Java method in the text .*: give one method or constructor"):
        method_graph(code)


@pytest.mark.parametrize(
    "code",
    [
        "void f(int a) { if (a > 0) { x = a;",
        "void f(int a) { x = a + ; }",
        "void f(int a) { ## x = a; } }",
        "void f(int a) { switch (a) { case 1: x = a; ",
    ],
)
def test_broken_code_gives_a_graph_of_what_parses(code):
    graph = method_graph(code)
    assert graph.names[0] == "a"
    assert "x" in graph.names
    assert (graph.spans <= len(code)).all()


def test_names_in_code_that_does_not_parse_have_the_unknown_role():
    graph = method_graph("void f(int a) { q r(b, ; y = a; }")
    assert role(graph, "b") == Role.UNKNOWN
    assert ("a", "y") in edges(graph, EdgeKind.DATA)


@pytest.mark.parametrize(
    ("begin", "end"), [("(", ")"), ("g(", ")"), ("x = ", ""), ("b ? c : ", ""), ("() -> ", ""), ("!", "")]
)
def test_deep_nesting_is_flattened(begin, end):
    graph = method_graph("void f(int a) { Object o = " + begin * 2000 + "a" + end * 2000 + "; }")
    assert [name for name in graph.names if name][-1] == "a"


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ("new A() { void f() { ", "} };"),
        ("class A { ", "}"),
        ("try { x = () -> { ", "}; } finally { }"),
        ("while (a) {", "}"),
    ],
)
def test_deep_statements_are_flattened(begin, end):
    graph = method_graph("void f() { " + begin * 300 + "int y = b;" + end * 300 + "}")
    assert role(graph, "b") == Role.UNKNOWN


@pytest.mark.parametrize("operator", [" + a", ".g(a)", ".b", "[a]"])
def test_chains_have_no_limit(operator):
    graph = method_graph(f"void f(int a) {{ x = a{operator * 5000}; }}")
    assert len(graph) == 5003
    assert Role.UNKNOWN not in graph.roles


def test_else_if_has_no_limit():
    branches = " else ".join(f"if (a == {number}) x = a;" for number in range(600))
    graph = method_graph(f"void f(int a) {{ {branches} }}")
    assert types(graph).count("IF_CONVERGENCE") == 600
    assert Role.UNKNOWN not in graph.roles


def test_a_local_class_hides_fields_of_its_names_only_in_it():
    code = """void f() { x = 1; class A { int[] x; int g() { return this.x.length + this.x; } } g(this.x); }"""
    graph = method_graph(code)
    found = [(name, NodeType(kind).name) for name, kind in zip(graph.names, graph.types, strict=True) if name]
    inner = [("x", "INTEGER"), ("x", "INTEGER"), ("length", "INTEGER"), ("x", "INTEGER")]
    assert found == [("x", "NULL"), *inner, ("x", "NULL")]
    pairs = zip(*graph.edges.tolist(), graph.kinds, strict=True)
    data = {(source, to) for source, to, kind in pairs if kind == EdgeKind.DATA}
    variables = [node for node, name in enumerate(graph.names) if name]
    assert data == {(variables[0], variables[-1]), (variables[2], variables[3])}


@pytest.mark.parametrize(
    ("begin", "repeated", "end"),
    [
        ("", "if (a > i) a = i; ", ""),
        ("try { ", "if (i) throw a; ", "}" + " catch (E e) { }" * 20),
        ("switch (i" + " + i" * 15 + ") { ", "case T t: g(t); ", "}"),
    ],
)
def test_edges_of_very_large_methods_grow_with_their_length(begin, repeated, end, monkeypatch):
    for module in ("statements", "event_graph"):
        monkeypatch.setattr(f"gedbd.localization.flow_graph.{module}.MAX_EDGES", 1000)
    small, large = (method_graph(f"void f(int a, int i) {{ {begin}{repeated * number}{end} }}") for number in (5, 100))
    assert not small.is_approximate
    assert large.is_approximate
    assert large.edges.shape[1] < 3 * len(large) + 1000


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


def test_members_and_files_are_read_and_places_refer_to_the_given_text():
    graph = fragment_graph("    x = a;\n  }\n\n  void f(int b) {\n    y = b;\n  }\n}\n")
    assert summary(graph) == ["x", "a", "b", "y", "b"]
    graph = fragment_graph("package a;\nimport b.C;\nclass A {\n  int f(int a) { return a; }\n}\n")
    assert summary(graph) == ["a", "a"]
    code = " ä */\n  größe = 名;\n}"
    graph = fragment_graph("  * " + code)
    assert [("  * " + code)[start:end] for start, end in graph.spans] == ["größe", "名"]


@pytest.mark.parametrize("code", ["", " \n\t", "// a", "/** a */", " * a\n * b", "the quick ) brown #", "= +;"])
def test_what_does_not_parse_has_no_graph(code):
    assert fragment_graph(code) is None
