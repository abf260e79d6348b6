"""Flow graph events of statements, switches and patterns."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from gedbd.localization.flow_graph.builder import CLASSES, METHODS, Builder, Target, annotations, local_class, method
from gedbd.localization.flow_graph.event_graph import MAX_EDGES
from gedbd.localization.flow_graph.node_types import NodeType, Role, declared_type, has_dimensions

if TYPE_CHECKING:
    from tree_sitter import Node

_TARGETS = ("while_statement", "do_statement", "for_statement", "enhanced_for_statement", "switch_expression")


def _do(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    begin = b.keyword(NodeType.DO_CONVERGENCE_INSIDE, node, "do")
    b.statement(node.child_by_field_name("body"))
    b.events.frontier = b.events.frontier + target.continues
    b.expression(node.child_by_field_name("condition"), Role.DO_WHILE_EXPRESSION)
    choice = b.keyword(NodeType.DO_WHILE_CONDITION, node, "while")
    b.events.link(begin)
    _end_loop(b, [choice], NodeType.DO_CONVERGENCE_OUTSIDE, node.end_byte)


def _for(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    with b.scopes.block():
        for part in node.children_by_field_name("init"):
            b.statement(part)
        head = len(b.events)
        condition = node.child_by_field_name("condition")
        b.expression(condition, b.role_alone(node, Role.BLOCK_DEFAULT))
        choice = b.keyword(NodeType.FOR_CONDITION, node, "for")
        b.statement(node.child_by_field_name("body"))
        b.events.frontier = b.events.frontier + target.continues
        for part in node.children_by_field_name("update"):
            b.expression(part, Role.BLOCK_DEFAULT)
        b.events.link(head)
    _end_loop(b, [choice] if condition else [], NodeType.FOR_CONVERGENCE, node.end_byte)


def _for_each(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    annotations(b, node)
    values = b.expression(node.child_by_field_name("value"), Role.FOREACH_EXPRESSION)
    choice = b.keyword(NodeType.FOREACH_CONDITION, node, "for")
    with b.scopes.block():
        b.define(node.child_by_field_name("name"), node.child_by_field_name("type"), Role.ASSIGNED, values, node)
        b.statement(node.child_by_field_name("body"))
    b.events.frontier = b.events.frontier + target.continues
    b.events.link(choice)
    _end_loop(b, [choice], NodeType.FOREACH_CONVERGENCE, node.end_byte)


def _if(b: Builder, node: "Node") -> None:
    """Adds a chain of ``else if`` iteratively."""
    ends = []
    role = Role.IF_EXPRESSION
    while True:
        b.expression(node.child_by_field_name("condition"), role)
        choice = b.keyword(NodeType.IF_CONDITION, node, "if")
        then = node.child_by_field_name("consequence")
        if then is not None:
            b.events.add(NodeType.IF_THEN, then.start_byte, then.start_byte + 1)
            b.statement(then)
        ends.append((node.end_byte, b.events.frontier))
        b.events.frontier = [choice]
        alternative = node.child_by_field_name("alternative")
        if alternative is None:
            break
        b.keyword(NodeType.IF_ELSE, node, "else")
        if alternative.type != "if_statement":
            b.statement(alternative)
            break
        node = alternative
        role = Role.ELSE_EXPRESSION if b.rules.else_expressions == "conditions" else Role.IF_EXPRESSION
    for end, frontier in reversed(ends):
        b.events.frontier = frontier + b.events.frontier
        b.events.convergence(NodeType.IF_CONVERGENCE, end)


def _try(b: Builder, node: "Node") -> None:
    begin = b.keyword(NodeType.TRY, node, "try")
    catches = [child for child in node.named_children if child.type == "catch_clause"]
    finally_ = next((child for child in node.named_children if child.type == "finally_clause"), None)
    throws: list[int] = []
    with b.scopes.block():
        _resources(b, node.child_by_field_name("resources"))
        if catches:
            b.body.catching.append(throws)
        b.statement(node.child_by_field_name("body"))
        if catches:
            b.body.catching.pop()
    ends = b.events.frontier
    if len(throws) * len(catches) > MAX_EDGES:
        b.events.is_approximate = True
        throws = []
    for clause in catches:
        b.events.frontier = [begin, *throws]
        _catch(b, clause)
        ends = ends + b.events.frontier
    if finally_ is not None:
        b.events.frontier = ends if catches else [*ends, begin]
        b.keyword(NodeType.FINALLY, finally_, "finally")
        b.statements(finally_)
        ends = b.events.frontier
    b.events.frontier = ends
    b.events.convergence(NodeType.TRY_CONVERGENCE, node.end_byte)


def _while(b: Builder, node: "Node") -> None:
    target = _begin_loop(b)
    head = len(b.events)
    b.expression(node.child_by_field_name("condition"), Role.WHILE_EXPRESSION)
    choice = b.keyword(NodeType.WHILE_CONTINUE, node, "while")
    b.statement(node.child_by_field_name("body"))
    b.events.frontier = b.events.frontier + target.continues
    b.events.link(head)
    _end_loop(b, [choice], NodeType.WHILE_CONVERGENCE, node.end_byte)


def _block(b: Builder, node: "Node") -> None:
    with b.scopes.block():
        b.statements(node)


def _jump(b: Builder, node: "Node") -> None:
    """``break`` or ``continue``."""
    is_break = node.type == "break_statement"
    event = b.keyword(NodeType.BREAK, node, "break") if is_break else b.keyword(NodeType.CONTINUE, node, "continue")
    label = next((b.text(child) for child in node.named_children if child.type == "identifier"), "")
    for target in reversed(b.body.targets):
        may_reach = target.is_loop or (is_break and (bool(label) or not target.is_plain))
        if may_reach and (not label or label in target.labels):
            (target.breaks if is_break else target.continues).append(event)
            break
    b.events.frontier = []


def _constructor(b: Builder, node: "Node") -> None:
    """``this(...)``, ``super(...)`` or ``o.super(...)``."""
    b.expression(node.child_by_field_name("object"), Role.INVOCATION_TARGET)
    b.expressions(node.child_by_field_name("arguments"), Role.CONSTRUCTOR_ARGUMENT)


def _error(b: Builder, node: "Node") -> None:
    """Adds the valid statements, expressions and names of invalid code."""
    for child in node.named_children:
        if child.type == "identifier":
            b.identifier(child, Role.UNKNOWN)
        else:
            b.statement(child)


def _labelled(b: Builder, node: "Node") -> None:
    labels = []
    while node.type == "labeled_statement":
        parts = [child for child in node.named_children if not child.type.endswith("comment")]
        labels.append(b.text(parts[0]))
        if len(parts) == 1:
            return
        node = parts[-1]
    if node.type in _TARGETS:
        b.body.labels = tuple(labels)
        b.statement(node)
        return
    target = Target(tuple(labels), is_plain=True)
    b.body.targets.append(target)
    b.statement(node)
    b.body.targets.pop()
    b.events.frontier = b.events.frontier + target.breaks


def _local(b: Builder, node: "Node") -> None:
    annotations(b, node)
    type_ = node.child_by_field_name("type")
    if type_ is None:
        return
    kind, is_array = declared_type(type_)
    role = b.role_alone(node, Role.ASSIGNMENT)
    for declarator in node.children_by_field_name("declarator"):
        name = declarator.child_by_field_name("name")
        value = declarator.child_by_field_name("value")
        if name is not None and value is None:
            b.declare(name, kind, is_array or has_dimensions(declarator), Role.LOCAL)
        elif name is not None:
            b.define(name, type_, Role.ASSIGNED, b.expression(value, role), declarator)


def _return(b: Builder, node: "Node") -> None:
    b.expressions(node, Role.RETURN)
    if node.start_byte != b.body.last_return:
        b.keyword(NodeType.RETURN_EXIT, node, "return")
        b.body.needs_exit = True
    b.body.exits += b.events.frontier
    b.events.frontier = []


def _synchronized(b: Builder, node: "Node") -> None:
    for child in node.named_children:
        if child.type == "parenthesized_expression":
            b.expression(child, b.role_alone(node, Role.SYNCHRONIZED_EXPRESSION))
    b.keyword(NodeType.SYNCHRONIZED_ENTRY, node, "synchronized")
    b.statement(node.child_by_field_name("body"))


def _throw(b: Builder, node: "Node") -> None:
    b.expressions(node, b.role_alone(node, Role.BLOCK_DEFAULT))
    event = b.keyword(NodeType.EXCEPTION_THROW, node, "throw")
    if b.body.catching:
        b.body.catching[-1].append(event)
    else:
        b.body.exits.append(event)
        b.body.needs_exit = True
    b.events.frontier = []


def _begin_loop(b: Builder) -> Target:
    target = Target(b.body.labels, is_loop=True)
    b.body.labels = ()
    b.body.targets.append(target)
    return target


def _end_loop(b: Builder, frontier: list[int], kind: NodeType, end: int) -> None:
    target = b.body.targets.pop()
    b.events.frontier = frontier + target.breaks
    b.events.convergence(kind, end)


def _resources(b: Builder, node: "Node | None") -> None:
    for resource in node.named_children if node else ():
        name = resource.child_by_field_name("name")
        type_ = resource.child_by_field_name("type")
        if name is None or type_ is None:
            b.expressions(resource, Role.RESOURCE)
            continue
        annotations(b, resource)
        values = b.expression(resource.child_by_field_name("value"), Role.ASSIGNMENT)
        b.define(name, type_, Role.RESOURCE, values, resource)


def _catch(b: Builder, clause: "Node") -> None:
    b.keyword(NodeType.CATCH, clause, "catch")
    with b.scopes.block():
        for parameter in clause.named_children:
            if parameter.type == "catch_formal_parameter":
                annotations(b, parameter)
                type_ = next((child for child in parameter.named_children if child.type == "catch_type"), None)
                b.define(parameter.child_by_field_name("name"), type_, Role.CATCH)
        b.statement(clause.child_by_field_name("body"))


def switch_value(b: Builder, node: "Node", role: Role) -> list[int]:
    """Adds a switch expression; returns the value variables of its results."""
    b.body.yields.append(([], []))
    _switch(b, node, Role.YIELD_EXPRESSION)
    return b.body.yields.pop()[1]


def yield_statement(b: Builder, node: "Node") -> None:
    """Adds ``yield``, which leaves the innermost switch expression."""
    values = b.expressions(node, b.role_alone(node, Role.YIELD_EXPRESSION))
    if b.body.yields:
        yield_events, results = b.body.yields[-1]
        yield_events += b.events.frontier
        results += values
    b.events.frontier = []


def pattern(b: Builder, node: "Node", values: list[int], role: Role) -> None:
    """Declares the variables of a pattern, with data flow from ``values``."""
    stack = [node]
    while stack:
        part = stack.pop()
        names = [child for child in part.named_children if child.type == "identifier"]
        if part.type in ("type_pattern", "record_pattern_component"):
            types = [child for child in part.named_children if child.type not in ("identifier", "modifiers")]
            if names and types:
                b.define(names[0], types[0], role, values)
        else:
            stack += reversed(part.named_children)


def _switch(b: Builder, node: "Node", result_role: Role) -> None:
    target = Target(b.body.labels)
    b.body.labels = ()
    selector = b.expression(node.child_by_field_name("condition"), Role.SWITCH_SELECTOR)
    choice = b.keyword(NodeType.SWITCH_SELECTOR, node, "switch")
    b.body.targets.append(target)
    ends: list[int] = []
    fall_through: list[int] = []
    has_default = False
    body = node.child_by_field_name("body")
    with b.scopes.block():
        for group in body.named_children if body else ():
            if group.type == "switch_rule":
                with b.scopes.block():
                    has_default |= _case_labels(b, group, choice, selector)
                    _rule(b, group, result_role)
                ends += b.events.frontier
                continue
            has_default |= _case_labels(b, group, choice, selector)
            b.events.frontier = b.events.frontier + fall_through
            for child in group.named_children:
                if child.type != "switch_label":
                    b.statement(child)
            fall_through = b.events.frontier
    b.body.targets.pop()
    yield_events = b.body.yields[-1][0] if result_role == Role.YIELD_EXPRESSION else []
    b.events.frontier = ends + fall_through + target.breaks + yield_events + ([] if has_default else [choice])
    b.events.convergence(NodeType.SWITCH_CONVERGENCE, node.end_byte)


def _case_labels(b: Builder, group: "Node", choice: int, selector: list[int]) -> bool:
    """Adds the labels of a group; returns whether one is ``default``."""
    ends: list[int] = []
    has_default = False
    for label in group.named_children:
        if label.type == "switch_label":
            b.events.frontier = [choice]
            has_default |= _case_label(b, label, selector)
            ends += b.events.frontier
    b.events.frontier = ends
    return has_default


def _case_label(b: Builder, label: "Node", selector: list[int]) -> bool:
    keyword = label.children[0]
    b.events.add(NodeType.CASE_EXPRESSION, keyword.start_byte, keyword.end_byte)
    is_default = keyword.type == "default"
    for value in label.named_children:
        if value.type == "pattern":
            pattern(b, value, selector, Role.CASE_VALUE)
        elif value.type == "guard":
            # A guard is a condition without a role, not a case value.
            b.expressions(value, Role.BLOCK_DEFAULT)
        elif value.type == "identifier" and b.text(value) == "default":
            is_default = True
        else:
            b.expression(value, Role.CASE_VALUE)
    return is_default


def _rule(b: Builder, group: "Node", result_role: Role) -> None:
    for child in group.named_children:
        if child.type == "expression_statement":
            values = b.expressions(child, result_role)
            if result_role == Role.YIELD_EXPRESSION:
                b.body.yields[-1][1].extend(values)
        elif child.type != "switch_label":
            b.statement(child)


STATEMENTS: "dict[str, Callable[[Builder, Node], object]]" = {
    **dict.fromkeys(CLASSES, local_class),
    **dict.fromkeys(METHODS, method),
    "ERROR": _error,
    "assert_statement": lambda b, node: b.expressions(node, Role.ASSERT_VALUE),
    "block": _block,
    "break_statement": _jump,
    "constructor_body": _block,
    "continue_statement": _jump,
    "do_statement": _do,
    "enhanced_for_statement": _for_each,
    "explicit_constructor_invocation": _constructor,
    "expression_statement": lambda b, node: b.expressions(node, Role.BLOCK_DEFAULT),
    "for_statement": _for,
    "if_statement": _if,
    "labeled_statement": _labelled,
    "local_variable_declaration": _local,
    "return_statement": _return,
    "switch_expression": lambda b, node: _switch(b, node, Role.BLOCK_DEFAULT),
    "synchronized_statement": _synchronized,
    "throw_statement": _throw,
    "try_statement": _try,
    "try_with_resources_statement": _try,
    "while_statement": _while,
    "yield_statement": yield_statement,
}
