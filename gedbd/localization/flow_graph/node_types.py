"""The semantic flow graph: its 55 node types, 43 roles and three kinds of edges; and a graph as text.

Source: the talk "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization" (2023). It
says how many types and roles there are, and names those of its example. The others are named as in its authors' code
(duyali2000/SemanticFlowGraph: NodeType.java, NodeRole.java). Which nodes exist, and where in the flow, follows control
flow graphs of the compilers literature, so that the talk's example gives its 13 variables and 4 control nodes. The
edges of the example are in a picture that we do not have.
"""

import json
from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from gedbd.io.files import write_text

if TYPE_CHECKING:
    from tree_sitter import Node

NO_ROLE = -1
BEGIN_EXIT_CHOICES = ("left", "always")
ELSE_CHOICES = ("conditions", "statements")
_NOT_NAMES = {"annotation", "marker_annotation", "block_comment", "line_comment", "dimensions", "type_arguments"}


class NodeType(IntEnum):
    """What kind of program element a node is: 20 types of variables, then 35 of control instructions.

    A variable has the type that it is declared with, an array that of its elements, a boxed number that of its
    primitive. A control node is at the token or character that its comment names.
    """

    INTEGER = 0  # ``int`` or ``Integer``
    FLOAT = 1  # ``float`` or ``Float``
    LONG = 2  # ``long`` or ``Long``
    DOUBLE = 3  # ``double`` or ``Double``
    VOID = 4  # ``Void``
    BOOLEAN = 5  # ``boolean`` or ``Boolean``
    BYTE = 6  # ``byte`` or ``Byte``
    CHARACTER = 7  # ``char`` or ``Character``
    SHORT = 8  # ``short`` or ``Short``
    OTHER_PRIMITIVE = 9  # Another primitive type; Java has none, so no node has it
    DATE = 10  # A date or time of ``java.util`` or ``java.time``
    ITERABLE = 11  # ``Iterable``, ``Iterator`` and the like, without the collections below
    COLLECTION = 12  # ``Collection``, queues, stacks and others that are not a list, set or map
    LIST = 13  # ``List`` and its implementations
    SET = 14  # ``Set`` and its implementations
    MAP = 15  # ``Map`` and its implementations
    STRING = 16  # ``String``, ``CharSequence`` and their builders
    OTHER_JDK = 17  # Another class of the JDK
    USER_DEFINED = 18  # A class that is not of the JDK, or a type parameter
    NULL = 19  # Unknown: the fragment does not declare the variable, or declares no type

    TRY = 20  # Beginning of a ``try`` block or of its resources; at ``try``
    CATCH = 21  # Beginning of a ``catch`` clause, before its parameter; at ``catch``
    FINALLY = 22  # Beginning of a ``finally`` block; at ``finally``
    CONDITIONAL_CONVERGENCE = 23  # Where both branches of ``?:`` meet; at its last character
    DO_CONVERGENCE_INSIDE = 24  # Where a do-while loop begins, and begins again; at ``do``
    DO_CONVERGENCE_OUTSIDE = 25  # Where a do-while loop ends; at its last character
    FOR_CONVERGENCE = 26  # Where a for loop ends; at its last character
    FOREACH_CONVERGENCE = 27  # Where an enhanced for loop ends; at its last character
    IF_CONVERGENCE = 28  # Where the branches of an ``if`` meet; at its last character
    SWITCH_CONVERGENCE = 29  # Where a switch ends; at its last character
    WHILE_CONVERGENCE = 30  # Where a while loop ends; at its last character
    TRY_CONVERGENCE = 31  # Where a ``try`` statement ends; at its last character
    # End of a method's body that a ``return`` before its end, or a ``throw``, leaves (see ``GraphRules``); at the
    # body's last character
    EXIT = 32
    BEGIN = 33  # Beginning of a method's body that has an ``EXIT``; at the body's first character
    BREAK = 34  # ``break``
    CONTINUE = 35  # ``continue``
    SWITCH_SELECTOR = 36  # The choice of a switch, after its selector is evaluated; at ``switch``
    CASE_EXPRESSION = 37  # A label of a switch, before its values; at ``case`` or ``default``
    CONDITIONAL_CONDITION = 38  # The choice of ``?:``, after its condition; at ``?``
    CONDITIONAL_THEN = 39  # Beginning of the second operand of ``?:``; at its first character
    CONDITIONAL_ELSE = 40  # Beginning of the third operand of ``?:``; at ``:``
    DO_WHILE_CONDITION = 41  # The choice of a do-while loop, after its condition; at its ``while``
    FOR_CONDITION = 42  # The choice of a for loop, after its condition if it has one; at ``for``
    FOREACH_CONDITION = 43  # Whether an enhanced for loop has another element; at ``for``
    IF_CONDITION = 44  # The choice of an ``if``, after its condition; at ``if``
    IF_THEN = 45  # Beginning of the branch that an ``if`` takes; at its first character
    IF_ELSE = 46  # Beginning of the other branch, if there is one; at ``else``
    LAMBDA_ENTRY = 47  # Beginning of a lambda, before its parameters; at ``->``
    LAMBDA_EXIT = 48  # End of a lambda; at its last character
    NEW_CLASS_ENTRY = 49  # Beginning of the body of a class inside a method; at ``{``
    NEW_CLASS_EXIT = 50  # End of the body of a class inside a method; at ``}``
    RETURN_EXIT = 51  # A ``return`` that is not the last statement of its body, after its value; at ``return``
    SYNCHRONIZED_ENTRY = 52  # Beginning of a ``synchronized`` block, after its lock is evaluated; at ``synchronized``
    WHILE_CONTINUE = 53  # The choice of a while loop, after its condition; at ``while``
    EXCEPTION_THROW = 54  # ``throw``, after its exception is evaluated


