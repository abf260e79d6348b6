"""Java source: its syntax tree, tokens, methods and constructors."""

import re
from collections import Counter
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gedbd.io.files import check_regular
from gedbd.localization.flow_graph.builder import METHODS

if TYPE_CHECKING:
    from tree_sitter import Node, Parser


FALLBACK_ENCODING = "cp1252"
# Each alternative also ends where the text ends, so that literals and comments without an end need no backtracking.
TOKENS = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|"""(?:\\.|.)*?(?:"""|\Z)|"(?:\\.|[^"\\\n])*"?'
    r"|'(?:\\.|[^'\\\n])*'?|\w+|\S",
    re.DOTALL,
)
BYTES = 1_000_000  # of a megabyte
MAX_NAMED = 8  # methods that an error lists
_MARGIN = re.compile(r"^[ \t]*\*+(?!/)[ \t]?|[ \t\r]+$", re.MULTILINE)


def syntax_tree(source: bytes) -> "Node":
    """The root of the syntax tree of Java code; raises ValueError if tree-sitter is not installed."""
    return _java_parser().parse(source).root_node


@cache
def _java_parser() -> "Parser":
    try:
        import tree_sitter
        import tree_sitter_java
    except ImportError as error:
        raise ValueError("tree-sitter is not installed: pip install 'gedbd[code]'") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_java.language()))


def decode_source(content: bytes) -> tuple[str, bool]:
    """The text of a file in UTF-8, and whether it was another encoding and read as cp1252."""
    try:
        return content.decode("utf-8-sig"), False
    except UnicodeDecodeError:
        return content.decode(FALLBACK_ENCODING, errors="replace"), True


def plain_code(code: str) -> str:
    """The tokens of code, one per line, without comments: equal for methods that differ only in layout."""
    return "\n".join(token[0] for token in TOKENS.finditer(code) if token["comment"] is None)


class AmbiguousMethodError(ValueError):
    """Several methods match."""


class JavaMethod(NamedTuple):
    """A method or constructor of a Java file."""

    path: str
    name: str
    line: int  # the line of the file where it begins, annotations included, from 1
    comment: str  # text of its Javadoc without ``/**``, ``*`` and ``*/``; empty if it has none
    code: str  # its source, from its annotations to ``}``


def find_methods(source: str, path: str = "") -> list[JavaMethod]:
    """Every method and constructor with a body that parses, of nested classes too, in the order of the file."""
    text = source.encode(errors="replace")
    methods = []
    stack = [(syntax_tree(text), "")]
    while stack:
        node, comment = stack.pop()
        name = node.child_by_field_name("name") if node.type in METHODS else None
        if name is not None and node.child_by_field_name("body") is not None:
            code = _decode(text, node)
            methods.append(JavaMethod(path, _decode(text, name), node.start_point[0] + 1, comment, code))
        stack += reversed(_children(text, node))
    return methods


def _children(text: bytes, node: "Node") -> "list[tuple[Node, str]]":
    """The children of a tree node, each with the text of its Javadoc: ``Sorts.`` of ``/** Sorts. */``."""
    children = []
    comment = ""
    for child in node.named_children:
        if child.type == "block_comment":
            written = _decode(text, child)
            if written.startswith("/**"):
                comment = _MARGIN.sub("", written.removeprefix("/**").removesuffix("*/")).strip()
        elif child.type != "line_comment":
            children.append((child, comment))
            comment = ""
    return children


def _decode(text: bytes, node: "Node") -> str:
    return text[node.start_byte : node.end_byte].decode(errors="replace")


def read_source(path: Path, max_megabytes: float) -> tuple[str, tuple[str, ...]]:
    """The text of a source file, and a warning if it is not UTF-8.

    Raises ValueError if there is no such file, or it has more than ``max_megabytes``.
    """
    if not path.exists():
        raise ValueError(f"{path}: there is no such file")
    if path.is_dir():
        raise ValueError(f"{path} is a folder: name a Java file")
    check_regular(path)
    size = path.stat().st_size
    if size > max_megabytes * BYTES:
        raise ValueError(
            f"{path} has {size / BYTES:.3g} MB, more than max_megabytes={max_megabytes:g}: cut it, or raise the limit"
        )
    text, is_fallback = decode_source(path.read_bytes())
    return text, (f"{path} is not UTF-8, so that it is read as {FALLBACK_ENCODING}",) if is_fallback else ()


def choose_method(source: str, path: str, name: str | None = None, line: int | None = None) -> tuple[JavaMethod, bool]:
    """The method that a name, a line from 1, or both choose, and whether its file has others of its name.

    A constructor has the name of its class; of nested methods, the innermost counts. Raises ValueError if no method
    matches, ``AmbiguousMethodError`` if several do.
    """
    methods = find_methods(source, path)
    if not methods:
        raise ValueError(f"{path} has no method or constructor with a body: is it a Java file?")
    candidates = [method for method in methods if name in (None, method.name)]
    if not candidates:
        raise ValueError(f"{path} has no method {name}: {_suggestion(str(name), methods)}")
    matching = [method for method in candidates if line is None or method.line <= line <= _last_line(method)]
    if not matching:
        ranges = ", ".join(f"{method.line}-{_last_line(method)}" for method in candidates[:MAX_NAMED])
        raise ValueError(f"{path}: no method{f' {name}' if name else ''} holds line {line}: they are at lines {ranges}")
    if line is not None:
        # The innermost begins last.
        matching = [max(matching, key=lambda method: method.line)]
    if len(matching) > 1 and name is None:
        names = list(dict.fromkeys(method.name for method in matching))
        raise AmbiguousMethodError(f"{path} has {len(matching)} methods: choose a name, of {_listed(names)}")
    if len(matching) > 1:
        lines = [str(method.line) for method in matching]
        raise AmbiguousMethodError(f"{path} has {len(matching)} methods {name}: choose a line, of {_listed(lines)}")
    count = Counter(method.name for method in methods)[matching[0].name]
    return matching[0], count > 1


def _last_line(method: JavaMethod) -> int:
    return method.line + method.code.count("\n")


def _suggestion(name: str, methods: list[JavaMethod]) -> str:
    """Similar names, else the first names of the file."""
    names = list(dict.fromkeys(method.name for method in methods))
    by_lower = {known.lower(): known for known in names}
    close = [by_lower[match] for match in get_close_matches(name.lower(), by_lower, n=3)]
    if close:
        return f"did you mean {' or '.join(close)}?"
    return f"it has {_listed(names)}"


def _listed(words: list[str]) -> str:
    """The first words, and the number of the others."""
    more = f" and {len(words) - MAX_NAMED} more" if len(words) > MAX_NAMED else ""
    return ", ".join(words[:MAX_NAMED]) + more
