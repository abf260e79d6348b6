"""Semantic flow graphs of Java code.

``method_graph`` takes a method. Code that does not parse gives a graph of what does; its other names have the role
UNKNOWN, as has all code that is nested more than ``MAX_DEPTH`` deep.
"""

from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from gedbd.code.bodies import METHODS, method
from gedbd.code.builder import Builder
from gedbd.code.edges import Edges, data_edges, drop_events, flow_edges
from gedbd.code.events import NO_KEY
from gedbd.code.expressions import EXPRESSIONS
from gedbd.code.flow_graph import FlowGraph
from gedbd.code.node_types import EdgeKind
from gedbd.code.statements import STATEMENTS

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

_CLASS = b"class C {"


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


def parse(source: bytes) -> "Tree":
    """The syntax tree of Java code.

    Raises:
        ValueError: tree-sitter is not installed.
    """
    return java_parser().parse(source)


@cache
def java_parser() -> "Parser":
    """The parser of Java, which is made once.

    Raises:
        ValueError: tree-sitter is not installed.
    """
    try:
        import tree_sitter
        import tree_sitter_java
    except ImportError as error:
        raise ValueError("tree-sitter is not installed: pip install 'gedbd[code]'") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_java.language()))


def make_builder(source: bytes) -> Builder:
    """A builder of the event graph of Java code."""
    return Builder(source, EXPRESSIONS, STATEMENTS)


def to_graph(builder: Builder, code: str, offset: int) -> FlowGraph:
    """The semantic flow graph of the events that a builder has.

    Args:
        builder: It, after the code was visited.
        code: The text that the graph's spans refer to.
        offset: Bytes before this text in the builder's source.
    """
    events = builder.events
    before = drop_events(events)
    edges = flow_edges(events.keys, before)
    edges |= data_edges(events.keys, events.reads, events.definitions, before)
    edges.update((source, to, EdgeKind.DATA) for source, to in events.values if source != to)
    order = [event for event in range(len(events)) if event not in events.dropped]
    order.sort(key=events.starts.__getitem__)
    spans = [(events.starts[event], events.ends[event]) for event in order]
    names = [
        "" if events.keys[event] == NO_KEY else builder.source[start:end].decode(errors="replace")
        for event, (start, end) in zip(order, spans, strict=True)
    ]
    sorted_edges = _renumber(edges, order)
    return FlowGraph(
        tuple(names),
        _characters(np.array(spans, np.int64).reshape(-1, 2) - offset, code),
        np.array([events.types[event] for event in order], np.int8),
        np.array([events.roles[event] for event in order], np.int8),
        np.ascontiguousarray(sorted_edges[:, :2].T),
        sorted_edges[:, 2].astype(np.int8),
    )


def _renumber(edges: Edges, order: list[int]) -> np.ndarray:
    """``(E, 3)`` edges between nodes instead of events, sorted: event ``order[2]`` is node 2."""
    node = {event: number for number, event in enumerate(order)}
    rows = sorted((node[source], node[to], int(kind)) for source, to, kind in edges)
    return np.array(rows, np.int32).reshape(-1, 3)


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
