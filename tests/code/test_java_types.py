"""Node types of declared types."""

import pytest

from gedbd.code.java_types import type_of_name
from gedbd.code.parse import method_graph
from gedbd.code.semantic_graph import NodeType


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
        ("Runnable", NodeType.OTHER_JDK),
    ],
)
def test_declared_types(declared, expected):
    assert method_graph(f"<T> void f({declared} a) {{ }}").types.tolist() == [expected]


def test_var_is_unknown():
    assert type_of_name("var") == NodeType.NULL
