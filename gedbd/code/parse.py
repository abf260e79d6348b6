"""Semantic flow graphs of Java code: of a method, and of a fragment as a hunk of a diff has it.

Code of a method that does not parse gives a graph of what does; its other names have the role UNKNOWN, as has all code
that is nested more than ``MAX_DEPTH`` deep.
"""

from typing import TYPE_CHECKING

from gedbd.code.assemble import make_builder, to_graph
from gedbd.code.bodies import METHODS, loose_members, member_nodes, method
from gedbd.code.builder import Builder
from gedbd.code.flow_graph import FlowGraph
from gedbd.code.fragments import Fragment, completions
from gedbd.code.syntax import parse

if TYPE_CHECKING:
    from tree_sitter import Node

_CLASS = b"class C {"
_METHOD = b"void m() {"
_MEMBER_MODIFIERS = {"public", "protected", "private", "static", "transient", "volatile"}


def method_graph(code: str) -> FlowGraph:
    """The semantic flow graph of a method or constructor.

    Args:
        code: Its source, with annotations and modifiers; a method without a body has its parameters only.

    Raises:
        ValueError: The text holds no method.
    """
    source = _CLASS + code.encode(errors="replace") + b"\n}"
    builder = make_builder(source)
    found = _first_method(parse(source).root_node)
    if found is None:
        raise ValueError(f"no Java method in the text {code.strip()[:60]!r}: give one method or constructor")
    method(builder, found)
    return to_graph(builder, code, len(_CLASS))


def _first_method(root: "Node") -> "Node | None":
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in METHODS:
            return node
        stack += reversed(node.named_children)
    return None


def fragment_graph(code: str) -> FlowGraph | None:
    """The semantic flow graph of the statements, members or files of a piece of code, as a hunk of a diff has it.

    Brackets that the piece cuts are completed outside of it; if it does not parse even so, its first or last statement
    is left out, of which it may have a part only. Several methods make one graph without edges
    from one to the next. Statements have no BEGIN and EXIT, and each ``return`` among them has its RETURN_EXIT, because
    the method's end is not known.

    Args:
        code: The piece; places in the graph refer to it.

    Returns:
        The graph; None if the piece parses neither as statements, nor as members of a class, nor as a file, or holds
        nothing but comments.
    """
    for fragment in completions(code):
        for make_graph in (_statements_graph, _members_graph, _file_graph):
            graph = make_graph(code, fragment)
            if graph is not None:
                return graph
    return None


def _statements_graph(code: str, fragment: Fragment) -> FlowGraph | None:
    prefix = _CLASS + _METHOD + b"".join(fragment.openers) + fragment.lead
    builder, root = _parse_completed(prefix, fragment, b"}}")
    found = _first_method(root) if root else None
    body = found.child_by_field_name("body") if found else None
    if body is None or any(_is_member(statement) for statement in body.named_children):
        return None
    builder.statements(body)
    return _cut_graph(builder, code, len(prefix))


def _is_member(statement: "Node") -> bool:
    """Whether a statement is a field with a modifier that local variables do not have."""
    modifiers = statement.named_children[0] if statement.type == "local_variable_declaration" else statement
    return modifiers.type == "modifiers" and any(part.type in _MEMBER_MODIFIERS for part in modifiers.children)


def _members_graph(code: str, fragment: Fragment) -> FlowGraph | None:
    prefix = _CLASS + _open(fragment.openers, [_METHOD])
    builder, root = _parse_completed(prefix, fragment, b"}")
    body = root.named_children[0].child_by_field_name("body") if root else None
    if body is None:
        return None
    loose_members(builder, member_nodes(body))
    return _cut_graph(builder, code, len(prefix))


def _file_graph(code: str, fragment: Fragment) -> FlowGraph | None:
    prefix = _open(fragment.openers, [_CLASS, _METHOD])
    builder, root = _parse_completed(prefix, fragment, b"")
    if root is None:
        return None
    loose_members(builder, root.named_children)
    return _cut_graph(builder, code, len(prefix))


def _open(openers: tuple[bytes, ...], outermost: list[bytes]) -> bytes:
    """What opens the blocks that a piece closes, the outermost as a class or a method."""
    opened = [new if old == b"{" else old for old, new in zip(openers, outermost, strict=False)]
    return b"".join([*opened, *openers[len(opened) :]])


def _parse_completed(prefix: bytes, fragment: Fragment, suffix: bytes) -> "tuple[Builder, Node | None]":
    """A builder of the completed text, and its tree if it has no errors."""
    source = prefix + fragment.text + b"\n" + fragment.closer + suffix
    root = parse(source).root_node
    return make_builder(source), None if root.has_error else root


def _cut_graph(builder: Builder, code: str, offset: int) -> FlowGraph:
    """The graph of a completed piece without the nodes of what completes it."""
    events = builder.events
    end = offset + len(code.encode(errors="replace"))
    events.dropped.update(
        event for event in range(len(events)) if events.starts[event] < offset or events.ends[event] > end
    )
    return to_graph(builder, code, offset)
