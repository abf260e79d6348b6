"""Events of switches, as statements and as expressions, and of patterns."""

from typing import TYPE_CHECKING

from gedbd.localization.flow_graph.builder import Builder, Target
from gedbd.localization.flow_graph.semantic_graph import NodeType, Role

if TYPE_CHECKING:
    from tree_sitter import Node


def switch_statement(b: Builder, node: "Node") -> None:
    """Add a switch that is a statement."""
    _switch(b, node, Role.BLOCK_DEFAULT)


def switch_value(b: Builder, node: "Node", role: Role) -> list[int]:
    """Add a switch expression; its value variables are those of its results."""
    b.body.yields.append(([], []))
    _switch(b, node, Role.YIELD_EXPRESSION)
    return b.body.yields.pop()[1]


def yield_statement(b: Builder, node: "Node") -> None:
    """Add ``yield``, which leaves the innermost switch expression."""
    values = b.expressions(node, b.role_alone(node, Role.YIELD_EXPRESSION))
    if b.body.yields:
        leaving, results = b.body.yields[-1]
        leaving += b.events.frontier
        results += values
    b.events.frontier = []


def pattern(b: Builder, node: "Node", values: list[int], role: Role) -> None:
    """Declare the variables of a pattern, into which the values of what it is compared with flow."""
    stack = [node]
    while stack:
        part = stack.pop()
        names = [child for child in part.named_children if child.type == "identifier"]
        if part.type in ("type_pattern", "record_pattern_component"):
            types = [child for child in part.named_children if child.type not in ("identifier", "modifiers")]
            if names and types:
                b.define(names[0], types[0], role, values)
        else:
            stack += reversed(part.named_children)


def _switch(b: Builder, node: "Node", result_role: Role) -> None:
    target = Target(b.body.labels)
    b.body.labels = ()
    selector = b.expression(node.child_by_field_name("condition"), Role.SWITCH_SELECTOR)
    choice = b.keyword(NodeType.SWITCH_SELECTOR, node, "switch")
    b.body.targets.append(target)
    b.scopes.push()
    ends: list[int] = []
    falling: list[int] = []
    has_default = False
    body = node.child_by_field_name("body")
    for group in body.named_children if body else ():
        is_rule = group.type == "switch_rule"
        if is_rule:
            b.scopes.push()
        has_default |= _labels(b, group, choice, selector)
        if is_rule:
            _rule(b, group, result_role)
            ends += b.events.frontier
            b.scopes.pop()
        else:
            b.events.frontier = b.events.frontier + falling
            for child in group.named_children:
                if child.type != "switch_label":
                    b.statement(child)
            falling = b.events.frontier
    b.scopes.pop()
    b.body.targets.pop()
    yielding = b.body.yields[-1][0] if result_role == Role.YIELD_EXPRESSION else []
    b.events.frontier = ends + falling + target.breaks + yielding + ([] if has_default else [choice])
    b.events.convergence(NodeType.SWITCH_CONVERGENCE, node.end_byte)


def _labels(b: Builder, group: "Node", choice: int, selector: list[int]) -> bool:
    """Add the labels of a group; returns whether one is ``default``."""
    ends: list[int] = []
    has_default = False
    for label in group.named_children:
        if label.type == "switch_label":
            b.events.frontier = [choice]
            has_default |= _label(b, label, selector)
            ends += b.events.frontier
    b.events.frontier = ends
    return has_default


def _label(b: Builder, label: "Node", selector: list[int]) -> bool:
    keyword = label.children[0]
    b.events.add(NodeType.CASE_EXPRESSION, keyword.start_byte, keyword.end_byte)
    is_default = keyword.type == "default"
    for value in label.named_children:
        if value.type == "pattern":
            pattern(b, value, selector, Role.CASE_VALUE)
        elif value.type == "guard":
            # A guard is a condition, no value of its case, and has no role of its own.
            b.expressions(value, Role.BLOCK_DEFAULT)
        elif value.type == "identifier" and b.text(value) == "default":
            is_default = True
        else:
            b.expression(value, Role.CASE_VALUE)
    return is_default


def _rule(b: Builder, group: "Node", result_role: Role) -> None:
    for child in group.named_children:
        if child.type == "expression_statement":
            values = b.expressions(child, result_role)
            if result_role == Role.YIELD_EXPRESSION:
                b.body.yields[-1][1].extend(values)
        elif child.type != "switch_label":
            b.statement(child)
