"""Events of statements with branches: ``if``, loops, ``switch`` and ``try``."""

from typing import TYPE_CHECKING

from gedbd.code.bodies import annotations, has_dimensions
from gedbd.code.builder import Builder, Target
from gedbd.code.events import FULL_DEFINITION, MAX_EDGES
from gedbd.code.java_types import declared_type
from gedbd.code.node_types import NodeType
from gedbd.code.roles import Role
from gedbd.code.switches import switch_statement

if TYPE_CHECKING:
    from tree_sitter import Node


def _keyword(node: "Node", keyword: str) -> int:
    """The first byte of a keyword that is a child of a statement."""
    return next((child.start_byte for child in node.children if child.type == keyword), node.start_byte)


def _if(b: Builder, node: "Node") -> None:
    """A chain of ``else if`` in one loop."""
    ends = []
    role = Role.IF_EXPRESSION
    while True:
        b.expression(node.child_by_field_name("condition"), role)
        choice = b.events.control(NodeType.IF_CONDITION, node.start_byte, node.start_byte + len("if"))
        then = node.child_by_field_name("consequence")
        if then is not None:
            b.events.control(NodeType.IF_THEN, then.start_byte, then.start_byte + 1)
            b.statement(then)
        ends.append((node.end_byte, b.events.frontier))
        b.events.frontier = [choice]
        other = node.child_by_field_name("alternative")
        if other is None:
            break
        start = _keyword(node, "else")
        b.events.control(NodeType.IF_ELSE, start, start + len("else"))
        if other.type != "if_statement":
            b.statement(other)
            break
        node = other
        role = Role.ELSE_EXPRESSION
    for end, frontier in reversed(ends):
        b.events.frontier = frontier + b.events.frontier
        b.events.convergence(NodeType.IF_CONVERGENCE, end)


def _begin_loop(b: Builder) -> Target:
    target = Target(b.body.labels, is_loop=True)
    b.body.labels = ()
    b.body.targets.append(target)
    return target


def _end_loop(b: Builder, frontier: list[int], kind: NodeType, end: int) -> None:
    target = b.body.targets.pop()
    b.events.frontier = frontier + target.breaks
    b.events.convergence(kind, end)


def _while(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    head = len(b.events)
    b.expression(node.child_by_field_name("condition"), Role.WHILE_EXPRESSION)
    choice = b.events.control(NodeType.WHILE_CONTINUE, node.start_byte, node.start_byte + len("while"))
    b.statement(node.child_by_field_name("body"))
    b.events.frontier = b.events.frontier + target.continues
    b.events.link(head)
    _end_loop(b, [choice], NodeType.WHILE_CONVERGENCE, node.end_byte)


def _do(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    begin = b.events.control(NodeType.DO_CONVERGENCE_INSIDE, node.start_byte, node.start_byte + len("do"))
    b.statement(node.child_by_field_name("body"))
    b.events.frontier = b.events.frontier + target.continues
    b.expression(node.child_by_field_name("condition"), Role.DO_WHILE_EXPRESSION)
    start = _keyword(node, "while")
    choice = b.events.control(NodeType.DO_WHILE_CONDITION, start, start + len("while"))
    b.events.link(begin)
    _end_loop(b, [choice], NodeType.DO_CONVERGENCE_OUTSIDE, node.end_byte)


def _for(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    b.scopes.push()
    for part in node.children_by_field_name("init"):
        b.statement(part)
    head = len(b.events)
    condition = node.child_by_field_name("condition")
    b.expression(condition, Role.BLOCK_DEFAULT)
    choice = b.events.control(NodeType.FOR_CONDITION, node.start_byte, node.start_byte + len("for"))
    b.statement(node.child_by_field_name("body"))
    b.events.frontier = b.events.frontier + target.continues
    for part in node.children_by_field_name("update"):
        b.expression(part, Role.BLOCK_DEFAULT)
    b.events.link(head)
    b.scopes.pop()
    _end_loop(b, [choice] if condition else [], NodeType.FOR_CONVERGENCE, node.end_byte)


def _for_each(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    annotations(b, node)
    values = b.expression(node.child_by_field_name("value"), Role.FOREACH_EXPRESSION)
    choice = b.events.control(NodeType.FOREACH_CONDITION, node.start_byte, node.start_byte + len("for"))
    b.scopes.push()
    name = node.child_by_field_name("name")
    written = node.child_by_field_name("type")
    if name is not None and written is not None:
        kind, is_array = declared_type(written)
        event = b.declare(name, kind, is_array or has_dimensions(node), Role.ASSIGNED, FULL_DEFINITION)
        b.events.flow(values, event)
    b.statement(node.child_by_field_name("body"))
    b.scopes.pop()
    b.events.frontier = b.events.frontier + target.continues
    b.events.link(choice)
    _end_loop(b, [choice], NodeType.FOREACH_CONVERGENCE, node.end_byte)


def _try(b: Builder, node: "Node") -> None:
    begin = b.events.control(NodeType.TRY, node.start_byte, node.start_byte + len("try"))
    catches = [child for child in node.named_children if child.type == "catch_clause"]
    last = next((child for child in node.named_children if child.type == "finally_clause"), None)
    throws: list[int] = []
    b.scopes.push()
    _resources(b, node.child_by_field_name("resources"))
    if catches:
        b.body.catching.append(throws)
    b.statement(node.child_by_field_name("body"))
    if catches:
        b.body.catching.pop()
    b.scopes.pop()
    ends = b.events.frontier
    if len(throws) * len(catches) > MAX_EDGES:
        b.events.is_approximate = True
        throws = []
    for clause in catches:
        b.events.frontier = [begin, *throws]
        _catch(b, clause)
        ends = ends + b.events.frontier
    if last is not None:
        b.events.frontier = ends if catches else [*ends, begin]
        b.events.control(NodeType.FINALLY, last.start_byte, last.start_byte + len("finally"))
        b.statements(last)
        ends = b.events.frontier
    b.events.frontier = ends
    b.events.convergence(NodeType.TRY_CONVERGENCE, node.end_byte)


def _resources(b: Builder, node: "Node | None") -> None:
    for resource in node.named_children if node else ():
        name = resource.child_by_field_name("name")
        written = resource.child_by_field_name("type")
        if name is None or written is None:
            b.expressions(resource, Role.RESOURCE)
            continue
        annotations(b, resource)
        values = b.expression(resource.child_by_field_name("value"), Role.ASSIGNMENT)
        kind, is_array = declared_type(written)
        event = b.declare(name, kind, is_array or has_dimensions(resource), Role.RESOURCE, FULL_DEFINITION)
        b.events.flow(values, event)


def _catch(b: Builder, clause: "Node") -> None:
    b.events.control(NodeType.CATCH, clause.start_byte, clause.start_byte + len("catch"))
    b.scopes.push()
    for parameter in clause.named_children:
        if parameter.type == "catch_formal_parameter":
            annotations(b, parameter)
            name = parameter.child_by_field_name("name")
            written = next((child for child in parameter.named_children if child.type == "catch_type"), None)
            if name is not None and written is not None:
                kind, is_array = declared_type(written)
                b.declare(name, kind, is_array, Role.CATCH, FULL_DEFINITION)
    b.statement(clause.child_by_field_name("body"))
    b.scopes.pop()


CONTROL_STATEMENTS = {
    "do_statement": _do,
    "enhanced_for_statement": _for_each,
    "for_statement": _for,
    "if_statement": _if,
    "switch_expression": switch_statement,
    "try_statement": _try,
    "try_with_resources_statement": _try,
    "while_statement": _while,
}
