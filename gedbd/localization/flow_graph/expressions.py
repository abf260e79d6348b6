"""Flow graph events of expressions. Each visitor returns the variables from which the expression's value flows."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from gedbd.localization.flow_graph.builder import Builder, Variable, anonymous_class, is_type_name, lambda_expression
from gedbd.localization.flow_graph.event_graph import FULL_DEFINITION, NO_DEFINITION, PARTIAL_DEFINITION
from gedbd.localization.flow_graph.node_types import NodeType, Role
from gedbd.localization.flow_graph.statements import pattern, switch_value

if TYPE_CHECKING:
    from tree_sitter import Node


_RELATION = (Role.RELATION_OPERATOR_LEFT, Role.RELATION_OPERATOR_RIGHT)
_BIT = (Role.BIT_OPERATOR_LEFT, Role.BIT_OPERATOR_RIGHT)
_COMPARE = (Role.COMPARE_OPERATOR_LEFT, Role.COMPARE_OPERATOR_RIGHT)
_MATH = (Role.MATH_OPERATOR_LEFT, Role.MATH_OPERATOR_RIGHT)
_OPERATORS = {
    **dict.fromkeys(("&&", "||"), _RELATION),
    **dict.fromkeys(("&", "|", "^", "<<", ">>", ">>>"), _BIT),
    **dict.fromkeys(("==", "!=", "<", ">", "<=", ">="), _COMPARE),
    **dict.fromkeys(("+", "-", "*", "/", "%"), _MATH),
}


def _annotation(b: Builder, node: "Node", role: Role) -> list[int]:
    for argument in node.named_children:
        if argument.type == "annotation_argument_list":
            for child in argument.named_children:
                value = child.child_by_field_name("value") if child.type == "element_value_pair" else child
                b.expression(value, Role.ANNOTATION_VALUE)
    return []


def _array_creation(b: Builder, node: "Node", role: Role) -> list[int]:
    """``new int[n] {x, y}``; as arguments of ``new``, sizes contribute to the value: n, x and y."""
    values: list[int] = []
    for child in node.named_children:
        if child.type == "dimensions_expr":
            values += b.expressions(child, Role.ARRAY_EXPRESSION)
    return values + b.expression(node.child_by_field_name("value"), role)


def _assignment(b: Builder, node: "Node", role: Role) -> list[int]:
    left = node.child_by_field_name("left")
    right = node.child_by_field_name("right")
    operator = node.child_by_field_name("operator")
    if left is None:
        return []
    left = unwrap(left)
    reads = operator is not None and operator.type != "="
    if left.type == "array_access":
        target, _ = visit_array(b, left, PARTIAL_DEFINITION)
        values = b.expression(right, Role.ASSIGNMENT)
        if target < 0:
            return values
        b.events.flow(values, target)
        return [target]
    reference = find_reference(b, left) if left.type in ("identifier", "field_access") else None
    values = b.expression(right, Role.ASSIGNMENT)
    if reference is None:
        return values
    event = occur_at(b, reference, Role.ASSIGNED, reads, FULL_DEFINITION)
    b.events.flow(values, event)
    return [event]


def _binary(b: Builder, node: "Node", role: Role) -> list[int]:
    """Adds left-nested operators such as ``((a + b) + c) + d`` iteratively."""
    parents = []
    while node.type == "binary_expression":
        parents.append(node)
        left = node.child_by_field_name("left")
        if left is None:
            break
        node = left
    values = b.expression(node, _operand_roles(parents[-1])[0])
    for parent in reversed(parents):
        values += b.expression(parent.child_by_field_name("right"), _operand_roles(parent)[1])
    return values


def _conditional(b: Builder, node: "Node", role: Role) -> list[int]:
    condition = node.child_by_field_name("condition")
    then = node.child_by_field_name("consequence")
    alternative = node.child_by_field_name("alternative")
    b.expression(condition, Role.CONDITIONAL_CONDITION)
    if then is None or alternative is None:
        return []
    marks = {child.type: child for child in node.children if child.type in ("?", ":")}
    question = marks["?"].start_byte
    colon = marks[":"].start_byte
    choice = b.events.add(NodeType.CONDITIONAL_CONDITION, question, question + 1)
    b.events.add(NodeType.CONDITIONAL_THEN, then.start_byte, then.start_byte + 1)
    values = b.expression(then, Role.CONDITIONAL_THEN)
    end = b.events.frontier
    b.events.frontier = [choice]
    b.events.add(NodeType.CONDITIONAL_ELSE, colon, colon + 1)
    values += b.expression(alternative, Role.CONDITIONAL_ELSE)
    b.events.frontier = end + b.events.frontier
    b.events.convergence(NodeType.CONDITIONAL_CONVERGENCE, node.end_byte)
    return values


def _creation(b: Builder, node: "Node", role: Role) -> list[int]:
    """``new T(a) { ... }`` or ``o.new T(a)``, where o is an invocation target."""
    values: list[int] = []
    for child in node.named_children:
        if child.type == "argument_list":
            values += b.expressions(child, Role.CONSTRUCTOR_ARGUMENT)
        elif child.type == "class_body":
            anonymous_class(b, child)
        else:
            values += b.expression(child, Role.INVOCATION_TARGET)
    return values


def _field_access(b: Builder, node: "Node", role: Role) -> list[int]:
    reference = find_reference(b, node)
    return [occur_at(b, reference, role)] if reference else []


def _inner(b: Builder, node: "Node", role: Role) -> list[int]:
    inner = unwrap(node)
    return [] if inner is node or inner == node else b.expression(inner, role)


def _instanceof(b: Builder, node: "Node", role: Role) -> list[int]:
    values = b.expression(node.child_by_field_name("left"), Role.INSTANCEOF_OPERATOR_LEFT)
    record = node.child_by_field_name("pattern")
    if record is not None:
        pattern(b, record, values, Role.INSTANCEOF_OPERATOR_RIGHT)
    else:
        name, right = node.child_by_field_name("name"), node.child_by_field_name("right")
        b.define(name, right, Role.INSTANCEOF_OPERATOR_RIGHT, values)
    return values


def _invocation(b: Builder, node: "Node", role: Role) -> list[int]:
    """Adds a chain of calls such as ``a.b(x).c(y)`` iteratively."""
    calls = []
    target: Node | None = node
    while target is not None and target.type == "method_invocation":
        calls.append(target)
        node = target
        target = target.child_by_field_name("object")
    is_super = any(child.type == "super" for child in node.children)
    values = [] if is_super else b.expression(target, Role.INVOCATION_TARGET)
    for call in reversed(calls):
        values += b.expressions(call.child_by_field_name("arguments"), Role.INVOCATION_ARGUMENT)
    return values


def _update(b: Builder, node: "Node", role: Role) -> list[int]:
    """``x++``, ``--x`` and the like."""
    operand = first_part(node)
    if operand is None:
        return []
    operand = unwrap(operand)
    if operand.type == "array_access":
        return visit_array(b, operand, PARTIAL_DEFINITION)[1]
    if operand.type not in ("identifier", "field_access"):
        return b.expression(operand, Role.ASSIGN_UNARY)
    reference = find_reference(b, operand)
    return [occur_at(b, reference, Role.ASSIGN_UNARY, True, FULL_DEFINITION)] if reference else []


EXPRESSIONS: "dict[str, Callable[[Builder, Node, Role], list[int]]]" = {
    "ERROR": lambda b, node, role: b.unknown(node),
    "annotation": _annotation,
    "array_access": lambda b, node, role: visit_array(b, node)[1],
    "array_creation_expression": _array_creation,
    "array_initializer": lambda b, node, role: b.expressions(node, Role.ARRAY_EXPRESSION),
    "assignment_expression": _assignment,
    "binary_expression": _binary,
    "cast_expression": _inner,
    "element_value_array_initializer": lambda b, node, role: b.expressions(node, Role.ARRAY_EXPRESSION),
    "field_access": _field_access,
    "identifier": Builder.identifier,
    "instanceof_expression": _instanceof,
    "lambda_expression": lambda_expression,
    "method_invocation": _invocation,
    "method_reference": lambda b, node, role: b.expression(first_part(node), Role.INVOCATION_TARGET),
    "object_creation_expression": _creation,
    "parenthesized_expression": _inner,
    "switch_expression": switch_value,
    "ternary_expression": _conditional,
    "unary_expression": lambda b, node, role: b.expression(node.child_by_field_name("operand"), Role.OTHER_UNARY),
    "update_expression": _update,
}


def _operand_roles(node: "Node") -> tuple[Role, Role]:
    operator = node.child_by_field_name("operator")
    return _OPERATORS.get(operator.type if operator else "", (Role.UNKNOWN, Role.UNKNOWN))


class Reference(NamedTuple):
    """A named variable whose event is still to be added: the node of its name, and the events of its owner."""

    node: "Node"
    variable: Variable
    owners: list[int]


def unwrap(node: "Node") -> "Node":
    """Removes parentheses and casts around an expression."""
    while node.type in ("parenthesized_expression", "cast_expression"):
        inner = node.child_by_field_name("value") if node.type == "cast_expression" else first_part(node)
        if inner is None:
            break
        node = inner
    return node


def first_part(node: "Node") -> "Node | None":
    """The first named child that is not a comment."""
    return next((child for child in node.named_children if not child.type.endswith("comment")), None)


def find_reference(b: Builder, node: "Node") -> Reference | None:
    """Adds the events before the last name of ``a``, ``o.f`` or ``this.f``; None for names of types."""
    if node.type == "identifier":
        variable = b.resolve(node)
        return Reference(node, variable, []) if variable else None
    base, names = _chain(node)
    if base.type in ("this", "super"):
        return _fields(b, names, None, []) if names else None
    if base.type != "identifier":
        owners = b.expression(base, Role.FIELD_READ_TARGET)
        return _fields(b, names, b.scopes.new(), owners)
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
    """Number of leading names of a package or type: 3 of ``java.util.Locale.ROOT``."""
    if b.scopes.find(b.text(base)) is not None:
        return 0
    chain = [b.text(name) for name in (base, *names)]
    return max((index + 1 for index, name in enumerate(chain) if is_type_name(name)), default=0)


def _fields(b: Builder, names: "list[Node]", owner: Variable | str | None, owners: list[int]) -> Reference:
    """Adds the fields of a chain except the last one.

    The first is a field of ``owner``: a variable, a type name, or ``this`` (None), with the events ``owners``.
    """
    *outer, last = names
    for name in outer:
        owner = _field(b, name, owner)
        event = b.occur(name, owner, Role.FIELD_READ_TARGET)
        b.events.flow(owners, event)
        owners = [event]
    return Reference(last, _field(b, last, owner), owners)


def _field(b: Builder, name: "Node", owner: Variable | str | None) -> Variable:
    text = b.text(name)
    variable = b.scopes.field(owner.key if isinstance(owner, Variable) else owner, text)
    if text == "length" and isinstance(owner, Variable) and owner.is_array:
        return variable._replace(type=NodeType.INTEGER)
    return variable


def occur_at(b: Builder, reference: Reference, role: Role, reads: bool = True, definition: int = NO_DEFINITION) -> int:
    """Adds the event of a reference."""
    event = b.occur(reference.node, reference.variable, role, reads, definition)
    b.events.flow(reference.owners, event)
    return event


def visit_array(b: Builder, node: "Node", definition: int = NO_DEFINITION) -> tuple[int, list[int]]:
    """Adds the events of ``a[i][j]``; returns the event of a, or -1, and the value variables.

    An assignment to an element also reads the array.
    """
    indices: list[Node | None] = []
    while node.type == "array_access":
        indices.append(node.child_by_field_name("index"))
        array = node.child_by_field_name("array")
        if array is None:
            break
        node = unwrap(array)
    target = -1
    if node.type in ("identifier", "field_access"):
        reference = find_reference(b, node)
        target = occur_at(b, reference, Role.ARRAY_TARGET, True, definition) if reference else -1
        values = [target] if target >= 0 else []
    else:
        values = b.expression(node, Role.ARRAY_TARGET)
    for index in reversed(indices):
        values += b.expression(index, Role.ARRAY_EXPRESSION)
    return target, values
