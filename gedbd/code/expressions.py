"""Events of expressions. Each visitor returns the value variables: those that the expression's value comes from."""

from typing import TYPE_CHECKING

from gedbd.code.bodies import anonymous_class, lambda_expression
from gedbd.code.builder import Builder
from gedbd.code.events import FULL_DEFINITION, PARTIAL_DEFINITION
from gedbd.code.java_types import declared_type
from gedbd.code.node_types import NodeType
from gedbd.code.places import find_place, first_part, occur_at, unwrap, visit_array
from gedbd.code.roles import Role
from gedbd.code.switches import pattern, switch_value

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


def _inner(b: Builder, node: "Node", role: Role) -> list[int]:
    inner = unwrap(node)
    return [] if inner is node or inner == node else b.expression(inner, role)


def _identifier(b: Builder, node: "Node", role: Role) -> list[int]:
    return b.identifier(node, role)


def _field_access(b: Builder, node: "Node", role: Role) -> list[int]:
    place = find_place(b, node)
    return [occur_at(b, place, role)] if place else []


def _array_access(b: Builder, node: "Node", role: Role) -> list[int]:
    return visit_array(b, node)[1]


def _assignment(b: Builder, node: "Node", role: Role) -> list[int]:
    left = node.child_by_field_name("left")
    right = node.child_by_field_name("right")
    operator = node.child_by_field_name("operator")
    if left is None:
        return []
    left = unwrap(left)
    reads = operator is not None and operator.type != "="
    if left.type == "array_access":
        target, _ = visit_array(b, left, reads, PARTIAL_DEFINITION)
        values = b.expression(right, Role.ASSIGNMENT)
        if target < 0:
            return values
        b.events.flow(values, target)
        return [target]
    place = find_place(b, left) if left.type in ("identifier", "field_access") else None
    values = b.expression(right, Role.ASSIGNMENT)
    if place is None:
        return values
    event = occur_at(b, place, Role.ASSIGNED, reads, FULL_DEFINITION)
    b.events.flow(values, event)
    return [event]


def _update(b: Builder, node: "Node", role: Role) -> list[int]:
    """``x++`` and kin."""
    operand = first_part(node)
    if operand is None:
        return []
    operand = unwrap(operand)
    if operand.type == "array_access":
        return visit_array(b, operand, True, PARTIAL_DEFINITION)[1]
    if operand.type not in ("identifier", "field_access"):
        return b.expression(operand, Role.ASSIGN_UNARY)
    place = find_place(b, operand)
    return [occur_at(b, place, Role.ASSIGN_UNARY, True, FULL_DEFINITION)] if place else []


def _unary(b: Builder, node: "Node", role: Role) -> list[int]:
    return b.expression(node.child_by_field_name("operand"), Role.OTHER_UNARY)


def _binary(b: Builder, node: "Node", role: Role) -> list[int]:
    """A chain of operators that is nested to the left, as ``((a + b) + c) + d``, in one loop."""
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


def _operand_roles(node: "Node") -> tuple[Role, Role]:
    operator = node.child_by_field_name("operator")
    return _OPERATORS.get(operator.type if operator else "", (Role.UNKNOWN, Role.UNKNOWN))


def _instanceof(b: Builder, node: "Node", role: Role) -> list[int]:
    values = b.expression(node.child_by_field_name("left"), Role.INSTANCEOF_OPERATOR_LEFT)
    name = node.child_by_field_name("name")
    right = node.child_by_field_name("right")
    record = node.child_by_field_name("pattern")
    if name is not None and right is not None:
        kind, is_array = declared_type(right)
        event = b.declare(name, kind, is_array, Role.INSTANCEOF_OPERATOR_RIGHT, FULL_DEFINITION)
        b.events.flow(values, event)
    elif record is not None:
        pattern(b, record, values, Role.INSTANCEOF_OPERATOR_RIGHT)
    return values


def _invocation(b: Builder, node: "Node", role: Role) -> list[int]:
    """A chain of calls, as ``a.b(x).c(y)``, in one loop."""
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


def _method_reference(b: Builder, node: "Node", role: Role) -> list[int]:
    return b.expression(first_part(node), Role.INVOCATION_TARGET)


def _creation(b: Builder, node: "Node", role: Role) -> list[int]:
    """``new T(a) { ... }`` or ``o.new T(a)``."""
    values: list[int] = []
    for child in node.named_children:
        if child.type == "argument_list":
            values += b.expressions(child, Role.CONSTRUCTOR_ARGUMENT)
        elif child.type == "class_body":
            anonymous_class(b, child)
        else:
            values += b.expression(child, Role.INVOCATION_TARGET)
    return values


def _array_creation(b: Builder, node: "Node", role: Role) -> list[int]:
    values: list[int] = []
    for child in node.named_children:
        if child.type == "dimensions_expr":
            values += b.expressions(child, Role.ARRAY_EXPRESSION)
    return values + b.expression(node.child_by_field_name("value"), role)


def _elements(b: Builder, node: "Node", role: Role) -> list[int]:
    return b.expressions(node, Role.ARRAY_EXPRESSION)


def _conditional(b: Builder, node: "Node", role: Role) -> list[int]:
    condition = node.child_by_field_name("condition")
    then = node.child_by_field_name("consequence")
    other = node.child_by_field_name("alternative")
    b.expression(condition, Role.CONDITIONAL_CONDITION)
    if then is None or other is None:
        return []
    marks = {child.type: child for child in node.children if child.type in ("?", ":")}
    question = marks["?"].start_byte
    colon = marks[":"].start_byte
    choice = b.events.control(NodeType.CONDITIONAL_CONDITION, question, question + 1)
    b.events.control(NodeType.CONDITIONAL_THEN, then.start_byte, then.start_byte + 1)
    values = b.expression(then, Role.CONDITIONAL_THEN)
    end = b.events.frontier
    b.events.frontier = [choice]
    b.events.control(NodeType.CONDITIONAL_ELSE, colon, colon + 1)
    values += b.expression(other, Role.CONDITIONAL_ELSE)
    b.events.frontier = end + b.events.frontier
    b.events.convergence(NodeType.CONDITIONAL_CONVERGENCE, node.end_byte)
    return values


def _error(b: Builder, node: "Node", role: Role) -> list[int]:
    return b.unknown(node)


def _annotation(b: Builder, node: "Node", role: Role) -> list[int]:
    for argument in node.named_children:
        if argument.type == "annotation_argument_list":
            for child in argument.named_children:
                value = child.child_by_field_name("value") if child.type == "element_value_pair" else child
                b.expression(value, Role.ANNOTATION_VALUE)
    return []


EXPRESSIONS = {
    "ERROR": _error,
    "annotation": _annotation,
    "array_access": _array_access,
    "array_creation_expression": _array_creation,
    "array_initializer": _elements,
    "assignment_expression": _assignment,
    "binary_expression": _binary,
    "cast_expression": _inner,
    "element_value_array_initializer": _elements,
    "field_access": _field_access,
    "identifier": _identifier,
    "instanceof_expression": _instanceof,
    "lambda_expression": lambda_expression,
    "method_invocation": _invocation,
    "method_reference": _method_reference,
    "object_creation_expression": _creation,
    "parenthesized_expression": _inner,
    "switch_expression": switch_value,
    "ternary_expression": _conditional,
    "unary_expression": _unary,
    "update_expression": _update,
}
