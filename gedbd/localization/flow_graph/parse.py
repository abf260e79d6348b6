"""Semantic flow graphs of Java code: of a method, and of a fragment such as a hunk of a diff.

A method that does not parse as a whole gives a graph of what does; its other names have the role UNKNOWN, as do all
names in code that is nested more than ``MAX_DEPTH`` deep.

A fragment begins and ends anywhere. What it cuts is completed outside of its text: ``}`` gets a beginning before the
text, ``{`` an end after it. What cannot be completed, such as half a comment or the end of a statement, becomes
spaces, so that positions in the text stay.
"""

import re
from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from gedbd.localization.flow_graph.builder import CLASSES, METHODS, Builder, loose_members, member_nodes, method
from gedbd.localization.flow_graph.event_graph import NO_KEY, data_edges, drop_events, flow_edges
from gedbd.localization.flow_graph.expressions import EXPRESSIONS
from gedbd.localization.flow_graph.java_source import syntax_tree
from gedbd.localization.flow_graph.node_types import TALK_RULES, EdgeKind, FlowGraph, GraphRules
from gedbd.localization.flow_graph.statements import STATEMENTS

if TYPE_CHECKING:
    from tree_sitter import Node


_COMMENT_END = re.compile(rb"\A(?:[ \t]*(?:\*[^\n]*)?\n)*?[ \t]*(?:\*[^\n]*?)?\*/")
_COMMENT_LINES = re.compile(rb"\A(?:[ \t]*\n)*[ \t]*\*[^\n]*(?:\n[ \t]*\*[^\n]*)*")
_TOKENS = re.compile(
    rb"""//[^\n]* | /\*.*?(?:\*/|\Z) | \"\"\".*?(?:\"\"\"|\Z) | "(?:\\.|[^"\\\n])*"? | '(?:\\[^'\n]*|[^'\\\n])'
    | [{}(),;:] | -> | [A-Za-z_$][\w$]*""",
    re.VERBOSE | re.DOTALL,
)
_STATEMENT_END = re.compile(rb"[;{}][ \t]*(?=\n|\Z)")
_BEFORE_CLAUSE = {b"else": b"if (true) ; ", b"catch": b"try { } ", b"finally": b"try { } "}
_BEFORE_END = {
    **dict.fromkeys((b")", b","), b"f(() -> {"),
    **dict.fromkeys((b"catch", b"finally"), b"try {"),
    b"else": b"if (true) {",
}
_AFTER = {b"try": b"} finally { }", b"do": b"} while (true);"}
_SWITCH = b"switch (0) {"
_DEFAULTS = ([b"default", b":"], [b"default", b"->"])
_CLASS = b"class C {"
_METHOD = b"void m() {"
_FILE_PARTS = {*CLASSES, *METHODS, "import_declaration", "module_declaration", "package_declaration"}
_MEMBER_MODIFIERS = {"public", "protected", "private", "static", "transient", "volatile"}


class Fragment(NamedTuple):
    """A text and what completes it."""

    text: bytes  # UTF-8, with spaces for what cannot be completed
    openers: tuple[bytes, ...]  # what opens each ``}`` that the text does not open, the outermost first
    lead: bytes  # what the first clause belongs to, if that is ``else``, ``catch`` or ``finally``
    closer: bytes  # what closes the brackets that the text does not close, and its last statement


def completions(code: str) -> Iterator[Fragment]:
    """Ways to complete a fragment: as it is, or without its last, its first or both statements, which may be cut.

    A text that holds nothing but comments has none.
    """
    text = _without_half_comments(code.encode(errors="replace"))
    seen = set()
    for without_first, without_last in ((False, False), (False, True), (True, False), (True, True)):
        part = _without_cut_statements(text, without_first, without_last)
        if part not in seen and part.strip():
            seen.add(part)
            yield _complete(part)


def _without_half_comments(text: bytes) -> bytes:
    """Replaces all comments by spaces, also those that the text cuts."""
    for pattern in (_COMMENT_END, _COMMENT_LINES):
        begin = pattern.match(text)
        if begin and b"/*" not in begin[0]:
            text = _blank(begin[0]) + text[begin.end() :]
            break
    return _TOKENS.sub(lambda token: _blank(token[0]) if token[0][:2] in (b"//", b"/*") else token[0], text)


