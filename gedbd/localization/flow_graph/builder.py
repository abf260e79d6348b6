"""The builder of an event graph, and the events of methods, lambdas and nested classes."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from gedbd.localization.flow_graph.event_graph import FULL_DEFINITION, NO_DEFINITION, Events
from gedbd.localization.flow_graph.node_types import GraphRules, NodeType, Role, declared_type, has_dimensions

if TYPE_CHECKING:
    from tree_sitter import Node

MAX_DEPTH = 100  # code that is nested deeper is not analysed; its names have the role UNKNOWN
# Fields of tree nodes whose identifiers name no variable, or one that invalid code cannot resolve.
_NOT_VARIABLES = {"field", "key", "name", "type"}


@dataclass
class Target:
    """The targets of ``break`` and ``continue`` of one statement."""

    labels: tuple[str, ...]
    is_plain: bool = False  # whether only a ``break`` with its label leads there
    is_loop: bool = False  # whether ``continue`` may lead there
    breaks: list[int] = field(default_factory=list)  # events that leave the statement
    continues: list[int] = field(default_factory=list)  # events that begin its next iteration


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

    ``source`` is UTF-8. For each kind of tree node, ``expressions`` add the events of an expression and return its
    value variables, and ``statements`` add those of a statement.
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
        """Adds an expression's events and returns its value variables, in a list that the caller may change.

        ``role`` is that of the variable if the expression is only a variable.
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
        """Adds a statement's events."""
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
        """Adds the statements that a tree node consists of."""
        for child in node.named_children:
            self.statement(child)

    def expressions(self, node: "Node | None", role: Role) -> list[int]:
        """Adds the expressions that a tree node consists of."""
        values: list[int] = []
        for child in node.named_children if node else ():
            values += self.expression(child, role)
        return values

    def role_alone(self, statement: "Node", role: Role) -> Role:
        """The role of a variable that alone is the expression of a statement: ``role``, unless a rule gives another."""
        in_else = self.rules.else_expressions == "statements" and _is_in_else(statement)
        return Role.ELSE_EXPRESSION if in_else else role

    def unknown(self, node: "Node") -> list[int]:
        """Adds every name in code that does not parse, or is nested too deeply, as a variable that is read."""
        values = []
        stack = [node]
        while stack:
            part = stack.pop()
            if part.type == "identifier":
                values += self.identifier(part, Role.UNKNOWN)
            stack += reversed(_parts(part))
        return values

    def identifier(self, node: "Node", role: Role) -> list[int]:
        """Adds a variable that is read, unless the name is that of a type."""
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
        """Adds the declaration of a variable."""
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
        """Adds the declaration of a variable with an initial value; nothing where the code does not parse.

        ``written`` is the tree of its type, ``values`` are the variables that its value comes from, ``declarator`` is
        where ``[]`` may follow the name; with ``is_array`` it is an array whatever its type says.
        """
        if name is None or written is None:
            return
        kind, has_array_type = declared_type(written)
        has_brackets = declarator is not None and has_dimensions(declarator)
        event = self.declare(name, kind, is_array or has_array_type or has_brackets, role, FULL_DEFINITION)
        self.events.flow(values, event)

    def keyword(self, kind: NodeType, node: "Node", word: str) -> int:
        """Adds the control node of a keyword of a statement; returns its number."""
        start = next((child.start_byte for child in node.children if child.type == word), node.start_byte)
        return self.events.add(kind, start, start + len(word))

    def occur(
        self, node: "Node", variable: Variable, role: Role, reads: bool = True, definition: int = NO_DEFINITION
    ) -> int:
        """Adds an occurrence of a variable at a name."""
        return self.events.add(
            variable.type, node.start_byte, node.end_byte, int(role), variable.key, reads, definition
        )


def _is_in_else(statement: "Node") -> bool:
    """Whether a statement is directly in the braces after ``else``, or directly after it."""
    part, owner = statement, statement.parent
    if owner is not None and owner.type == "block":
        part, owner = owner, owner.parent
    return owner is not None and owner.type == "if_statement" and owner.child_by_field_name("alternative") == part


def _parts(node: "Node") -> "list[Node]":
    """The children of a tree node that may hold variables; with a cursor, as access by index is slow."""
    parts = []
    cursor = node.walk()
    has_more = cursor.goto_first_child()
    while has_more:
        if cursor.field_name not in _NOT_VARIABLES and cursor.node is not None:
            parts.append(cursor.node)
        has_more = cursor.goto_next_sibling()
    return parts


class Scopes:
    """Variables in scope at a point of a method, and the fields that the method does not declare.

    A field is identified by the variable that it belongs to: ``o.f`` and ``p.f`` are two variables, ``this.f`` and an
    undeclared ``f`` are one. Variables of patterns are in scope until the end of the block around them.
    """

    def __init__(self) -> None:
        self._chain: list[dict[str, Variable]] = [{}]
        self._classes: list[dict[str, Variable]] = []
        self._fields: dict[tuple[int | str | None, str], Variable] = {}
        self._num_keys = 0

    @contextmanager
    def block(self, is_class: bool = False) -> Iterator[None]:
        """A block, or the body of a nested class, which ends with the context."""
        scope: dict[str, Variable] = {}
        self._chain.append(scope)
        self._classes += [scope] * is_class
        yield
        self._chain.pop()
        if is_class:
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
        """A variable without a name in scope, such as the field of the result of a call."""
        self._num_keys += 1
        return Variable(self._num_keys, kind, is_array)


