"""Words of source code and of prose about it."""

import re
from collections.abc import Iterable

from gedbd.text.stop_words import stop_words

WORD = re.compile(r"\w\w+")
# HTTPServer2 has the parts HTTP, Server, 2: capitals up to the last one before a small letter, a capital and small
# letters, digits.
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
MAX_WORD_CHARS = 100  # a longer word is data, such as Base64
MAX_KNOWN = 1_000_000  # words whose parts are remembered
KEYWORDS = """
abstract assert boolean break byte case catch char class const continue default do double else enum extends false final
finally float for goto if implements import instanceof int interface long native new null package private protected
public return short static strictfp super switch synchronized this throw throws transient true try void volatile while
"""
JAVA_KEYWORDS = frozenset(KEYWORDS.split())


class CodeWords:
    """Finds the words of texts, lower case: every identifier as a whole, and its parts.

    Identifiers are split at changes of case, digits and underscores: ``HTTPServer`` gives ``httpserver``, ``http`` and
    ``server``. What stands between dots, slashes and other signs is an identifier of its own. Words of one character
    and of more than 100 are left out; those with letters beyond ASCII are not split.

    Args:
        left_out: Words to leave out, lower case; None for English stop words.
        java_keywords: Leave out the keywords of Java too.
    """

    def __init__(self, left_out: Iterable[str] | None = None, java_keywords: bool = False) -> None:
        words = stop_words() if left_out is None else frozenset(left_out)
        self._left_out = words | JAVA_KEYWORDS if java_keywords else words
        self._known: dict[str, list[str]] = {}

    def __call__(self, texts: Iterable[str]) -> list[list[str]]:
        """The words of each text in order."""
        return [self.of_text(text) for text in texts]

    def of_text(self, text: str) -> list[str]:
        """The words of a text in order, each identifier before its parts."""
        found: list[str] = []
        known = self._known
        for word in WORD.findall(text):
            words = known.get(word)
            if words is None:
                words = self._add(word)
            found += words
        return found

    def _add(self, word: str) -> list[str]:
        """The words of an identifier, which are remembered: code repeats its names."""
        if len(word) > MAX_WORD_CHARS:
            return []
        parts = [part.lower() for part in PART.findall(word)] if word.isascii() else []
        # Of __init__, only init is a word, and of __, nothing.
        whole = parts if len(parts) < 2 and word.isascii() else [word.lower(), *parts]
        words = [part for part in whole if len(part) > 1 and part not in self._left_out]
        if len(self._known) < MAX_KNOWN:
            self._known[word] = words
        return words