class EdgeKind(IntEnum):
    """Why an edge leads from one node to another."""

    # A value flows from one variable into another: from a definition to a use that it reaches, or in a statement
    DATA = 0
    CONTROL = 1  # From a control node to the next one
    SEQUENTIAL = 2  # Between a variable and a control node that are evaluated one directly after the other


class Role(IntEnum):
    """The operation that a variable takes part in. The innermost one counts; parentheses and casts do not."""

    # No operation that has a role of its own: thrown, the condition of a for loop, or a statement by itself
    BLOCK_DEFAULT = 0
    FIELD = 1  # Declared as a field of a class, without a value
    PARAMETER = 2  # Declared as a parameter of a method or a lambda
    LOCAL = 3  # Declared as a local variable, without a value
    CATCH = 4  # Declared as the exception of a ``catch`` clause
    RESOURCE = 5  # Declared as, or named as, a resource of ``try``
    RECORD_COMPONENT = 6  # Declared as a component of a record
    ANNOTATION_VALUE = 7  # Argument of an annotation
    # Gets a value: left of ``=``, ``+=`` and others, declared with a value, or declared by an enhanced for loop
    ASSIGNED = 8
    ASSIGNMENT = 9  # The value that is assigned
    ARRAY_TARGET = 10  # The array of ``a[i]``
    # The index of ``a[i]``, a size of ``new int[n]``, or an element of ``{x, y}``, of an annotation's too
    ARRAY_EXPRESSION = 11
    INVOCATION_TARGET = 12  # The object whose method is called or referred to by ``::``, or the ``o`` of ``o.new T()``
    INVOCATION_ARGUMENT = 13  # Argument of a method
    RELATION_OPERATOR_LEFT = 14  # Left of ``&&`` or ``||``
    RELATION_OPERATOR_RIGHT = 15  # Right of ``&&`` or ``||``
    BIT_OPERATOR_LEFT = 16  # Left of ``&``, ``|``, ``^`` or a shift
    BIT_OPERATOR_RIGHT = 17  # Right of ``&``, ``|``, ``^`` or a shift
    COMPARE_OPERATOR_LEFT = 18  # Left of ``==``, ``!=``, ``<``, ``>``, ``<=`` or ``>=``
    COMPARE_OPERATOR_RIGHT = 19  # Right of ``==``, ``!=``, ``<``, ``>``, ``<=`` or ``>=``
    MATH_OPERATOR_LEFT = 20  # Left of ``+``, ``-``, ``*``, ``/`` or ``%``
    MATH_OPERATOR_RIGHT = 21  # Right of ``+``, ``-``, ``*``, ``/`` or ``%``
    INSTANCEOF_OPERATOR_LEFT = 22  # Left of ``instanceof``
    INSTANCEOF_OPERATOR_RIGHT = 23  # Declared by the pattern right of ``instanceof``
    OTHER_UNARY = 24  # Operand of ``!``, ``~``, ``+`` or ``-``
    ASSIGN_UNARY = 25  # Operand of ``++`` or ``--``, before or after it
    ASSERT_VALUE = 26  # Condition or message of ``assert``
    SWITCH_SELECTOR = 27  # What a switch chooses by
    CASE_VALUE = 28  # Value of a ``case``, or declared by its pattern
    CONDITIONAL_CONDITION = 29  # Condition of ``?:``
    CONDITIONAL_THEN = 30  # Second operand of ``?:``
    CONDITIONAL_ELSE = 31  # Third operand of ``?:``
    RETURN = 32  # Returned by a method, or the body of a lambda
    CONSTRUCTOR_ARGUMENT = 33  # Argument of ``new``, ``this(...)`` or ``super(...)``
    DO_WHILE_EXPRESSION = 34  # Condition of a do-while loop
    FOREACH_EXPRESSION = 35  # What an enhanced for loop runs over
    IF_EXPRESSION = 36  # Condition of an ``if``
    ELSE_EXPRESSION = 37  # Condition of an ``if`` that directly follows ``else``; see ``GraphRules``
    WHILE_EXPRESSION = 38  # Condition of a while loop
    YIELD_EXPRESSION = 39  # Result of a branch of a switch expression, with or without ``yield``
    SYNCHRONIZED_EXPRESSION = 40  # Lock of a ``synchronized`` block
    FIELD_READ_TARGET = 41  # The object whose field is read or written
    UNKNOWN = 42  # In code that does not parse, or is nested more than ``builder.MAX_DEPTH`` deep


