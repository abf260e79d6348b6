"""Fragments of Java code, as the hunks of a diff: made complete so that they parse.

A hunk begins and ends anywhere. What it cuts is completed outside of its text: ``}`` gets a beginning before the text,
``{`` an end behind it. What cannot be completed, as half a comment or the end of a statement, becomes spaces, so that
places in the text stay.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

_COMMENT_END = re.compile(rb"\A(?:[ \t]*(?:\*[^\n]*)?\n)*?[ \t]*(?:\*[^\n]*?)?\*/")
_COMMENT_LINES = re.compile(rb"\A(?:[ \t]*\n)*[ \t]*\*[^\n]*(?:\n[ \t]*\*[^\n]*)*")
_TOKENS = re.compile(
    rb"""//[^\n]* | /\*.*?(?:\*/|\Z) | \"\"\".*?(?:\"\"\"|\Z) | "(?:\\.|[^"\\\n])*"? | '(?:\\[^'\n]*|[^'\\\n])'
    | [{}(),;:] | -> | [A-Za-z_$][\w$]*""",
    re.VERBOSE | re.DOTALL,
)
_STATEMENT_END = re.compile(rb"[;{}][ \t]*(?=\n|\Z)")
_BEFORE_CLAUSE = {b"else": b"if (true) ; ", b"catch": b"try { } ", b"finally": b"try { } "}
_BEFORE_END = {
    **dict.fromkeys((b")", b","), b"f(() -> {"),
    **dict.fromkeys((b"catch", b"finally"), b"try {"),
    b"else": b"if (true) {",
}
_AFTER = {b"try": b"} finally { }", b"do": b"} while (true);"}
_SWITCH = b"switch (0) {"


class Fragment(NamedTuple):
    """A text and what completes it.

    Attributes:
        text: UTF-8, with spaces for what cannot be completed.
        openers: What opens each ``}`` that the text does not open, the outermost first.
        lead: What the first clause belongs to, if that is ``else``, ``catch`` or ``finally``.
        closer: What closes the brackets that the text does not close, and its last statement.
    """

    text: bytes
    openers: tuple[bytes, ...]
    lead: bytes
    closer: bytes


def completions(code: str) -> Iterator[Fragment]:
    """Ways to complete a fragment: as it is, without its last, its first, or both statements if they are cut.

    A text that holds nothing but comments has none.
    """
    text = _without_half_comments(code.encode(errors="replace"))
    seen = set()
    for without_first, without_last in ((False, False), (False, True), (True, False), (True, True)):
        part = _without_cut_statements(text, without_first, without_last)
        if part not in seen and part.strip():
            seen.add(part)
            yield _complete(part)


def _without_half_comments(text: bytes) -> bytes:
    """A text in which all comments are spaces, those that it cuts too."""
    for pattern in (_COMMENT_END, _COMMENT_LINES):
        begin = pattern.match(text)
        if begin and b"/*" not in begin[0]:
            text = _blank(begin[0]) + text[begin.end() :]
            break
    return _TOKENS.sub(lambda token: _blank(token[0]) if token[0][:2] in (b"//", b"/*") else token[0], text)


def _blank(text: bytes) -> bytes:
    return re.sub(rb"[^\n]", b" ", text)


def _without_cut_statements(text: bytes, without_first: bool, without_last: bool) -> bytes:
    """A text without its lines until the first, or after the last, that ends a statement or begins a block."""
    ends = [match.end() for match in _STATEMENT_END.finditer(text)]
    begin = ends[0] if ends and without_first else 0
    end = ends[-1] if ends and without_last else len(text)
    return _blank(text[:begin]) + text[begin:end] + _blank(text[end:]) if begin < end else b""


def _complete(text: bytes) -> Fragment:
    tokens = _TOKENS.findall(text)
    openers: list[bytes] = []
    stack: list[tuple[bytes, bytes]] = []
    has_case = False
    for position, token in enumerate(tokens):
        if token in (b"{", b"("):
            stack.append((token, tokens[position - 1] if position else b""))
        elif token in (b"}", b")") and stack:
            stack.pop()
        elif token == b"}":
            openers.append(_SWITCH if has_case else _opener(tokens, position))
            has_case = False
        elif not stack and (token == b"case" or tokens[position : position + 2] in _DEFAULTS):
            has_case = True
    if has_case:
        openers.append(_SWITCH)
        stack.insert(0, (b"{", b""))
    lead = _BEFORE_CLAUSE.get(tokens[0], b"") if tokens else b""
    return Fragment(text, tuple(reversed(openers)), lead, _closer(text, stack))


_DEFAULTS = ([b"default", b":"], [b"default", b"->"])


def _opener(tokens: list[bytes], position: int) -> bytes:
    """What begins the block that ends at a token."""
    following = tokens[position + 1] if position + 1 < len(tokens) else b""
    if following == b"while" and _is_do_while(tokens[position + 2 :]):
        return b"do {"
    return _BEFORE_END.get(following, b"{")


def _is_do_while(tokens: list[bytes]) -> bool:
    """Whether ``;`` follows the parenthesis that these tokens begin with."""
    depth = 0
    for position, token in enumerate(tokens):
        depth += (token == b"(") - (token == b")")
        if depth == 0:
            return tokens[position + 1 : position + 2] == [b";"]
    return False


def _closer(text: bytes, stack: list[tuple[bytes, bytes]]) -> bytes:
    """The end of the last statement, then of each bracket that is open, the innermost first."""
    closer = b"" if text.rstrip()[-1:] in (b";", b"{", b"}", b"(") else b";"
    for bracket, word in reversed(stack):
        if bracket == b"(":
            closer = closer.removesuffix(b";") + b");"
        else:
            closer += _AFTER.get(word, b"};")
    return closer
