"""Node types of declared types."""

import pytest

from gedbd.code.java_types import type_of_name
from gedbd.code.parse import method_graph
from gedbd.code.semantic_graph import NodeType


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("int", NodeType.INTEGER),
        ("Long[][]", NodeType.LONG),
        ("java.util.Map<String, List<X>>", NodeType.MAP),
        ("@Nullable java.util.@A List<String>", NodeType.LIST),
        ("java.util.Map.Entry<A, B>", NodeType.OTHER_JDK),
        ("String...", NodeType.STRING),
        ("T", NodeType.USER_DEFINED),
        ("foo.Bar<int[]>", NodeType.USER_DEFINED),
        ("Void", NodeType.VOID),
        ("LocalDate", NodeType.DATE),
        ("Iterator<?>", NodeType.ITERABLE),
        ("Deque<A>", NodeType.COLLECTION),
        ("EnumSet<A>", NodeType.SET),
        ("Runnable", NodeType.OTHER_JDK),
    ],
)
def test_declared_types(declared, expected):
    assert method_graph(f"<T> void f({declared} a) {{ }}").types.tolist() == [expected]


def test_var_is_unknown():
    assert type_of_name("var") == NodeType.NULL


def test_catches_of_several_types_count_as_the_first():
    graph = method_graph("void f() { try { } catch (final IOException | MyException e) { } }")
    assert NodeType.OTHER_JDK in graph.types
