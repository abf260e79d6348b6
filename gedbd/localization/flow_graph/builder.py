"""What the visitors of expressions, statements and bodies share while they build an event graph."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gedbd.localization.flow_graph.event_graph import FULL_DEFINITION, NO_DEFINITION, Events
from gedbd.localization.flow_graph.node_types import GraphRules, NodeType, Role, declared_type, has_dimensions

if TYPE_CHECKING:
    from tree_sitter import Node


MAX_DEPTH = 100  # code that is nested deeper is not understood; its names have the role UNKNOWN
# Fields of tree nodes whose identifiers name no variable, or one that code that does not parse cannot resolve.
_NOT_VARIABLES = {"field", "key", "name", "type"}


@dataclass
class Target:
    """Where ``break`` and ``continue`` of one statement lead."""

    labels: tuple[str, ...]
    is_plain: bool = False  # whether only a ``break`` with its label leads there
    is_loop: bool = False  # whether ``continue`` may lead there
    breaks: list[int] = field(default_factory=list)  # events that leave the statement
    continues: list[int] = field(default_factory=list)  # events that begin its next turn


@dataclass
class Body:
    """The body of a method or lambda."""

    last_return: int = -1  # first byte of the ``return`` that is its last statement; -1 if there is none
    exits: list[int] = field(default_factory=list)  # events that leave the body
    needs_exit: bool = False  # whether one of them is a ``return`` before the end or a ``throw``
    # for each enclosing ``try`` that catches, the events that throw in it
    catching: list[list[int]] = field(default_factory=list)
    targets: list[Target] = field(default_factory=list)
    labels: tuple[str, ...] = ()  # labels of the next statement
    # for each enclosing switch expression, events that leave it and variables of its value
    yields: list[tuple[list[int], list[int]]] = field(default_factory=list)


class Variable(NamedTuple):
    """A variable that occurs in a method: its number, declared type, and whether it is declared as an array."""

    key: int
    type: NodeType
    is_array: bool


class Builder:
    """Builds the event graph of one source text.

    Args:
        source: The text that the tree is of, UTF-8.
        expressions: For each kind of tree node, what adds an expression's events and returns its value variables.
        statements: For each kind of tree node, what adds a statement's events.
        rules: How the graph is made.
    """

    def __init__(
        self,
        source: bytes,
        expressions: "Mapping[str, Callable[[Builder, Node, Role], list[int]]]",
        statements: "Mapping[str, Callable[[Builder, Node], object]]",
        rules: GraphRules,
    ) -> None:
        self.source = source
        self.rules = rules
        self.events = Events()
        self.scopes = Scopes()
        self.body = Body()
        self._expressions = expressions
        self._statements = statements
        self._depth = 0

    def text(self, node: "Node") -> str:
        """The source of a tree node."""
        return self.source[node.start_byte : node.end_byte].decode(errors="replace")

    def expression(self, node: "Node | None", role: Role) -> list[int]:
        """Add an expression's events and return its value variables, in a list that the caller may change.

        ``role`` is that of the variable if the expression is nothing else.
        """
        visit = self._expressions.get(node.type) if node else None
        if visit is None or node is None:
            return []
        if self._depth >= MAX_DEPTH:
            return self.unknown(node)
        self._depth += 1
        values = visit(self, node, role)
        self._depth -= 1
        return values

    def statement(self, node: "Node | None") -> None:
        """Add a statement's events."""
        if node is None:
            return
        visit = self._statements.get(node.type)
        if visit is None:
            self.expression(node, Role.BLOCK_DEFAULT)
        elif self._depth >= MAX_DEPTH:
            self.unknown(node)
        else:
            self._depth += 1
            visit(self, node)
            self._depth -= 1

    def statements(self, node: "Node") -> None:
        """Add the statements that a tree node consists of."""
        for child in node.named_children:
            self.statement(child)

    def expressions(self, node: "Node | None", role: Role) -> list[int]:
        """Add the expressions that a tree node consists of."""
        values: list[int] = []
        for child in node.named_children if node else ():
            values += self.expression(child, role)
        return values

    def role_alone(self, statement: "Node", role: Role) -> Role:
        """The role of a variable that alone is the expression of a statement: ``role``, unless a rule gives another."""
        in_else = self.rules.else_expressions == "statements" and _is_in_else(statement)
        return Role.ELSE_EXPRESSION if in_else else role

    def unknown(self, node: "Node") -> list[int]:
        """Add every name in code that does not parse, or is nested too deeply, as a variable that is read."""
        values = []
        stack = [node]
        while stack:
            part = stack.pop()
            if part.type == "identifier":
                values += self.identifier(part, Role.UNKNOWN)
            stack += reversed(_parts(part))
        return values

    def identifier(self, node: "Node", role: Role) -> list[int]:
        """Add a variable that is read, unless the name is one of a type."""
        variable = self.resolve(node)
        if variable is None:
            return []
        return [self.occur(node, variable, role)]

    def resolve(self, node: "Node") -> Variable | None:
        """The variable that a bare name means; None if it is one of a type or missing from the source."""
        name = self.text(node)
        variable = self.scopes.find(name)
        if variable is None and name and not is_type_name(name):
            variable = self.scopes.field(None, name)
        return variable

    def declare(self, node: "Node", kind: NodeType, is_array: bool, role: Role, definition: int = NO_DEFINITION) -> int:
        """Add the declaration of a variable."""
        variable = self.scopes.declare(self.text(node), kind, is_array)
        return self.occur(node, variable, role, reads=False, definition=definition)

    def define(
        self,
        name: "Node | None",
        written: "Node | None",
        role: Role,
        values: Iterable[int] = (),
        declarator: "Node | None" = None,
        is_array: bool = False,
    ) -> None:
        """Add the declaration of a variable that has a value from the beginning; nothing where the code does not parse.

        Args:
            name: Tree of its name.
            written: Tree of its type.
            role: Its role.
            values: The variables that its value comes from.
            declarator: Where ``[]`` may follow the name.
            is_array: Whether it is an array whatever its type says.
        """
        if name is None or written is None:
            return
        kind, has_array_type = declared_type(written)
        has_brackets = declarator is not None and has_dimensions(declarator)
        event = self.declare(name, kind, is_array or has_array_type or has_brackets, role, FULL_DEFINITION)
        self.events.flow(values, event)

    def keyword(self, kind: NodeType, node: "Node", word: str) -> int:
        """Add the control node of a keyword of a statement; returns its number."""
        start = next((child.start_byte for child in node.children if child.type == word), node.start_byte)
        return self.events.add(kind, start, start + len(word))

    def occur(
        self, node: "Node", variable: Variable, role: Role, reads: bool = True, definition: int = NO_DEFINITION
    ) -> int:
        """Add an occurrence of a variable at a name."""
        return self.events.add(
            variable.type, node.start_byte, node.end_byte, int(role), variable.key, reads, definition
        )


