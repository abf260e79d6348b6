"""Methods and hunks of real projects have graphs."""

import json
import lzma
import re
from pathlib import Path

import numpy as np
import pytest

from gedbd.localization.flow_graph.node_types import NO_ROLE, NodeType, Role
from gedbd.localization.flow_graph.parse import completions, fragment_graph, method_graph

DATA = Path(__file__).parents[4] / "shared" / "data"  # beside the repository
METHODS = DATA / "java_methods" / "tomcat.jsonl.xz"
PROJECTS = DATA / "localization"
EVERY = 40

pytestmark = pytest.mark.slow


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


@pytest.mark.skipif(not METHODS.exists(), reason=f"{METHODS} is absent")
def test_every_method_has_a_graph():
    with lzma.open(METHODS, "rt") as lines:
        codes = [json.loads(line)["code"] for line in lines]
    for code in codes:
        graph = method_graph(code)
        check(code, graph)
        assert Role.UNKNOWN not in graph.roles
    assert len(codes) == 13_767


def java_hunks(path):
    """New and old sides of the hunks of every 40th change, without those that are cut."""
    with lzma.open(path, "rt") as lines:
        changes = [json.loads(line) for number, line in enumerate(lines) if number % EVERY == 0]
    for change in changes:
        if change["truncated"]:
            continue
        for file in re.split(r"(?m)^(?=diff --git )", change["diff"]):
            if file.partition("\n")[0].endswith(".java"):
                for hunk in re.split(r"(?m)^@@ .*\n", file)[1:]:
                    lines = hunk.splitlines()
                    yield from ("\n".join(line[1:] for line in lines if line[:1] != drop) for drop in "-+")


@pytest.mark.skipif(not PROJECTS.exists(), reason=f"{PROJECTS} is absent")
@pytest.mark.parametrize(("project", "share"), [("aspectj", 0.9), ("tomcat", 0.96)])
def test_most_hunks_with_code_have_a_graph(project, share):
    hunks = [hunk for hunk in java_hunks(PROJECTS / project / "changesets.jsonl.xz") if any(completions(hunk))]
    graphs = [graph for graph in map(fragment_graph, hunks) if graph is not None]
    assert len(hunks) > 500
    assert len(graphs) / len(hunks) > share
