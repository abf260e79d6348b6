"""Syntax trees of Java code."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Parser, Tree


def parse(source: bytes) -> "Tree":
    """The syntax tree of Java code.

    Raises:
        ValueError: tree-sitter is not installed.
    """
    return java_parser().parse(source)


@cache
def java_parser() -> "Parser":
    """The parser of Java, which is made once.

    Raises:
        ValueError: tree-sitter is not installed.
    """
    try:
        import tree_sitter
        import tree_sitter_java
    except ImportError as error:
        raise ValueError("tree-sitter is not installed: pip install 'gedbd[code]'") from error
    return tree_sitter.Parser(tree_sitter.Language(tree_sitter_java.language()))