def _is_in_else(statement: "Node") -> bool:
    """Whether a statement is directly in the braces behind ``else``, or directly behind it."""
    part, owner = statement, statement.parent
    if owner is not None and owner.type == "block":
        part, owner = owner, owner.parent
    return owner is not None and owner.type == "if_statement" and owner.child_by_field_name("alternative") == part


def _parts(node: "Node") -> "list[Node]":
    """The children of a tree node that may hold variables; with a cursor, as a child's number costs a search."""
    parts = []
    cursor = node.walk()
    has_more = cursor.goto_first_child()
    while has_more:
        if cursor.field_name not in _NOT_VARIABLES and cursor.node is not None:
            parts.append(cursor.node)
        has_more = cursor.goto_next_sibling()
    return parts


class Scopes:
    """Variables in view at a point of a method, and the fields that the method does not declare.

    A field is known by the variable that it belongs to: ``o.f`` and ``p.f`` are two variables, ``this.f`` and an
    undeclared ``f`` are one. Variables of patterns are in view until the end of the block around them.
    """

    def __init__(self) -> None:
        self._chain: list[dict[str, Variable]] = [{}]
        self._classes: list[dict[str, Variable]] = []
        self._fields: dict[tuple[int | str | None, str], Variable] = {}
        self._num_keys = 0

    def push(self) -> None:
        """Begin a block."""
        self._chain.append({})

    def pop(self) -> None:
        """End a block."""
        self._chain.pop()

    def push_class(self) -> None:
        """Begin the body of a nested class."""
        self.push()
        self._classes.append(self._chain[-1])

    def pop_class(self) -> None:
        """End the body of a nested class."""
        self.pop()
        self._classes.pop()

    def declare(self, name: str, kind: NodeType, is_array: bool = False) -> Variable:
        """A new variable, which hides others of its name."""
        variable = self.new(kind, is_array)
        self._chain[-1][name] = variable
        return variable

    def find(self, name: str) -> Variable | None:
        """The declared variable of a name."""
        for scope in reversed(self._chain):
            if name in scope:
                return scope[name]
        return None

    def field(self, owner: int | str | None, name: str) -> Variable:
        """The field of a variable, given by its number, of a type, given by its name, or of ``this`` (None)."""
        if owner is None and self._classes and name in self._classes[-1]:
            return self._classes[-1][name]
        known = self._fields.get((owner, name))
        if known is None:
            known = self.new()
            self._fields[owner, name] = known
        return known

    def new(self, kind: NodeType = NodeType.NULL, is_array: bool = False) -> Variable:
        """A variable without a name in view, such as the field of the result of a call."""
        self._num_keys += 1
        return Variable(self._num_keys, kind, is_array)


def is_type_name(name: str) -> bool:
    """Whether an undeclared name is one of a type: ``Foo``, but neither ``foo`` nor ``FOO``."""
    return name[:1].isupper() and any(letter.islower() for letter in name)
