"""Syntax trees of Java code."""

import re
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree


FALLBACK_ENCODING = "cp1252"
# Each alternative also ends where the text ends, so that a literal or comment without an end costs no second look.
TOKENS = re.compile(
    r'(?P<comment>//[^\n]*|/\*.*?(?:\*/|\Z))|"""(?:\\.|.)*?(?:"""|\Z)|"(?:\\.|[^"\\\n])*"?'
    r"|'(?:\\.|[^'\\\n])*'?|\w+|\S",
    re.DOTALL,
)


def parse(source: bytes) -> "Tree":
    """The syntax tree of Java code.

    Raises:
        ValueError: tree-sitter is not installed.
    """
    return _java_parser().parse(source)


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
    """The tokens of some code, one a line, without comments: equal for methods that differ in layout alone."""
    return "\n".join(found[0] for found in TOKENS.finditer(code) if found["comment"] is None)
