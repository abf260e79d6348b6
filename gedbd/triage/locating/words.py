"""Words of code and of reports with their places, to show what the two share."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from gedbd.text.stop_words import stop_words

IDENTIFIER = re.compile(r"[^\W\d]\w*")
# HTTPServer2 -> HTTP, Server, 2
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_A-Za-z]+")
MIN_LENGTH = 3
MAX_LENGTH = 100  # a longer one is no name


class PlacedWord(NamedTuple):
    """A word of a text in lower case, and where it begins and ends."""

    word: str
    start: int
    end: int


def placed_words(text: str) -> Iterator[PlacedWord]:
    """The identifiers and words of a text, and the parts of those that have several, without English stop words.

    ``new HTTPServer`` gives ``new``, ``httpserver``, ``http`` and ``server``.
    """
    for found in IDENTIFIER.finditer(text):
        if found.end() - found.start() > MAX_LENGTH:
            continue
        places = [(found.start(), found.end())]
        parts = [(part.start(), part.end()) for part in PART.finditer(text, found.start(), found.end())]
        places += parts if len(parts) > 1 else []
        for start, end in places:
            word = text[start:end].lower()
            if end - start >= MIN_LENGTH and word not in stop_words():
                yield PlacedWord(word, start, end)


def is_name(word: str) -> bool:
    """Whether a word as written looks like the name of a class, method or field: ``CSVParser``, ``next_line``."""
    parts = PART.findall(word)
    return len(parts) > 1 and not word.isupper()
