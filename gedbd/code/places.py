"""Events of what can be assigned to: variables, fields and elements of arrays."""

from typing import TYPE_CHECKING, NamedTuple

from gedbd.code.builder import Builder
from gedbd.code.events import NO_DEFINITION
from gedbd.code.node_types import NodeType
from gedbd.code.roles import Role
from gedbd.code.scopes import Variable, is_type_name

if TYPE_CHECKING:
    from tree_sitter import Node


class Place(NamedTuple):
    """A variable that an expression names, before its own event: its name's node, and what it is a field of."""

    node: "Node"
    variable: Variable
    owners: list[int]


def unwrap(node: "Node") -> "Node":
    """An expression without parentheses and casts around it."""
    while node.type in ("parenthesized_expression", "cast_expression"):
        inner = node.child_by_field_name("value") if node.type == "cast_expression" else first_part(node)
        if inner is None:
            break
        node = inner
    return node


def first_part(node: "Node") -> "Node | None":
    """The first child of a tree node that is neither a comment nor a token."""
    return next((child for child in node.named_children if not child.type.endswith("comment")), None)


def find_place(b: Builder, node: "Node") -> Place | None:
    """Add the events before the last name of ``a``, ``o.f`` or ``this.f``; None for names of types."""
    if node.type == "identifier":
        variable = b.resolve(node)
        return Place(node, variable, []) if variable else None
    base, names = _chain(node)
    if base.type in ("this", "super"):
        return _fields(b, names, None, []) if names else None
    if base.type != "identifier":
        owners = b.expression(base, Role.FIELD_READ_TARGET)
        return _fields(b, names, b.scopes.unique(), owners)
    skipped = _num_type_names(b, base, names)
    if skipped == len(names) + 1:
        return None
    if skipped:
        owner = ".".join(b.text(name) for name in [base, *names][:skipped])
        return _fields(b, names[skipped - 1 :], owner, [])
    return _fields(b, names, b.resolve(base), b.identifier(base, Role.FIELD_READ_TARGET))


def _chain(node: "Node") -> "tuple[Node, list[Node]]":
    """The base of ``base.a.b.c``, and the nodes of a, b and c."""
    names: list[Node] = []
    while node.type == "field_access":
        name = node.child_by_field_name("field")
        target = node.child_by_field_name("object")
        if name is None or target is None:
            break
        if name.type == "this":
            node = name
            break
        names.append(name)
        middle = node.child(2)
        node = middle if middle is not None and middle.type == "super" else unwrap(target)
    return node, names[::-1]


def _num_type_names(b: Builder, base: "Node", names: "list[Node]") -> int:
    """How many names of a chain, from its beginning, name a package or type: 3 of ``java.util.Locale.ROOT``."""
    if b.scopes.find(b.text(base)) is not None:
        return 0
    chain = [b.text(name) for name in (base, *names)]
    return max((index + 1 for index, name in enumerate(chain) if is_type_name(name)), default=0)


def _fields(b: Builder, names: "list[Node]", owner: Variable | str | None, owners: list[int]) -> Place:
    """Add the fields of a chain except the last one.

    Args:
        b: The builder.
        names: Nodes of the fields' names.
        owner: Whose field the first is: a variable's, a type's by its name, or the present object's.
        owners: Events that its value comes from.
    """
    *firsts, last = names
    for name in firsts:
        owner = _field(b, name, owner)
        event = b.occur(name, owner, Role.FIELD_READ_TARGET)
        b.events.flow(owners, event)
        owners = [event]
    return Place(last, _field(b, last, owner), owners)


def _field(b: Builder, name: "Node", owner: Variable | str | None) -> Variable:
    text = b.text(name)
    variable = b.scopes.field(owner.key if isinstance(owner, Variable) else owner, text)
    if text == "length" and isinstance(owner, Variable) and owner.is_array:
        return variable._replace(type=NodeType.INTEGER)
    return variable


def occur_at(b: Builder, place: Place, role: Role, reads: bool = True, definition: int = NO_DEFINITION) -> int:
    """Add the last event of a place."""
    event = b.occur(place.node, place.variable, role, reads, definition)
    b.events.flow(place.owners, event)
    return event


def visit_array(b: Builder, node: "Node", reads: bool = True, definition: int = NO_DEFINITION) -> tuple[int, list[int]]:
    """Add the events of ``a[i][j]``; returns the event of a, or -1 if it is none, and the value variables."""
    indices: list[Node | None] = []
    while node.type == "array_access":
        indices.append(node.child_by_field_name("index"))
        array = node.child_by_field_name("array")
        if array is None:
            break
        node = unwrap(array)
    target = -1
    if node.type in ("identifier", "field_access"):
        place = find_place(b, node)
        target = occur_at(b, place, Role.ARRAY_TARGET, reads, definition) if place else -1
        values = [target] if target >= 0 else []
    else:
        values = b.expression(node, Role.ARRAY_TARGET)
    for index in reversed(indices):
        values += b.expression(index, Role.ARRAY_EXPRESSION)
    return target, values
