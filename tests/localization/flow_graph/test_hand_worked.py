"""Flow graphs of methods, worked out by hand, and whether the cases cover each type and role."""

import pytest
from graph_notation import check, expected_edges, expected_nodes, read_cases

from gedbd.localization.flow_graph.node_types import GraphRules, NodeType, Role
from gedbd.localization.flow_graph.parse import method_graph

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


def test_the_edges_of_the_talk_are_derived():
    edges = expected_edges(CASES["the talk's example"])
    assert edges["CONTROL"] == {
        "IF_CONDITION1>IF_THEN1",
        "IF_CONDITION1>IF_ELSE1",
        "IF_THEN1>IF_CONVERGENCE1",
        "IF_ELSE1>IF_CONVERGENCE1",
    }
    assert edges["SEQUENTIAL"] == {
        "y2>IF_CONDITION1",
        "IF_THEN1>x4",
        "x3>IF_CONVERGENCE1",
        "IF_ELSE1>y4",
        "x5>IF_CONVERGENCE1",
        "IF_CONVERGENCE1>x6",
    }
