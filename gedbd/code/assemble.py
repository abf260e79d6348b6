"""From the events of a builder to a semantic flow graph."""

import numpy as np

from gedbd.code.builder import Builder
from gedbd.code.edges import Edges, data_edges, drop_events, flow_edges
from gedbd.code.events import NO_KEY
from gedbd.code.expressions import EXPRESSIONS
from gedbd.code.flow_graph import FlowGraph
from gedbd.code.node_types import EdgeKind
from gedbd.code.statements import STATEMENTS


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
    sorted_edges = _renumber(edges, order)
    return FlowGraph(
        tuple(names),
        _characters(np.array(spans, np.int64).reshape(-1, 2) - offset, code),
        np.array([events.types[event] for event in order], np.int8),
        np.array([events.roles[event] for event in order], np.int8),
        np.ascontiguousarray(sorted_edges[:, :2].T),
        sorted_edges[:, 2].astype(np.int8),
        is_approximate or events.is_approximate,
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
