"""Events of statements without branches, and of declarations of local variables."""

from typing import TYPE_CHECKING

from gedbd.code.bodies import CLASSES, METHODS, annotations, has_dimensions, local_class, method
from gedbd.code.builder import Builder, Target
from gedbd.code.control_statements import CONTROL_STATEMENTS
from gedbd.code.events import FULL_DEFINITION
from gedbd.code.java_types import declared_type
from gedbd.code.node_types import NodeType
from gedbd.code.roles import Role
from gedbd.code.switches import yield_statement

if TYPE_CHECKING:
    from tree_sitter import Node


def _local(b: Builder, node: "Node") -> None:
    annotations(b, node)
    written = node.child_by_field_name("type")
    if written is None:
        return
    kind, has_array_type = declared_type(written)
    for declarator in node.children_by_field_name("declarator"):
        name = declarator.child_by_field_name("name")
        value = declarator.child_by_field_name("value")
        if name is None:
            continue
        is_array = has_array_type or has_dimensions(declarator)
        if value is None:
            b.declare(name, kind, is_array, Role.LOCAL)
        else:
            values = b.expression(value, Role.ASSIGNMENT)
            b.events.flow(values, b.declare(name, kind, is_array, Role.ASSIGNED, FULL_DEFINITION))


def _block(b: Builder, node: "Node") -> None:
    b.scopes.push()
    b.statements(node)
    b.scopes.pop()


def _expression(b: Builder, node: "Node") -> None:
    b.expressions(node, Role.BLOCK_DEFAULT)


def _constructor(b: Builder, node: "Node") -> None:
    """``this(...)``, ``super(...)`` or ``o.super(...)``."""
    b.expression(node.child_by_field_name("object"), Role.INVOCATION_TARGET)
    b.expressions(node.child_by_field_name("arguments"), Role.CONSTRUCTOR_ARGUMENT)


def _return(b: Builder, node: "Node") -> None:
    b.expressions(node, Role.RETURN)
    if node.start_byte != b.body.last_return:
        b.events.control(NodeType.RETURN_EXIT, node.start_byte, node.start_byte + len("return"))
        b.body.needs_exit = True
    b.body.exits += b.events.frontier
    b.events.frontier = []


def _throw(b: Builder, node: "Node") -> None:
    b.expressions(node, Role.BLOCK_DEFAULT)
    event = b.events.control(NodeType.EXCEPTION_THROW, node.start_byte, node.start_byte + len("throw"))
    if b.body.catching:
        b.body.catching[-1].append(event)
    else:
        b.body.exits.append(event)
        b.body.needs_exit = True
    b.events.frontier = []


def _label(b: Builder, node: "Node") -> str:
    name = next((child for child in node.named_children if child.type == "identifier"), None)
    return b.text(name) if name else ""


def _break(b: Builder, node: "Node") -> None:
    event = b.events.control(NodeType.BREAK, node.start_byte, node.start_byte + len("break"))
    label = _label(b, node)
    for target in reversed(b.body.targets):
        if label in target.labels if label else not target.is_plain:
            target.breaks.append(event)
            break
    b.events.frontier = []


def _continue(b: Builder, node: "Node") -> None:
    event = b.events.control(NodeType.CONTINUE, node.start_byte, node.start_byte + len("continue"))
    label = _label(b, node)
    for target in reversed(b.body.targets):
        if target.is_loop and (not label or label in target.labels):
            target.continues.append(event)
            break
    b.events.frontier = []


def _labelled(b: Builder, node: "Node") -> None:
    labels = []
    while node.type == "labeled_statement":
        parts = [child for child in node.named_children if not child.type.endswith("comment")]
        labels.append(b.text(parts[0]))
        if len(parts) == 1:
            return
        node = parts[-1]
    if node.type in _TARGETS:
        b.body.labels = tuple(labels)
        b.statement(node)
        return
    target = Target(tuple(labels), is_plain=True)
    b.body.targets.append(target)
    b.statement(node)
    b.body.targets.pop()
    b.events.frontier = b.events.frontier + target.breaks


def _synchronized(b: Builder, node: "Node") -> None:
    for child in node.named_children:
        if child.type == "parenthesized_expression":
            b.expression(child, Role.SYNCHRONIZED_EXPRESSION)
    b.events.control(NodeType.SYNCHRONIZED_ENTRY, node.start_byte, node.start_byte + len("synchronized"))
    b.statement(node.child_by_field_name("body"))


def _assert(b: Builder, node: "Node") -> None:
    b.expressions(node, Role.ASSERT_VALUE)


def _error(b: Builder, node: "Node") -> None:
    """Code that does not parse: its statements and expressions that do, and its other names."""
    for child in node.named_children:
        if child.type == "identifier":
            b.identifier(child, Role.UNKNOWN)
        else:
            b.statement(child)


_TARGETS = ("while_statement", "do_statement", "for_statement", "enhanced_for_statement", "switch_expression")

STATEMENTS = {
    **CONTROL_STATEMENTS,
    **dict.fromkeys(CLASSES, local_class),
    **dict.fromkeys(METHODS, method),
    "ERROR": _error,
    "assert_statement": _assert,
    "block": _block,
    "break_statement": _break,
    "constructor_body": _block,
    "continue_statement": _continue,
    "explicit_constructor_invocation": _constructor,
    "expression_statement": _expression,
    "labeled_statement": _labelled,
    "local_variable_declaration": _local,
    "return_statement": _return,
    "synchronized_statement": _synchronized,
    "throw_statement": _throw,
    "yield_statement": yield_statement,
}
