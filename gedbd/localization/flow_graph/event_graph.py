"""The event graph of a method, that is the order of evaluation, and the edges derived from it."""

import re
from bisect import bisect_left
from collections.abc import Iterable

from gedbd.localization.flow_graph.node_types import NO_ROLE, EdgeKind, NodeType

NO_KEY = -1
NO_DEFINITION = 0
FULL_DEFINITION = 1
PARTIAL_DEFINITION = 2
# Per kind and method: their number can grow with the square of its length. Methods of Tomcat have 600 or fewer.
MAX_EDGES = 200_000
Edges = set[tuple[int, int, int]]
MAX_BITS = 400_000_000
"""Events times definitions: 50 MB of sets; a method of 40,000 events with 10,000 definitions has as many."""


class Events:
    """Occurrences of variables and control nodes in the order of evaluation, and the edges between them."""

    def __init__(self) -> None:
        self.types: list[int] = []  # ``NodeType`` of each event
        self.roles: list[int] = []  # role of each variable; ``NO_ROLE`` for control nodes
        self.starts: list[int] = []  # first byte of each event in the source
        self.ends: list[int] = []  # byte after the last one
        self.keys: list[int] = []  # number of the variable that occurs; ``NO_KEY`` for control nodes
        self.reads: list[bool] = []  # whether the occurrence reads the variable
        # whether it defines the variable: not, in full (earlier values are lost), or in part
        self.definitions: list[int] = []
        self.before: list[list[int]] = []  # events that each event may directly follow
        self.frontier: list[int] = []  # events that the next event directly follows; never changed in place
        # pairs of events: a value flows from the first into the second within one statement
        self.values: list[tuple[int, int]] = []
        self.entries: list[int] = [0]  # numbers of events at which a path begins
        self.convergences: list[int] = []  # control nodes that exist only if a path reaches them
        self.dropped: set[int] = set()  # events that are left out; paths lead through them
        self.is_approximate = False  # whether edges were left out because there are more than ``MAX_EDGES``

    def __len__(self) -> int:
        return len(self.types)

    def add(
        self,
        kind: NodeType,
        start: int,
        end: int,
        role: int = NO_ROLE,
        key: int = NO_KEY,
        reads: bool = False,
        definition: int = NO_DEFINITION,
    ) -> int:
        """Adds a control node or, with ``role`` and ``key``, an occurrence of a variable; returns its number."""
        event = len(self.types)
        self.types.append(kind)
        self.roles.append(role)
        self.starts.append(start)
        self.ends.append(end)
        self.keys.append(key)
        self.reads.append(reads)
        self.definitions.append(definition)
        self.before.append(self.frontier)
        self.frontier = [event]
        return event

    def convergence(self, kind: NodeType, end: int) -> int:
        """Adds a convergence at the last byte of a construct that ends before ``end``."""
        event = self.add(kind, end - 1, end)
        self.convergences.append(event)
        return event

    def link(self, event: int) -> None:
        """Adds edges from the frontier back to an existing event."""
        self.before[event] = self.before[event] + self.frontier

    def flow(self, sources: Iterable[int], target: int) -> None:
        """Records that values flow from variables into another."""
        pairs = [(source, target) for source in sources]
        # Flow from many variables into one is common; from many into many, as in the patterns of a switch, it is not.
        if len(self.values) + len(pairs) > len(self) + MAX_EDGES:
            self.is_approximate = True
        else:
            self.values += pairs


