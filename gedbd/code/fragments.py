"""Fragments of Java code, as the hunks of a diff: made complete so that they parse.

A hunk begins and ends anywhere. What it cuts is completed outside of its text: ``}`` gets a beginning before the text,
``{`` an end behind it, and the halves of comments become spaces, so that places in the text stay.
"""

import re
from typing import NamedTuple

_COMMENT_END = re.compile(rb"\A(?:[ \t]*(?:\*.*)?\n)*?[ \t]*(?:\*.*?)?\*/", re.MULTILINE)
_COMMENT_LINES = re.compile(rb"\A(?:[ \t]*\n)*[ \t]*\*[^\n]*(?:\n[ \t]*\*[^\n]*)*")
_TOKENS = re.compile(
    rb"""//[^\n]* | /\*.*?(?:\*/|\Z) | \"\"\".*?(?:\"\"\"|\Z) | "(?:\\.|[^"\\\n])*"? | '(?:\\[^'\n]*|[^'\\\n])'
    | [{}()] | ;|->|= | [A-Za-z_$][\w$]*""",
    re.VERBOSE | re.DOTALL,
)
_CLOSERS = {b"try": b"} finally { }", b"do": b"} while (true);"}


class Fragment(NamedTuple):
    """A text and what completes it.

    Attributes:
        text: UTF-8, with spaces for the halves of comments.
        openers: What opens each ``}`` that the text does not open, the outermost first.
        closer: What closes the brackets that the text does not close.
        is_empty: Whether the text holds nothing but comments.
    """

    text: bytes
    openers: tuple[bytes, ...]
    closer: bytes
    is_empty: bool


def complete(code: str) -> Fragment:
    """Find what a fragment lacks at its beginning and at its end."""
    text = _without_half_comments(code.encode(errors="replace"))
    tokens = [token for token in _TOKENS.findall(text) if token[:2] not in (b"//", b"/*")]
    openers: list[bytes] = []
    stack: list[tuple[bytes, bytes]] = []
    before = b""
    has_case = False
    for position, token in enumerate(tokens):
        if token in (b"{", b"("):
            stack.append((token, before))
        elif token in (b"}", b")") and stack:
            stack.pop()
        elif token == b"}":
            following = tokens[position + 1 : position + 3]
            openers.append(b"switch (0) {" if has_case else _opener(following))
            has_case = False
        elif token in (b"case", b"default") and not stack:
            has_case = True
        before = token
    closer = b"".join(_closer(bracket, word) for bracket, word in reversed(stack))
    return Fragment(text, tuple(reversed(openers)), closer, not text.strip())


def _opener(following: list[bytes]) -> bytes:
    """What begins the block that ends before these tokens."""
    word = following[0] if following else b""
    if word == b"else":
        return b"if (true) {"
    if word in (b"catch", b"finally"):
        return b"try {"
    if word == b")":
        return b"f(() -> {"
    return b"{"


def _closer(bracket: bytes, word: bytes) -> bytes:
    if bracket == b"(":
        return b");"
    return _CLOSERS.get(word, b"}")


def _without_half_comments(text: bytes) -> bytes:
    for pattern in (_COMMENT_END, _COMMENT_LINES):
        begin = pattern.match(text)
        if begin and b"/*" not in begin[0]:
            return _blank(begin[0]) + text[begin.end() :]
    return text


def _blank(text: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", text)
