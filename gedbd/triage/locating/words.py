"""Words of code and of reports with their places, to show what the two share."""

from collections.abc import Container, Iterator
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
        for word in _of_identifier(found[0]):
            yield PlacedWord(word.word, found.start() + word.start, found.start() + word.end)


class SharedWords:
    """Finds some words in many texts. It remembers identifiers: code repeats its names.

    Args:
        wanted: The words, lower case.
    """

    def __init__(self, wanted: Container[str]) -> None:
        self._wanted = wanted
        self._known: dict[str, list[PlacedWord]] = {}

    def __call__(self, text: str) -> list[PlacedWord]:
        """Those of the ``placed_words`` of a text that are wanted."""
        shared: list[PlacedWord] = []
        for found in WORD.finditer(text):
            words = self._known.get(found[0])
            if words is None:
                words = [word for word in _of_identifier(found[0]) if word.word in self._wanted]
                self._known[found[0]] = words
            first = found.start()
            shared += [PlacedWord(word.word, first + word.start, first + word.end) for word in words]
        return shared


def _of_identifier(identifier: str) -> list[PlacedWord]:
    """The words of an identifier, itself before its parts."""
    if len(identifier) > MAX_WORD_CHARS:
        return []
    places = [(0, len(identifier))]
    if identifier.isascii():
        parts = [part.span() for part in PART.finditer(identifier)]
        places = parts if len(parts) < 2 else [*places, *parts]
    words = [PlacedWord(identifier[start:end].lower(), start, end) for start, end in places]
    return [word for word in words if word.end - word.start >= MIN_LENGTH and word.word not in stop_words()]
