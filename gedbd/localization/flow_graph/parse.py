"""Semantic flow graphs of Java code: of a method, and of a fragment as a hunk of a diff has it.

Code of a method that does not parse gives a graph of what does; its other names have the role UNKNOWN, as has all code
that is nested more than ``MAX_DEPTH`` deep.
"""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from gedbd.localization.flow_graph.bodies import CLASSES, METHODS, loose_members, member_nodes, method
from gedbd.localization.flow_graph.builder import Builder
from gedbd.localization.flow_graph.edges import data_edges, drop_events, flow_edges
from gedbd.localization.flow_graph.event_graph import NO_KEY
from gedbd.localization.flow_graph.expressions import EXPRESSIONS
from gedbd.localization.flow_graph.fragments import Fragment, completions
from gedbd.localization.flow_graph.semantic_graph import TALK_RULES, EdgeKind, FlowGraph, GraphRules
from gedbd.localization.flow_graph.statements import STATEMENTS
from gedbd.localization.flow_graph.syntax import parse

if TYPE_CHECKING:
    from tree_sitter import Node


_CLASS = b"class C {"
_METHOD = b"void m() {"
_FILE_PARTS = {*CLASSES, *METHODS, "import_declaration", "module_declaration", "package_declaration"}
_MEMBER_MODIFIERS = {"public", "protected", "private", "static", "transient", "volatile"}


def method_graph(code: str, rules: GraphRules = TALK_RULES) -> FlowGraph:
    """The semantic flow graph of a method or constructor.

    Args:
        code: Its source, with annotations and modifiers; a method without a body has its parameters only.
        rules: See ``GraphRules``.

    Raises:
        ValueError: The text holds no method.
    """
    for source in _method_sources(code):
        found = _first_method(parse(source).root_node)
        if found is not None:
            builder = Builder(source, EXPRESSIONS, STATEMENTS, rules)
            method(builder, found)
            return _cut_graph(builder, code, len(_CLASS))
    raise ValueError(f"no Java method in the text {code.strip()[:60]!r}: give one method or constructor")


def find_method_graph(code: str, rules: GraphRules = TALK_RULES) -> FlowGraph | None:
    """The graph of ``method_graph``; None if the text holds no method."""
    try:
        return method_graph(code, rules)
    except ValueError:
        return None


def _method_sources(code: str) -> Iterator[bytes]:
    """A class with the method as it is, then with an end of each bracket that it leaves open."""
    text = _CLASS + code.encode(errors="replace") + b"\n"
    yield text + b"}"
    for fragment in completions(code):
        yield text + fragment.closer + b"}"


def _first_method(root: "Node") -> "Node | None":
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in METHODS:
            return node
        stack += reversed(node.named_children)
    return None


def fragment_graph(code: str, rules: GraphRules = TALK_RULES) -> FlowGraph | None:
    """The semantic flow graph of the statements, members or files of a piece of code, as a hunk of a diff has it.

    Brackets that the piece cuts are completed outside of it; if it does not parse even so, its first or last statement
    is left out, of which it may have a part only. Several methods make one graph without edges from one to the next.
    Statements have no BEGIN and EXIT, and each ``return`` among them has its RETURN_EXIT, because the method's end is
    not known. Classes that no method holds have no NEW_CLASS_ENTRY and NEW_CLASS_EXIT.

    Args:
        code: The piece; places in the graph refer to it.
        rules: See ``GraphRules``.

    Returns:
        The graph; None if the piece parses neither as statements, nor as members of a class, nor as a file, or holds
        nothing but comments.
    """
    of_pure_statements = partial(_statements_graph, may_have_members=False)
    for fragment in completions(code):
        for make_graph in (of_pure_statements, _members_graph, _file_graph, _statements_graph):
            graph = make_graph(code, fragment, rules)
            if graph is not None:
                return graph
    return None


def _statements_graph(
    code: str, fragment: Fragment, rules: GraphRules, may_have_members: bool = True
) -> FlowGraph | None:
    """The graph of statements of a method, among which there may be members of a class or parts of a file."""
    prefix = _CLASS + _METHOD + b"".join(fragment.openers) + fragment.lead
    builder, root = _parse_completed(prefix, fragment, b"}}", rules)
    found = _first_method(root) if root else None
    body = found.child_by_field_name("body") if found else None
    if body is None or (not may_have_members and any(map(_is_member, body.named_children))):
        return None
    builder.statements(body)
    return _cut_graph(builder, code, len(prefix))


