"""Every method of a large project has a graph."""

import json
import lzma
from pathlib import Path

import numpy as np
import pytest

from gedbd.code.parse import method_graph
from gedbd.code.semantic_graph import NO_ROLE, NodeType, Role

METHODS = Path(__file__).parents[3] / "shared" / "data" / "java_methods" / "tomcat.jsonl.xz"  # beside the repository


def check(code, graph):
    """Asserts what holds of every graph."""
    is_variable = graph.types <= NodeType.NULL
    assert (is_variable == (graph.roles != NO_ROLE)).all()
    assert (np.diff(graph.spans[:, 0]) >= 0).all()
    for name, (start, end), variable in zip(graph.names, graph.spans, is_variable, strict=True):
        assert code[start:end] == name if variable else end > start
    rows = [*zip(*graph.edges.tolist(), graph.kinds.tolist(), strict=True)]
    assert rows == sorted(set(rows))
    assert all(source != to for source, to, _ in rows)


@pytest.mark.slow
@pytest.mark.skipif(not METHODS.exists(), reason=f"{METHODS} is absent")
def test_every_method_has_a_graph():
    number = 0
    with lzma.open(METHODS, "rt") as lines:
        for line in lines:
            code = json.loads(line)["code"]
            graph = method_graph(code)
            check(code, graph)
            assert Role.UNKNOWN not in graph.roles
            number += 1
    assert number == 13_767
