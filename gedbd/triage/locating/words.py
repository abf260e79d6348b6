"""Words of code and of reports with their places, to show what the two share."""

from collections.abc import Iterator
from typing import NamedTuple

from gedbd.text.code_words import MAX_WORD_CHARS, PART, WORD
from gedbd.text.stop_words import stop_words

MIN_LENGTH = 3


class PlacedWord(NamedTuple):
    """A word of a text in lower case, and where it begins and ends."""

    word: str
    start: int
    end: int


def placed_words(text: str) -> Iterator[PlacedWord]:
    """The words that ``gedbd.text.code_words`` finds, with their places; those below three characters are left out.

    ``new HTTPServer`` gives ``new``, ``httpserver``, ``http`` and ``server``.
    """
    for found in WORD.finditer(text):
        start, end = found.span()
        if end - start > MAX_WORD_CHARS:
            continue
        places = [(start, end)]
        if found[0].isascii():
            parts = [part.span() for part in PART.finditer(text, start, end)]
            places = parts if len(parts) < 2 else [*places, *parts]
        for first, last in places:
            word = text[first:last].lower()
            if last - first >= MIN_LENGTH and word not in stop_words():
                yield PlacedWord(word, first, last)