def _blank(text: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", text)


def _without_cut_statements(text: bytes, without_first: bool, without_last: bool) -> bytes:
    """Blanks the lines up to the first, or after the last, that ends a statement or begins a block."""
    ends = [match.end() for match in _STATEMENT_END.finditer(text)]
    begin = ends[0] if ends and without_first else 0
    end = ends[-1] if ends and without_last else len(text)
    return _blank(text[:begin]) + text[begin:end] + _blank(text[end:]) if begin < end else b""


def _complete(text: bytes) -> Fragment:
    tokens = _TOKENS.findall(text)
    openers: list[bytes] = []
    stack: list[tuple[bytes, bytes]] = []
    has_case = False
    for position, token in enumerate(tokens):
        if token in (b"{", b"("):
            stack.append((token, tokens[position - 1] if position else b""))
        elif token in (b"}", b")") and stack:
            stack.pop()
        elif token == b"}":
            openers.append(_SWITCH if has_case else _opener(tokens, position))
            has_case = False
        elif not stack and (token == b"case" or tokens[position : position + 2] in _DEFAULTS):
            has_case = True
    if has_case:
        openers.append(_SWITCH)
        stack.insert(0, (b"{", b""))
    lead = _BEFORE_CLAUSE.get(tokens[0], b"") if tokens else b""
    return Fragment(text, tuple(reversed(openers)), lead, _closer(text, stack))


def _opener(tokens: list[bytes], position: int) -> bytes:
    """What begins the block that ends at a token."""
    following = tokens[position + 1] if position + 1 < len(tokens) else b""
    if following == b"while" and _is_do_while(tokens[position + 2 :]):
        return b"do {"
    return _BEFORE_END.get(following, b"{")


def _is_do_while(tokens: list[bytes]) -> bool:
    """Whether ``;`` follows the parenthesis that these tokens begin with."""
    depth = 0
    for position, token in enumerate(tokens):
        depth += (token == b"(") - (token == b")")
        if depth == 0:
            return tokens[position + 1 : position + 2] == [b";"]
    return False


def _closer(text: bytes, stack: list[tuple[bytes, bytes]]) -> bytes:
    """The end of the last statement, then of each bracket that is open, the innermost first."""
    closer = b"" if text.rstrip()[-1:] in (b";", b"{", b"}", b"(") else b";"
    for bracket, word in reversed(stack):
        if bracket == b"(":
            closer = closer.removesuffix(b";") + b");"
        else:
            closer += _AFTER.get(word, b"};")
    return closer


def method_graph(code: str, rules: GraphRules = TALK_RULES) -> FlowGraph:
    """The semantic flow graph of a method or constructor; one without a body has its parameters only.

    Raises ValueError if the text holds no method.
    """
    text = _CLASS + code.encode(errors="replace") + b"\n"
    # As it is, then with all open brackets closed.
    for closer in chain([b""], (fragment.closer for fragment in completions(code))):
        source = text + closer + b"}"
        node = _first_method(syntax_tree(source))
        if node is not None:
            builder = Builder(source, EXPRESSIONS, STATEMENTS, rules)
            method(builder, node)
            return _cut_graph(builder, code, len(_CLASS))
    raise ValueError(f"no Java method in the text {code.strip()[:60]!r}: give one method or constructor")


def _first_method(root: "Node") -> "Node | None":
    stack = [root]
    while stack:
        node = stack.pop()
        if node.type in METHODS:
            return node
        stack += reversed(node.named_children)
    return None


def fragment_graph(code: str, rules: GraphRules = TALK_RULES) -> FlowGraph | None:
    """The semantic flow graph of the statements, members or files of a piece of code, such as a hunk of a diff.

    Brackets that the piece cuts are completed outside of it; if it still does not parse, its first or last statement,
    which may be incomplete, is left out. Several methods make one graph without edges from one to the next. Statements
    have no BEGIN and EXIT, and each ``return`` among them has its RETURN_EXIT, because the method's end is not known.
    Classes that no method holds have no NEW_CLASS_ENTRY and NEW_CLASS_EXIT. None if the piece parses neither as
    statements, nor as members of a class, nor as a file, or holds only comments.
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
    node = _first_method(root) if root else None
    body = node.child_by_field_name("body") if node else None
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
    root = syntax_tree(source)
    return Builder(source, EXPRESSIONS, STATEMENTS, rules), None if root.has_error else root


def _cut_graph(builder: Builder, code: str, offset: int) -> FlowGraph:
    """The graph of a completed piece without the nodes outside of it; ``offset`` bytes are before the piece."""
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