@dataclass(frozen=True)
class GraphRules:
    """Two rules in which the authors' code (duyali2000/SemanticFlowGraph) differs from the talk's example.

    Raises ValueError if a choice is unknown.
    """

    # which methods have ``BEGIN`` and ``EXIT``: those that a ``return`` before their end, or a ``throw``, leaves
    # (``left``; the example has neither), or all with a body (``always``, the authors' code)
    begin_exit: str = "left"
    # which variables have the role ``ELSE_EXPRESSION``: those in the condition of an ``else if`` (``conditions``), or
    # those that alone are the expression of a statement of an else block, as ``x`` in ``else throw x;``
    # (``statements``, the authors' code, where ``else if`` is an ``if``)
    else_expressions: str = "conditions"

    def __post_init__(self) -> None:
        for name, choices in (("begin_exit", BEGIN_EXIT_CHOICES), ("else_expressions", ELSE_CHOICES)):
            if getattr(self, name) not in choices:
                raise ValueError(f"{name}={getattr(self, name)} is unknown: choose {' or '.join(choices)}")


TALK_RULES = GraphRules()


@dataclass(frozen=True)
class FlowGraph:
    """A semantic flow graph <N, E, T, R>.

    Nodes are in the order of their positions in the source; at the same position, in the order of evaluation.
    """

    names: tuple[str, ...]  # N names of variables; empty for control nodes
    spans: np.ndarray  # ``(N, 2)`` int32, first and last (exclusive) character of each node in the source
    types: np.ndarray  # ``(N,)`` int8 ``NodeType`` of each node
    roles: np.ndarray  # ``(N,)`` int8 ``Role`` of each variable; ``NO_ROLE`` for control nodes
    edges: np.ndarray  # ``(2, E)`` int32 nodes that each edge leads from and to, sorted by both and by kind, each once
    kinds: np.ndarray  # ``(E,)`` int8 ``EdgeKind`` of each edge
    # whether edges are left out because the code is so large that there are too many: those from all definitions but
    # the last (see ``data_edges``), from ``throw`` to ``catch``, or between values
    is_approximate: bool = False

    def __len__(self) -> int:
        return len(self.names)


@cache
def _types() -> dict[str, NodeType]:
    """The node types of ``java_types.txt`` by the names of types."""
    types = {}
    for line in (files("gedbd.localization.flow_graph") / "java_types.txt").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            kind, *names = line.split()
            types.update(dict.fromkeys(names, NodeType[kind]))
    return types


def declared_type(node: "Node") -> tuple[NodeType, bool]:
    """The node type that a type's tree names, and whether it is an array.

    ``java.util.List<String>`` counts by its last name, ``int[]`` as int, ``A | B`` as A; ``var`` is unknown.
    """
    is_array = node.type == "array_type"
    while node.named_child_count:
        parts = [part for part in node.named_children if part.type not in _NOT_NAMES]
        if not parts:
            break
        node = parts[-1] if node.type == "scoped_type_identifier" else parts[0]
    name = (node.text or b"").decode(errors="replace")
    return _types().get(name, NodeType.USER_DEFINED), is_array