def drop_events(events: Events) -> list[list[int]]:
    """Leaves out convergences that no path from a beginning reaches, and other dropped events; paths lead through them.

    A beginning is the first event, that of a method, or the one after a lambda or a nested class: in ``try { return
    a; } finally { b(); }`` no path reaches the TRY_CONVERGENCE, but FINALLY and b stay, as they are code. Returns the
    distinct events that each remaining event may directly follow, and none for dropped events.
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
    """Replaces the dropped events among ``sources`` by the events before them."""
    if dropped.isdisjoint(sources):
        return list(dict.fromkeys(sources))
    remaining: dict[int, None] = {}
    seen = set()
    stack = list(sources)
    while stack:
        source = stack.pop()
        if source not in dropped:
            remaining[source] = None
        elif source not in seen:
            seen.add(source)
            stack += before[source]
    return list(remaining)


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
    """Inverts ``before``: the events that may directly follow each event."""
    after: list[list[int]] = [[] for _ in before]
    for event, sources in enumerate(before):
        for source in sources:
            after[source].append(event)
    return after


def flow_edges(keys: list[int], before: list[list[int]]) -> Edges:
    """CONTROL and SEQUENTIAL edges; for the arguments see ``data_edges``."""
    edges: Edges = set()
    after = successors(before)
    ends = _chain_ends(keys, after)
    for event, targets in enumerate(after):
        if keys[event] != NO_KEY:
            edges.update((event, to, EdgeKind.SEQUENTIAL) for to in targets if keys[to] == NO_KEY)
            continue
        edges.update((event, to, EdgeKind.SEQUENTIAL) for to in targets if keys[to] != NO_KEY)
        edges.update((event, to, EdgeKind.CONTROL) for to in _next_controls(keys, after, ends, targets) if to != event)
    return edges


def _chain_ends(keys: list[int], after: list[list[int]]) -> list[int]:
    """The first event on the path from each, itself included, that is a control node or has not exactly one successor.

    For the variables 0 -> 1 -> 2 and the control node 3 after them, it is 3 for each.
    """
    ends = list(range(len(after)))
    for event in reversed(range(len(after))):
        # Edges that lead back are not followed, so that there is no cycle.
        if keys[event] != NO_KEY and len(after[event]) == 1 and after[event][0] > event:
            ends[event] = ends[after[event][0]]
    return ends


def _next_controls(keys: list[int], after: list[list[int]], ends: list[int], targets: list[int]) -> set[int]:
    """The control nodes that paths reach first."""
    seen: set[int] = set()
    stack = list(targets)
    while stack:
        event = ends[stack.pop()]
        if event not in seen:
            seen.add(event)
            if keys[event] != NO_KEY:
                stack += after[event]
    return {event for event in seen if keys[event] == NO_KEY}


def data_edges(
    keys: list[int], reads: list[bool], definitions: list[int], before: list[list[int]]
) -> tuple[Edges, bool]:
    """DATA edges from each definition of a variable to the readings that it reaches, and whether they are approximate.

    Reaching definitions as in the compilers literature: a full definition ends those of the same variable. Sets of
    definitions are the bits of integers, those of one variable side by side; a variable that is never read, or never
    defined, needs none. The sets and the edges of a method with thousands of branches grow with the square of its
    length. Beyond ``MAX_BITS`` or ``MAX_EDGES``, each reading has one edge, from the last definition before it in the
    order of the events: without branches and partial definitions that is the one that reaches it.

    ``keys`` are the variables of the events, ``NO_KEY`` for control nodes; ``reads`` and ``definitions`` say whether an
    event reads and defines its variable, as in ``Events``; ``before`` holds the events that each may directly follow.
    """
    read = {key for key, is_read in zip(keys, reads, strict=True) if is_read}
    defining: dict[int, list[int]] = {}
    for event, definition in enumerate(definitions):
        if definition != NO_DEFINITION and keys[event] in read:
            defining.setdefault(keys[event], []).append(event)
    readings = [event for event, is_read in enumerate(reads) if is_read and keys[event] in defining]
    edges = _reaching_edges(keys, definitions, before, defining, readings)
    if edges is not None:
        return edges, False
    last: Edges = set()
    for event in readings:
        events = defining[keys[event]]
        position = bisect_left(events, event)
        if position:
            last.add((events[position - 1], event, EdgeKind.DATA))
    return last, True


def _reaching_edges(
    keys: list[int],
    definitions: list[int],
    before: list[list[int]],
    defining: dict[int, list[int]],
    readings: list[int],
) -> Edges | None:
    """An edge from each definition that reaches a reading; None if the limits of ``data_edges`` are exceeded.

    ``defining`` holds the events that define each variable, ``readings`` those that read one of them.
    """
    if len(before) * sum(map(len, defining.values())) > MAX_BITS:
        return None
    first_bit: dict[int, int] = {}
    generated: dict[int, int] = {}
    killed: dict[int, int] = {}
    for key, events in defining.items():
        first_bit[key] = len(generated)
        mask = ((1 << len(events)) - 1) << len(generated)
        for event in events:
            generated[event] = 1 << len(generated)
            killed[event] = mask if definitions[event] == FULL_DEFINITION else 0
    reaching = _reaching(before, generated, killed)
    edges: Edges = set()
    for event in readings:
        bits = _union(reaching, before[event]) >> first_bit[keys[event]]
        sources = _members(bits, defining[keys[event]])
        edges.update((source, event, EdgeKind.DATA) for source in sources if source != event)
        if len(edges) > MAX_EDGES:
            return None
    return edges


def _reaching(before: list[list[int]], generated: dict[int, int], killed: dict[int, int]) -> list[int]:
    """The definitions that hold after each event, computed in order of the events until nothing changes."""
    reaching = [0] * len(before)
    has_loops = any(source >= event for event, sources in enumerate(before) for source in sources)
    changed = True
    while changed:
        changed = False
        for event, sources in enumerate(before):
            definitions = _union(reaching, sources)
            if event in generated:
                definitions = definitions & ~killed[event] | generated[event]
            if definitions != reaching[event]:
                reaching[event] = definitions
                changed = has_loops
    return reaching


def _union(reaching: list[int], events: list[int]) -> int:
    union = 0
    for event in events:
        union |= reaching[event]
    return union


def _members(bits: int, definitions: list[int]) -> list[int]:
    """The definitions in a set: of 0b101 the first and the third. Higher bits belong to other variables."""
    digits = bin(bits & ((1 << len(definitions)) - 1))[:1:-1]
    return [definitions[match.start()] for match in re.finditer("1", digits)]
