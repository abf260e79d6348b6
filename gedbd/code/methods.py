"""The methods and constructors of Java files."""

import re
from typing import TYPE_CHECKING, NamedTuple

from gedbd.code.bodies import METHODS
from gedbd.code.syntax import parse

if TYPE_CHECKING:
    from tree_sitter import Node

_MARGIN = re.compile(r"^[ \t]*\*+(?!/)[ \t]?|[ \t]+$", re.MULTILINE)


class Method(NamedTuple):
    """A method or constructor of a Java file.

    Attributes:
        path: The file.
        name: Its name.
        line: The line of the file where it begins, annotations included, from 1.
        comment: Text of its Javadoc without ``/**``, ``*`` and ``*/``; empty if it has none.
        code: Its source, from its annotations to ``}``.
    """

    path: str
    name: str
    line: int
    comment: str
    code: str


def find_methods(source: str, path: str = "") -> list[Method]:
    """Every method and constructor with a body, of nested classes too, in the order of the file.

    Args:
        source: A compilation unit; of one with errors, the methods that parse.
        path: Its file's name.
    """
    text = source.encode(errors="replace")
    found = []
    stack = [(parse(text).root_node, "")]
    while stack:
        node, comment = stack.pop()
        name = node.child_by_field_name("name") if node.type in METHODS else None
        if name is not None and node.child_by_field_name("body") is not None:
            code = _decode(text, node)
            found.append(Method(path, _decode(text, name), node.start_point[0] + 1, comment, code))
        stack += reversed(_children(text, node))
    return found


def _children(text: bytes, node: "Node") -> "list[tuple[Node, str]]":
    """The children of a tree node, each with the text of the Javadoc right before it."""
    children = []
    comment = ""
    for child in node.named_children:
        if child.type == "block_comment":
            written = _decode(text, child)
            comment = javadoc_text(written) if written.startswith("/**") else comment
        elif child.type != "line_comment":
            children.append((child, comment))
            comment = ""
    return children


def javadoc_text(comment: str) -> str:
    """The text of a Javadoc without its markers: ``Sorts.`` of ``/** Sorts. */``."""
    inner = comment.removeprefix("/**").removesuffix("*/")
    return _MARGIN.sub("", inner).strip()


def _decode(text: bytes, node: "Node") -> str:
    return text[node.start_byte : node.end_byte].decode(errors="replace")
