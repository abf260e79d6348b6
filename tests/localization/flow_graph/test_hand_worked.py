"""Flow graphs of methods, worked out by hand in a short notation, and whether the cases cover each type and role.

A case begins with its name in brackets. Each of its lines begins with what it holds; lines of ``code``, ``nodes`` and
``data`` that begin alike continue each other.

``code`` is the method.
``nodes`` lists the nodes in source order: ``a:PARAMETER:INTEGER`` is a variable with its role and type (without a type:
that of the last variable of the name), ``IF_CONDITION`` a control node. Elsewhere ``a2`` is the second occurrence of
``a``, ``IF_CONDITION2`` the second such node; the number may be left out where there is only one.
A line of ``flow`` is a chain of events: each is evaluated directly before the next.
``data`` lists data edges as ``a1>a2``.
"""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest

from gedbd.localization.flow_graph.node_types import EdgeKind, GraphRules, NodeType, Role
from gedbd.localization.flow_graph.parse import method_graph

KEYWORDS = {  # the text at a control node; at the others stands one character
    "TRY": "try",
    "CATCH": "catch",
    "FINALLY": "finally",
    "DO_CONVERGENCE_INSIDE": "do",
    "EXIT": "}",
    "BEGIN": "{",
    "BREAK": "break",
    "CONTINUE": "continue",
    "SWITCH_SELECTOR": "switch",
    "CONDITIONAL_CONDITION": "?",
    "CONDITIONAL_ELSE": ":",
    "DO_WHILE_CONDITION": "while",
    "FOR_CONDITION": "for",
    "FOREACH_CONDITION": "for",
    "IF_CONDITION": "if",
    "IF_ELSE": "else",
    "LAMBDA_ENTRY": "->",
    "NEW_CLASS_ENTRY": "{",
    "NEW_CLASS_EXIT": "}",
    "RETURN_EXIT": "return",
    "SYNCHRONIZED_ENTRY": "synchronized",
    "WHILE_CONTINUE": "while",
    "EXCEPTION_THROW": "throw",
}


class Case(NamedTuple):
    """A method and its flow graph in the notation above."""

    code: str
    nodes: str
    flow: list[str]
    data: str


def read_cases(file="hand_worked.txt"):
    """The cases of a file by their names."""
    cases = {}
    for line in (Path(__file__).parent / file).read_text(encoding="utf-8").splitlines():
        if line.startswith("["):
            parts = {name: [] for name in Case._fields}
            cases[line.strip("[]")] = parts
        elif line and not line.startswith("#"):
            name, _, text = line.partition(" ")
            parts[name].append(text.strip())
    return {
        name: Case(" ".join(case["code"]), " ".join(case["nodes"]), case["flow"], " ".join(case["data"]))
        for name, case in cases.items()
    }


class Node(NamedTuple):
    """A node: ``label`` is its name or type with its number, ``role`` is empty for control nodes."""

    label: str
    role: str
    type: str


def expected_nodes(case):
    """The nodes of a case."""
    seen = Counter()
    types = {}
    found = []
    for word in case.nodes.split():
        name, *rest = word.split(":")
        seen[name] += 1
        label = f"{name}{seen[name]}"
        if not rest:
            found.append(Node(label, "", NodeType[name].name))
            continue
        role, *given = rest
        types[name] = given[0] if given else types[name]
        found.append(Node(label, Role[role].name, NodeType[types[name]].name))
    return found


def expected_edges(case):
    """The edges of a case by kind, each ``from>to``."""
    nodes = expected_nodes(case)
    following = {node.label: set() for node in nodes}
    for chain in case.flow:
        labels = [full_label(word, following) for word in chain.split()]
        for before, after in pairwise(labels):
            following[before].add(after)
    controls = {node.label for node in nodes if not node.role}
    data = [[full_label(word, following) for word in edge.split(">")] for edge in case.data.split()]
    return {
        "CONTROL": {f"{one}>{other}" for one in controls for other in next_controls(one, following, controls)},
        "SEQUENTIAL": {
            f"{one}>{other}"
            for one in following
            for other in following[one]
            if (one in controls) != (other in controls)
        },
        "DATA": {f"{one}>{other}" for one, other in data},
    }


def full_label(word, labels):
    """The label that a word means: itself, or the only one of its name."""
    if word in labels:
        return word
    assert f"{word}1" in labels, f"{word} is no node"
    assert f"{word}2" not in labels, f"{word} is several nodes"
    return f"{word}1"


def next_controls(start, following, controls):
    """Control nodes that a path from ``start`` reaches through variables only, without itself."""
    found = set()
    seen = set()
    waiting = list(following[start])
    while waiting:
        event = waiting.pop()
        if event in controls:
            found.add(event)
        elif event not in seen:
            seen.add(event)
            waiting += following[event]
    return found - {start}


def graph_nodes(graph):
    """The nodes of a graph in the same form."""
    seen = Counter()
    found = []
    for name, node_type, role in zip(graph.names, graph.types.tolist(), graph.roles.tolist(), strict=True):
        shown = name or NodeType(node_type).name
        seen[shown] += 1
        found.append(Node(f"{shown}{seen[shown]}", Role(role).name if role >= 0 else "", NodeType(node_type).name))
    return found


def graph_edges(graph):
    """The edges of a graph in the same form."""
    labels = [node.label for node in graph_nodes(graph)]
    found = {kind.name: set() for kind in EdgeKind}
    for start, end, kind in zip(*graph.edges.tolist(), graph.kinds.tolist(), strict=True):
        edge = f"{labels[start]}>{labels[end]}"
        assert edge not in found[EdgeKind(kind).name]
        found[EdgeKind(kind).name].add(edge)
    return found


def check(graph, case):
    """Asserts that a graph is that of a case, and that its places hold what its nodes are named after."""
    assert graph_nodes(graph) == expected_nodes(case)
    edges = expected_edges(case)
    for kind, found in graph_edges(graph).items():
        assert sorted(found) == sorted(edges[kind]), f"{kind} edges of {case.code}"
    for node, name, (start, end) in zip(graph_nodes(graph), graph.names, graph.spans.tolist(), strict=True):
        text = case.code[start:end]
        if name:
            assert text == name
        elif node.type == "CASE_EXPRESSION":
            assert text in ("case", "default")
        else:
            assert text == KEYWORDS.get(node.type, text[:1]) != ""


CASES = read_cases()
AUTHORS_CASES = read_cases("hand_worked_authors.txt")
AUTHORS_RULES = GraphRules("always", "statements")


@pytest.mark.parametrize("name", CASES)
def test_the_graph_is_the_one_worked_out_by_hand(name):
    check(method_graph(CASES[name].code), CASES[name])


@pytest.mark.parametrize("name", AUTHORS_CASES)
def test_the_graph_by_the_rules_of_the_authors_is_the_one_worked_out_by_hand(name):
    check(method_graph(AUTHORS_CASES[name].code, AUTHORS_RULES), AUTHORS_CASES[name])


def test_an_unknown_rule_is_refused():
    with pytest.raises(ValueError, match="begin_exit=never is unknown: choose left or always"):
        GraphRules(begin_exit="never")


def test_every_type_and_role_occurs():
    nodes = [node for case in CASES.values() for node in expected_nodes(case)]
    assert {node_type.name for node_type in NodeType} - {node.type for node in nodes} == {"OTHER_PRIMITIVE"}
    assert {role.name for role in Role} - {node.role for node in nodes} == {"UNKNOWN"}
