"""Events of methods, lambdas and nested classes."""

from typing import TYPE_CHECKING

from gedbd.localization.flow_graph.builder import MAX_DEPTH, Body, Builder
from gedbd.localization.flow_graph.event_graph import FULL_DEFINITION
from gedbd.localization.flow_graph.node_types import NodeType, Role, declared_type, has_dimensions

if TYPE_CHECKING:
    from tree_sitter import Node

METHODS = ("method_declaration", "constructor_declaration", "compact_constructor_declaration")
CLASSES = (
    "class_declaration",
    "record_declaration",
    "enum_declaration",
    "interface_declaration",
    "annotation_type_declaration",
)
FIELDS = ("field_declaration", "constant_declaration")


def annotations(b: Builder, node: "Node") -> None:
    """Add the arguments of a declaration's annotations."""
    for modifiers in node.named_children[:1]:
        if modifiers.type == "modifiers":
            for child in modifiers.named_children:
                b.expression(child, Role.ANNOTATION_VALUE)


def method(b: Builder, node: "Node") -> None:
    """Add a method or constructor: annotations, parameters, body."""
    outer = b.body
    b.body = Body()
    b.scopes.push()
    b.events.entries.append(len(b.events))
    annotations(b, node)
    _parameters(b, node.child_by_field_name("parameters"), Role.PARAMETER)
    body = node.child_by_field_name("body")
    if body is not None:
        begin = b.events.add(NodeType.BEGIN, body.start_byte, body.start_byte + 1)
        _statements(b, body)
        b.events.frontier = b.events.frontier + b.body.exits
        if b.body.needs_exit or b.rules.begin_exit == "always":
            b.events.add(NodeType.EXIT, body.end_byte - 1, body.end_byte)
        else:
            b.events.dropped.add(begin)
    b.scopes.pop()
    b.body = outer


def _statements(b: Builder, body: "Node") -> None:
    statements = [child for child in body.named_children if not child.type.endswith("comment")]
    if statements and statements[-1].type == "return_statement":
        b.body.last_return = statements[-1].start_byte
    for statement in statements:
        b.statement(statement)


def _parameters(b: Builder, node: "Node | None", role: Role) -> None:
    for parameter in node.named_children if node else ():
        annotations(b, parameter)
        if parameter.type == "identifier":
            b.declare(parameter, NodeType.NULL, False, role, FULL_DEFINITION)
        elif parameter.type == "formal_parameter":
            name = parameter.child_by_field_name("name")
            b.define(name, parameter.child_by_field_name("type"), role, declarator=parameter)
        elif parameter.type == "spread_parameter":
            parts = [child for child in parameter.named_children if child.type != "modifiers"]
            name = parts[-1].child_by_field_name("name") if parts else None
            b.define(name, parts[0] if parts else None, role, is_array=True)


def lambda_expression(b: Builder, node: "Node", role: Role) -> list[int]:
    """Add a lambda; it has no value variables."""
    arrow = next((child for child in node.children if child.type == "->"), node)
    b.events.add(NodeType.LAMBDA_ENTRY, arrow.start_byte, arrow.start_byte + 2)
    outer = b.body
    b.body = Body()
    b.scopes.push()
    parameters = node.child_by_field_name("parameters")
    if parameters is not None and parameters.type == "identifier":
        b.declare(parameters, NodeType.NULL, False, Role.PARAMETER, FULL_DEFINITION)
    else:
        _parameters(b, parameters, Role.PARAMETER)
    body = node.child_by_field_name("body")
    if body is not None and body.type == "block":
        _statements(b, body)
    else:
        b.expression(body, Role.RETURN)
    b.scopes.pop()
    b.events.frontier = b.events.frontier + b.body.exits
    b.body = outer
    b.events.entries.append(len(b.events))
    b.events.add(NodeType.LAMBDA_EXIT, node.end_byte - 1, node.end_byte)
    return []


def anonymous_class(b: Builder, body: "Node", components: "Node | None" = None) -> None:
    """Add the body of an anonymous, local or member class; ``components`` are those of a record."""
    b.events.add(NodeType.NEW_CLASS_ENTRY, body.start_byte, body.start_byte + 1)
    b.scopes.push_class()
    _parameters(b, components, Role.RECORD_COMPONENT)
    members(b, body)
    b.scopes.pop_class()
    b.events.entries.append(len(b.events))
    b.events.add(NodeType.NEW_CLASS_EXIT, body.end_byte - 1, body.end_byte)


def local_class(b: Builder, node: "Node") -> None:
    """Add the declaration of a class, record, enum or interface inside a method or a class."""
    annotations(b, node)
    body = node.child_by_field_name("body")
    if body is not None:
        anonymous_class(b, body, node.child_by_field_name("parameters"))


def members(b: Builder, body: "Node") -> None:
    """Add the members of a class in their order; its fields are in view in all of them.

    Initialisers have no EXIT: what a ``throw`` in one leads to is not known.
    """
    outer = b.body
    b.body = Body()
    parts = member_nodes(body)
    declare_fields(b, parts)
    for child in parts:
        member(b, child)
    b.body = outer


def loose_members(b: Builder, parts: "list[Node]", depth: int = 0) -> None:
    """Add members of a class, or classes of a file, that no method holds: without edges from one to the next.

    ``depth`` is the number of classes around them.
    """
    declare_fields(b, parts)
    for child in parts:
        b.events.frontier = []
        b.events.entries.append(len(b.events))
        body = child.child_by_field_name("body") if child.type in CLASSES else None
        if body is None:
            member(b, child)
        elif depth < MAX_DEPTH:
            annotations(b, child)
            b.scopes.push_class()
            _parameters(b, child.child_by_field_name("parameters"), Role.RECORD_COMPONENT)
            loose_members(b, member_nodes(body), depth + 1)
            b.scopes.pop_class()
        else:
            b.unknown(child)


def member_nodes(body: "Node") -> "list[Node]":
    """The members of a class; those of an enum without the node that holds what follows its constants."""
    parts: list[Node] = []
    for child in body.named_children:
        parts += child.named_children if child.type == "enum_body_declarations" else [child]
    return parts


def declare_fields(b: Builder, parts: "list[Node]") -> None:
    """Declare the fields among the members of a class."""
    for child in parts:
        written = child.child_by_field_name("type")
        if child.type not in FIELDS or written is None:
            continue
        kind, is_array = declared_type(written)
        for declarator in child.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("name")
            if name is not None:
                b.scopes.declare(b.text(name), kind, is_array or has_dimensions(declarator))


def member(b: Builder, node: "Node") -> None:
    """Add one member of a class."""
    if node.type in METHODS:
        method(b, node)
    elif node.type in FIELDS:
        _field(b, node)
    elif node.type == "enum_constant":
        b.expressions(node.child_by_field_name("arguments"), Role.CONSTRUCTOR_ARGUMENT)
        body = node.child_by_field_name("body")
        if body is not None:
            anonymous_class(b, body)
    elif node.type == "static_initializer":
        b.statements(node)
    else:
        b.statement(node)


def _field(b: Builder, node: "Node") -> None:
    annotations(b, node)
    for declarator in node.children_by_field_name("declarator"):
        name = declarator.child_by_field_name("name")
        value = declarator.child_by_field_name("value")
        variable = b.scopes.find(b.text(name)) if name else None
        if name is None or variable is None:
            continue
        if value is None:
            b.occur(name, variable, Role.FIELD, reads=False)
            continue
        values = b.expression(value, Role.ASSIGNMENT)
        b.events.flow(values, b.occur(name, variable, Role.ASSIGNED, reads=False, definition=FULL_DEFINITION))
