"""Which hunks of a commit match a report, and which of their lines and words."""

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from gedbd.localization.repository.commits import Commit, FileChange, Hunk
from gedbd.text.words import CJK_RUN, MAX_WORD_CHARS, PART, RUN_OR_WORD, WORD, normalise, pairs_of, stop_words

MIN_LENGTH = 3
CONTEXT_WEIGHT = 0.5  # of a word that only unchanged lines have
MAX_LINES = 5
MAX_TERMS = 8


@dataclass(frozen=True)
class MatchedLine:
    """A line of a hunk.

    Attributes:
        sign: ``+``, ``-`` or a blank.
        number: Its number in the file after the change, of a removed line before it.
        text: The line.
        spans: Where the words of the report are, as (first character, character behind the last one).
    """

    sign: str
    number: int
    text: str
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class MatchedHunk:
    """A hunk that shares words with a report.

    Attributes:
        path: The file.
        old_start: See ``gedbd.localization.repository.commits.Hunk``; likewise the following.
        old_count: Number of lines before the change.
        new_start: First line after the change.
        new_count: Number of lines after the change.
        section: The class or function around it.
        score: The sum of the weights of the shared words; of those that only unchanged lines have, half.
        terms: The shared words, those with the largest weight first.
        lines: The lines that match best, in order.
    """

    path: str
    old_start: int
    old_count: int
    new_start: int
    new_count: int
    section: str
    score: float
    terms: tuple[str, ...]
    lines: tuple[MatchedLine, ...]


def match_hunks(commit: Commit, weights: Mapping[str, float], max_hunks: int) -> tuple[MatchedHunk, ...]:
    """The hunks of a commit that match a report best, the best first; those that share no word are left out.

    Args:
        commit: The commit.
        weights: The words of the report, lower case, with their weights.
        max_hunks: How many hunks.
    """
    shared_words = SharedWords(weights)
    found = [_match(change, hunk, weights, shared_words) for change in commit.files for hunk in change.hunks]
    matched = [hunk for hunk in found if hunk is not None]
    return tuple(sorted(matched, key=lambda hunk: -hunk.score)[:max_hunks])


class PlacedWord(NamedTuple):
    """A word of a text in lower case, and where it begins and ends."""

    word: str
    start: int
    end: int


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


def _match(
    change: FileChange, hunk: Hunk, weights: Mapping[str, float], shared_words: SharedWords
) -> MatchedHunk | None:
    changed: set[str] = set()
    unchanged: set[str] = set()
    lines: list[tuple[float, MatchedLine]] = []
    for line in _numbered(hunk):
        shared = shared_words(line.text)
        if not shared:
            continue
        terms = {word.word for word in shared}
        is_changed = line.sign != " "
        (changed if is_changed else unchanged).update(terms)
        # The exact sum: the order of a set differs between processes.
        value = fsum(weights[term] for term in terms) * (1.0 if is_changed else CONTEXT_WEIGHT)
        spans = joined_spans([(word.start, word.end) for word in shared])
        lines.append((value, MatchedLine(line.sign, line.number, line.text, spans)))
    if not lines:
        return None
    score = fsum(weights[term] for term in changed)
    score += CONTEXT_WEIGHT * fsum(weights[term] for term in unchanged - changed)
    best = sorted(range(len(lines)), key=lambda place: -lines[place][0])[:MAX_LINES]
    terms_in_order = sorted(changed | unchanged, key=lambda term: (-weights[term], term))[:MAX_TERMS]
    return MatchedHunk(
        change.path,
        hunk.old_start,
        hunk.old_count,
        hunk.new_start,
        hunk.new_count,
        hunk.section,
        score,
        tuple(terms_in_order),
        tuple(lines[place][1] for place in sorted(best)),
    )


def _numbered(hunk: Hunk) -> Iterator[MatchedLine]:
    """The lines with their numbers, without places of words."""
    old = hunk.old_start
    new = hunk.new_start
    for line in hunk.lines:
        sign = line[:1]
        yield MatchedLine(sign, old if sign == "-" else new, line[1:].removesuffix("\r"), ())
        old += sign != "+"
        new += sign != "-"


def joined_spans(spans: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Spans in order, those that overlap as one: (0, 9), (0, 3), (12, 15) become (0, 9), (12, 15)."""
    joined: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(joined[-1][1], end))
        else:
            joined.append((start, end))
    return tuple(joined)


def placed_words(text: str) -> Iterator[PlacedWord]:
    """The words that ``gedbd.text.words`` finds, with their places; those below three characters are left out.

    ``new HTTPServer`` gives ``new``, ``httpserver``, ``http`` and ``server``.
    """
    for found in WORD.finditer(text):
        for word in _of_identifier(found[0]):
            yield PlacedWord(word.word, found.start() + word.start, found.start() + word.end)


def _of_identifier(identifier: str) -> list[PlacedWord]:
    """The words of an identifier, itself before its parts."""
    if CJK_RUN.search(identifier):
        return [
            PlacedWord(word.word, piece.start() + word.start, piece.start() + word.end)
            for piece in RUN_OR_WORD.finditer(identifier)
            for word in (_of_run(piece[0]) if piece[1] else _of_identifier(piece[0]))
        ]
    if len(identifier) > MAX_WORD_CHARS:
        return []
    places = [(0, len(identifier))]
    if identifier.isascii():
        parts = [part.span() for part in PART.finditer(identifier)]
        places = parts if len(parts) < 2 else [*places, *parts]
    words = [PlacedWord(normalise(identifier[start:end]), start, end) for start, end in places]
    return [word for word in words if word.end - word.start >= MIN_LENGTH and word.word not in stop_words()]


def _of_run(run: str) -> list[PlacedWord]:
    return [PlacedWord(pair, place, place + len(pair)) for place, pair in enumerate(pairs_of(run))]