def _is_member(statement: "Node") -> bool:
    """Whether a statement is a class, an import, or a field with a modifier that local variables do not have.

    Java allows local classes, but a piece that begins with one is more often a part of a file.
    """
    if statement.type in _FILE_PARTS:
        return True
    first = statement.named_children[:1] if statement.type == "local_variable_declaration" else []
    return any(part.type in _MEMBER_MODIFIERS for modifiers in first for part in modifiers.children)


def _members_graph(code: str, fragment: Fragment, rules: GraphRules) -> FlowGraph | None:
    prefix = _CLASS + _open(fragment.openers, [_METHOD])
    builder, root = _parse_completed(prefix, fragment, b"}", rules)
    body = root.named_children[0].child_by_field_name("body") if root else None
    if body is None:
        return None
    loose_members(builder, member_nodes(body))
    return _cut_graph(builder, code, len(prefix))


def _file_graph(code: str, fragment: Fragment, rules: GraphRules) -> FlowGraph | None:
    prefix = _open(fragment.openers, [_CLASS, _METHOD])
    builder, root = _parse_completed(prefix, fragment, b"", rules)
    if root is None or any(part.type not in _FILE_PARTS for part in root.named_children):
        return None
    loose_members(builder, root.named_children)
    return _cut_graph(builder, code, len(prefix))


def _open(openers: tuple[bytes, ...], outermost: list[bytes]) -> bytes:
    """What opens the blocks that a piece closes, the outermost as a class or a method."""
    opened = [new if old == b"{" else old for old, new in zip(openers, outermost, strict=False)]
    return b"".join([*opened, *openers[len(opened) :]])


def _parse_completed(
    prefix: bytes, fragment: Fragment, suffix: bytes, rules: GraphRules
) -> "tuple[Builder, Node | None]":
    """A builder of the completed text, and its tree if it has no errors."""
    source = prefix + fragment.text + b"\n" + fragment.closer + suffix
    root = parse(source).root_node
    return Builder(source, EXPRESSIONS, STATEMENTS, rules), None if root.has_error else root


def _cut_graph(builder: Builder, code: str, offset: int) -> FlowGraph:
    """The graph of a completed piece without the nodes of what completes it.

    Args:
        builder: Its builder, after the piece was visited.
        code: The piece, which the graph's spans refer to.
        offset: Bytes before it in the builder's source.
    """
    events = builder.events
    end = offset + len(code.encode(errors="replace"))
    events.dropped.update(
        event for event in range(len(events)) if events.starts[event] < offset or events.ends[event] > end
    )
    before = drop_events(events)
    edges = flow_edges(events.keys, before)
    data, is_approximate = data_edges(events.keys, events.reads, events.definitions, before)
    edges |= data
    edges.update((source, to, EdgeKind.DATA) for source, to in events.values if source != to)
    order = [event for event in range(len(events)) if event not in events.dropped]
    order.sort(key=events.starts.__getitem__)
    spans = [(events.starts[event], events.ends[event]) for event in order]
    names = [
        "" if events.keys[event] == NO_KEY else builder.source[start:end].decode(errors="replace")
        for event, (start, end) in zip(order, spans, strict=True)
    ]
    # Edges between nodes instead of events, sorted: event ``order[2]`` is node 2.
    node = {event: number for number, event in enumerate(order)}
    rows = sorted((node[source], node[to], int(kind)) for source, to, kind in edges)
    sorted_edges = np.array(rows, np.int32).reshape(-1, 3)
    return FlowGraph(
        tuple(names),
        _characters(np.array(spans, np.int64).reshape(-1, 2) - offset, code),
        np.array([events.types[event] for event in order], np.int8),
        np.array([events.roles[event] for event in order], np.int8),
        np.ascontiguousarray(sorted_edges[:, :2].T),
        sorted_edges[:, 2].astype(np.int8),
        is_approximate or events.is_approximate,
    )


def _characters(spans: np.ndarray, code: str) -> np.ndarray:
    """Positions of characters from positions of bytes: in ``"äb"``, bytes 0, 2 and 3 are characters 0, 1 and 2."""
    if code.isascii():
        return spans.astype(np.int32)
    bytes_ = np.frombuffer(code.encode(errors="replace"), np.uint8)
    begins = (bytes_ & 0xC0) != 0x80
    # Characters that begin before each byte, and before the end.
    number = np.concatenate(([0], np.cumsum(begins)))
    characters: np.ndarray = number[np.clip(spans, 0, len(bytes_))].astype(np.int32)
    return characters
