"""The node types of declared Java types, by their simple names."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING

from gedbd.localization.flow_graph.semantic_graph import NodeType

if TYPE_CHECKING:
    from tree_sitter import Node

_NOT_NAMES = {"annotation", "marker_annotation", "block_comment", "line_comment", "dimensions", "type_arguments"}


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
        last = node.type == "scoped_type_identifier"
        node = parts[-1] if last else parts[0]
    name = (node.text or b"").decode(errors="replace")
    return _types().get(name, NodeType.USER_DEFINED), is_array


def has_dimensions(node: "Node") -> bool:
    """Whether a declared name is followed by ``[]``."""
    return node.child_by_field_name("dimensions") is not None
