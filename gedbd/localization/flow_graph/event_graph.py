"""The event graph of a method: what is evaluated directly after what."""

from collections.abc import Iterable

from gedbd.localization.flow_graph.semantic_graph import NO_ROLE, NodeType

NO_KEY = -1
NO_DEFINITION = 0
FULL_DEFINITION = 1
PARTIAL_DEFINITION = 2
# Of one kind in one method, where their number grows with the square of its length; Tomcat's have 600 or fewer.
MAX_EDGES = 200_000


class Events:
    """Occurrences of variables and control nodes in the order of evaluation, and the edges between them.

    Attributes:
        types: NodeType of each event.
        roles: Role of each variable; ``NO_ROLE`` for control nodes.
        starts: First byte of each event in the source.
        ends: Byte after the last one.
        keys: Number of the variable that occurs; ``NO_KEY`` for control nodes.
        reads: Whether the occurrence reads the variable.
        definitions: Whether it defines the variable: not, in full (earlier values are lost), or in part.
        before: Events that each event may directly follow.
        frontier: Events that the next event directly follows; never changed in place.
        values: Pairs of events: a value flows from the first into the second within one statement.
        entries: Numbers of events that a path begins at.
        convergences: Control nodes that exist only if a path reaches them.
        dropped: Events that are left out; paths lead through them.
        is_approximate: Whether edges were left out because there are more than ``MAX_EDGES``.
    """

    def __init__(self) -> None:
        self.types: list[int] = []
        self.roles: list[int] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.keys: list[int] = []
        self.reads: list[bool] = []
        self.definitions: list[int] = []
        self.before: list[list[int]] = []
        self.frontier: list[int] = []
        self.values: list[tuple[int, int]] = []
        self.entries: list[int] = [0]
        self.convergences: list[int] = []
        self.dropped: set[int] = set()
        self.is_approximate = False

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
        """Add a control node or, with ``role`` and ``key``, an occurrence of a variable; returns its number."""
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
        """Add a convergence at the last byte of a construct that ends before ``end``."""
        event = self.add(kind, end - 1, end)
        self.convergences.append(event)
        return event

    def link(self, event: int) -> None:
        """Let the frontier flow back to an event that exists."""
        self.before[event] = self.before[event] + self.frontier

    def flow(self, sources: Iterable[int], target: int) -> None:
        """Note that values flow from variables into another."""
        found = [(source, target) for source in sources]
        # Of many variables into one is common; of many into many, as the patterns of a switch, is not.
        if len(self.values) + len(found) > len(self) + MAX_EDGES:
            self.is_approximate = True
        else:
            self.values += found
