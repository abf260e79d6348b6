"""Why two reports look alike, in words that a triager can check."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gedbd.matching.report import Report, Why

FIELDS = ("product", "component", "version", "os", "priority")
CHARACTERS, SENTENCES, MOST_WORDS, MOST_SENTENCES = 4_000, 30, 8, 3
FEWEST_LETTERS = 8
CLOSE = 0.2

WORD = re.compile(r"(?u)\b\w\w+\b")
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


def explain(query: Report, found: Sequence[Report], rarity: Callable[[Sequence[str]], np.ndarray]) -> list[Why]:
    """What speaks for each of some stored reports.

    Args:
        query: The new report.
        found: Stored ones.
        rarity: Weights of words, high for rare ones and 0 for those that tell nothing, such as stop words.
    """
    texts = [_taken_apart(report) for report in (query, *found)]
    words = sorted({word for text in texts for sentence in text.values() for word in sentence})
    weights = dict(zip(words, rarity(words).tolist(), strict=True))
    mine = texts[0]
    return [
        Why(_shared(mine, theirs, weights), agreeing(query, report), _closest(mine, theirs, weights))
        for report, theirs in zip(found, texts[1:], strict=True)
    ]


def agreeing(first: Report, second: Report) -> dict[str, str]:
    """Fields that both reports have and that are the same, upper and lower case being one."""
    mine = {name: getattr(first, name).strip() for name in FIELDS}
    theirs = {name: getattr(second, name).strip() for name in FIELDS}
    return {name: theirs[name] for name in FIELDS if mine[name] and mine[name].lower() == theirs[name].lower()}


def _taken_apart(report: Report) -> dict[str, set[str]]:
    """The title, and the sentences and lines at the beginning of the description, each with its words."""
    body = SENTENCE.split(report.description[:CHARACTERS])
    parts = [part.strip() for part in (report.title, *body)]
    return {part: set(WORD.findall(part.lower())) for part in [part for part in parts if part][:SENTENCES]}


def _shared(
    mine: Mapping[str, set[str]], theirs: Mapping[str, set[str]], weights: Mapping[str, float]
) -> tuple[str, ...]:
    common = set().union(*mine.values()) & set().union(*theirs.values())
    rare = [word for word in common if weights[word] > 0]
    return tuple(sorted(rare, key=lambda word: (-weights[word], word))[:MOST_WORDS])


def _closest(
    mine: Mapping[str, set[str]], theirs: Mapping[str, set[str]], weights: Mapping[str, float]
) -> tuple[tuple[str, str, float], ...]:
    """Pairs of sentences with the highest weighted Dice coefficient, each sentence once."""
    sums = [{text: sum(weights[word] for word in words) for text, words in side.items()} for side in (mine, theirs)]
    alike = [
        (2 * sum(weights[word] for word in common) / max(sums[0][first] + sums[1][second], 1e-9), first, second)
        for first, own in mine.items()
        for second, other in theirs.items()
        if min(len(first), len(second)) >= FEWEST_LETTERS and (common := own & other)
    ]
    found: list[tuple[str, str, float]] = []
    for share, first, second in sorted(alike, key=lambda pair: -pair[0]):
        if len(found) == MOST_SENTENCES or share < CLOSE:
            break
        if all(first != before[0] and second != before[1] for before in found):
            found.append((first, second, round(min(share, 1.0), 3)))
    return tuple(found)