def is_type_name(name: str) -> bool:
    """Whether an undeclared name is that of a type: ``Foo``, but neither ``foo`` nor ``FOO``."""
    return name[:1].isupper() and any(letter.islower() for letter in name)


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
    """Adds the arguments of a declaration's annotations."""
    for modifiers in node.named_children[:1]:
        if modifiers.type == "modifiers":
            for child in modifiers.named_children:
                b.expression(child, Role.ANNOTATION_VALUE)


def method(b: Builder, node: "Node") -> None:
    """Adds a method or constructor: annotations, parameters, body."""
    outer = b.body
    b.body = Body()
    b.events.entries.append(len(b.events))
    with b.scopes.block():
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
    b.body = outer


def _statements(b: Builder, body: "Node") -> None:
    statements = [child for child in body.named_children if not child.type.endswith("comment")]
    if statements and statements[-1].type == "return_statement":
        b.body.last_return = statements[-1].start_byte
    for statement in statements:
        b.statement(statement)


def _parameters(b: Builder, node: "Node | None", role: Role) -> None:
    """Declares parameters; those of a lambda may be a single name."""
    parameters = node.named_children if node else []
    for parameter in [node] if node and node.type == "identifier" else parameters:
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
    """Adds a lambda; it has no value variables."""
    arrow = next((child for child in node.children if child.type == "->"), node)
    b.events.add(NodeType.LAMBDA_ENTRY, arrow.start_byte, arrow.start_byte + 2)
    outer = b.body
    b.body = Body()
    with b.scopes.block():
        _parameters(b, node.child_by_field_name("parameters"), Role.PARAMETER)
        body = node.child_by_field_name("body")
        if body is not None and body.type == "block":
            _statements(b, body)
        else:
            b.expression(body, Role.RETURN)
    b.events.frontier = b.events.frontier + b.body.exits
    b.body = outer
    b.events.entries.append(len(b.events))
    b.events.add(NodeType.LAMBDA_EXIT, node.end_byte - 1, node.end_byte)
    return []


def anonymous_class(b: Builder, body: "Node", components: "Node | None" = None) -> None:
    """Adds the body of an anonymous, local or member class; ``components`` are those of a record."""
    b.events.add(NodeType.NEW_CLASS_ENTRY, body.start_byte, body.start_byte + 1)
    with b.scopes.block(is_class=True):
        _parameters(b, components, Role.RECORD_COMPONENT)
        members(b, body)
    b.events.entries.append(len(b.events))
    b.events.add(NodeType.NEW_CLASS_EXIT, body.end_byte - 1, body.end_byte)


def local_class(b: Builder, node: "Node") -> None:
    """Adds the declaration of a class, record, enum or interface inside a method or a class."""
    annotations(b, node)
    body = node.child_by_field_name("body")
    if body is not None:
        anonymous_class(b, body, node.child_by_field_name("parameters"))


def members(b: Builder, body: "Node") -> None:
    """Adds the members of a class in their order; its fields are in scope in all of them.

    Initialisers have no EXIT, as the target of a ``throw`` in them is unknown.
    """
    outer = b.body
    b.body = Body()
    parts = member_nodes(body)
    declare_fields(b, parts)
    for child in parts:
        member(b, child)
    b.body = outer


def loose_members(b: Builder, parts: "list[Node]", depth: int = 0) -> None:
    """Adds members of a class, or classes of a file, that no method holds: without edges from one to the next.

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
            with b.scopes.block(is_class=True):
                _parameters(b, child.child_by_field_name("parameters"), Role.RECORD_COMPONENT)
                loose_members(b, member_nodes(body), depth + 1)
        else:
            b.unknown(child)


def member_nodes(body: "Node") -> "list[Node]":
    """The members of a class; those of an enum without the node that holds what follows its constants."""
    parts: list[Node] = []
    for child in body.named_children:
        parts += child.named_children if child.type == "enum_body_declarations" else [child]
    return parts


def declare_fields(b: Builder, parts: "list[Node]") -> None:
    """Declares the fields among the members of a class."""
    for child in parts:
        type_node = child.child_by_field_name("type")
        if child.type not in FIELDS or type_node is None:
            continue
        kind, is_array = declared_type(type_node)
        for declarator in child.children_by_field_name("declarator"):
            name = declarator.child_by_field_name("name")
            if name is not None:
                b.scopes.declare(b.text(name), kind, is_array or has_dimensions(declarator))


def member(b: Builder, node: "Node") -> None:
    """Adds one member of a class."""
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
