"""The edges of a semantic flow graph, derived from the event graph alone."""

from gedbd.code.events import FULL_DEFINITION, NO_DEFINITION, NO_KEY, Events
from gedbd.code.node_types import EdgeKind

Edges = set[tuple[int, int, int]]


def drop_events(events: Events) -> list[list[int]]:
    """Leave out convergences that no path reaches, and other events to be dropped; paths lead through them.

    Returns:
        The events that each remaining one may directly follow, each once; of dropped ones nothing.
    """
    dropped = events.dropped | _unreached_convergences(events)
    events.dropped = dropped
    if not dropped:
        return [list(dict.fromkeys(before)) for before in events.before]
    return [
        [] if event in dropped else _through(events.before, before, dropped)
        for event, before in enumerate(events.before)
    ]


def _through(before: list[list[int]], sources: list[int], dropped: set[int]) -> list[int]:
    """The events before one, where those that are dropped are replaced by the ones before them."""
    if dropped.isdisjoint(sources):
        return list(dict.fromkeys(sources))
    found: dict[int, None] = {}
    seen = set()
    stack = list(sources)
    while stack:
        source = stack.pop()
        if source not in dropped:
            found[source] = None
        elif source not in seen:
            seen.add(source)
            stack += before[source]
    return list(found)


def _unreached_convergences(events: Events) -> set[int]:
    if not events.convergences:
        return set()
    after = successors(events.before)
    reached: set[int] = set()
    stack = [entry for entry in events.entries if entry < len(events)]
    while stack:
        event = stack.pop()
        if event not in reached:
            reached.add(event)
            stack += after[event]
    return {event for event in events.convergences if event not in reached}


def successors(before: list[list[int]]) -> list[list[int]]:
    """The events that may directly follow each, from those that each may follow."""
    after: list[list[int]] = [[] for _ in before]
    for event, sources in enumerate(before):
        for source in sources:
            after[source].append(event)
    return after


def flow_edges(keys: list[int], before: list[list[int]]) -> Edges:
    """CONTROL and SEQUENTIAL edges.

    Args:
        keys: Variable of each event; ``NO_KEY`` for control nodes.
        before: Events that each may directly follow.
    """
    edges: Edges = set()
    after = successors(before)
    for event, targets in enumerate(after):
        if keys[event] != NO_KEY:
            edges.update((event, to, EdgeKind.SEQUENTIAL) for to in targets if keys[to] == NO_KEY)
            continue
        edges.update((event, to, EdgeKind.SEQUENTIAL) for to in targets if keys[to] != NO_KEY)
        edges.update((event, to, EdgeKind.CONTROL) for to in _next_controls(keys, after, targets) if to != event)
    return edges


def _next_controls(keys: list[int], after: list[list[int]], targets: list[int]) -> set[int]:
    """The control nodes that paths reach first."""
    seen: set[int] = set()
    stack = list(targets)
    while stack:
        event = stack.pop()
        if event not in seen:
            seen.add(event)
            if keys[event] != NO_KEY:
                stack += after[event]
    return {event for event in seen if keys[event] == NO_KEY}


def data_edges(keys: list[int], reads: list[bool], definitions: list[int], before: list[list[int]]) -> Edges:
    """DATA edges from each definition of a variable to the readings that it reaches.

    Reaching definitions as in the compilers literature: a full definition ends those of the same variable. Sets of
    definitions are the bits of integers, of which variables that are never read, or never defined, need none.

    Args:
        keys: Variable of each event; ``NO_KEY`` for control nodes.
        reads: Whether each event reads its variable.
        definitions: Whether it defines its variable, and whether in full.
        before: Events that each may directly follow.
    """
    read = {key for key, is_read in zip(keys, reads, strict=True) if is_read}
    bits: list[int] = []
    of_key: dict[int, int] = {}
    generated: dict[int, int] = {}
    for event, definition in enumerate(definitions):
        if definition != NO_DEFINITION and keys[event] in read:
            generated[event] = 1 << len(bits)
            bits.append(event)
            of_key[keys[event]] = of_key.get(keys[event], 0) | generated[event]
    if not bits:
        return set()
    killed = {event: of_key[keys[event]] for event in generated if definitions[event] == FULL_DEFINITION}
    reaching = _reaching(before, generated, killed)
    edges: Edges = set()
    for event, is_read in enumerate(reads):
        mask = of_key.get(keys[event], 0) if is_read else 0
        if mask:
            found = _union(reaching, before[event]) & mask
            edges.update((source, event, EdgeKind.DATA) for source in _members(found, bits) if source != event)
    return edges


def _reaching(before: list[list[int]], generated: dict[int, int], killed: dict[int, int]) -> list[int]:
    """The definitions that hold after each event: repeated in order of the events until nothing changes."""
    reaching = [0] * len(before)
    has_loops = any(source >= event for event, sources in enumerate(before) for source in sources)
    changed = True
    while changed:
        changed = False
        for event, sources in enumerate(before):
            found = _union(reaching, sources)
            if event in generated:
                found = found & ~killed.get(event, 0) | generated[event]
            if found != reaching[event]:
                reaching[event] = found
                changed = has_loops
    return reaching


def _union(reaching: list[int], events: list[int]) -> int:
    found = 0
    for event in events:
        found |= reaching[event]
    return found


def _members(found: int, bits: list[int]) -> list[int]:
    """The definitions in a set: of 0b101 the first and the third."""
    members = []
    while found:
        lowest = found & -found
        members.append(bits[lowest.bit_length() - 1])
        found ^= lowest
    return members