def has_dimensions(node: "Node") -> bool:
    """Whether a declared name is followed by ``[]``."""
    return node.child_by_field_name("dimensions") is not None


MAX_MERMAID_EDGES = 500  # Mermaid's default; GitHub does not raise it
ARROWS = {EdgeKind.DATA: "-->", EdgeKind.CONTROL: "==>", EdgeKind.SEQUENTIAL: "-.->"}
STYLES = {EdgeKind.DATA: "solid", EdgeKind.CONTROL: "bold", EdgeKind.SEQUENTIAL: "dashed"}


def write_graph(graph: FlowGraph, nodes: pd.DataFrame, title: str, stem: Path) -> tuple[list[Path], tuple[str, ...]]:
    """Writes a graph as Mermaid (``.mmd``) and DOT (``.dot``), and creates the folder; returns files and warnings."""
    warnings = []
    if graph.is_approximate:
        warnings.append("the method is so large that edges are left out")
    num_edges = graph.edges.shape[1]
    if num_edges > MAX_MERMAID_EDGES:
        warnings.append(f"the graph has {num_edges:,} edges, and Mermaid draws {MAX_MERMAID_EDGES}: use the DOT file")
    stem.parent.mkdir(parents=True, exist_ok=True)
    files = []
    for suffix, text in ((".mmd", mermaid_text(graph, nodes, title)), (".dot", dot_text(graph, nodes, title))):
        files.append(stem.with_name(f"{stem.name}{suffix}"))
        write_text(files[-1], text)
    return files, tuple(warnings)


def mermaid_text(graph: FlowGraph, nodes: pd.DataFrame, title: str) -> str:
    """A Mermaid flowchart: variables are rounded, control nodes are rectangles, and edges differ by kind."""
    lines = ["---", f"title: {json.dumps(title, ensure_ascii=False)}", "---", "flowchart TD"]
    for number, line, name, kind, role in nodes.itertuples(index=False):
        lines.append(
            f'    n{number}("{line}: {name}<br>{kind} {role}")' if name else f'    n{number}["{line}: {kind}"]'
        )
    for (start, end), kind in zip(graph.edges.T.tolist(), graph.kinds.tolist(), strict=True):
        lines.append(f"    n{start + 1} {ARROWS[EdgeKind(kind)]} n{end + 1}")
    return "\n".join(lines) + "\n"


def dot_text(graph: FlowGraph, nodes: pd.DataFrame, title: str) -> str:
    """A Graphviz graph that is drawn like ``mermaid_text``."""
    lines = ["digraph {", f"    label={json.dumps(title, ensure_ascii=False)}"]
    for number, line, name, kind, role in nodes.itertuples(index=False):
        label = f"{line}: {name}\\n{kind} {role}" if name else f"{line}: {kind}"
        lines.append(f'    n{number} [label="{label}" shape={"ellipse" if name else "box"}]')
    for (start, end), kind in zip(graph.edges.T.tolist(), graph.kinds.tolist(), strict=True):
        lines.append(f"    n{start + 1} -> n{end + 1} [style={STYLES[EdgeKind(kind)]}]")
    return "\n".join([*lines, "}"]) + "\n"


def node_table(graph: FlowGraph, source: str, first_line: int = 1) -> pd.DataFrame:
    """A table with a row per node: its number, line (from ``first_line``), name, type and role."""
    rows = []
    for node, name in enumerate(graph.names):
        line = first_line + source.count("\n", 0, int(graph.spans[node, 0]))
        role = Role(int(graph.roles[node])).name if name else ""
        rows.append((node + 1, line, name, NodeType(int(graph.types[node])).name, role))
    return pd.DataFrame(rows, columns=["node", "line", "name", "type", "role"])


def edge_table(graph: FlowGraph) -> pd.DataFrame:
    """A table with a row per kind of edge: their number, and the numbers of the nodes that they connect."""
    rows = []
    for kind in EdgeKind:
        pairs = graph.edges[:, graph.kinds == kind].T.tolist()
        rows.append((kind.name, len(pairs), " ".join(f"{start + 1}>{end + 1}" for start, end in pairs)))
    return pd.DataFrame(rows, columns=["kind", "edges", "from>to"])
