"""Why two reports look alike, in words that a triager can check."""

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import product

import numpy as np

from gedbd.triage.report import Report, Why

FIELDS = ("product", "component", "version", "os", "priority")
CHARACTERS, SENTENCES, MOST_WORDS, MOST_SENTENCES = 1_500, 20, 8, 3
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
    rare = zip(words, rarity(words).tolist(), strict=True)
    weights = {word: weight for word, weight in rare if weight > 0 and word not in stop_words()}
    mine = _Sentences(texts[0], weights)
    return [
        Why(mine.shared(theirs), agreeing(query, report), mine.closest(theirs))
        for report, theirs in zip(found, (_Sentences(text, weights) for text in texts[1:]), strict=True)
    ]


@cache
def stop_words() -> frozenset[str]:
    """The English stop words of scikit-learn, from a copy: its import takes longer than a search."""
    return frozenset((files("gedbd.triage") / "stop_words.txt").read_text(encoding="utf-8").split())


def agreeing(first: Report, second: Report) -> dict[str, str]:
    """Fields that both reports have and that are the same, upper and lower case being one."""
    mine = {name: getattr(first, name).strip() for name in FIELDS}
    theirs = {name: getattr(second, name).strip() for name in FIELDS}
    return {name: theirs[name] for name in FIELDS if mine[name] and mine[name].lower() == theirs[name].lower()}


class _Sentences:
    """The sentences of a report, what their words weigh, and where each word of any weight stands."""

    def __init__(self, text: Mapping[str, set[str]], weights: Mapping[str, float]) -> None:
        self.text, self.weights = list(text), weights
        # In a fixed order, for the order in a set is another one in each process, and so is the last bit of a sum then.
        self.sums = [sum(weights.get(word, 0.0) for word in sorted(words)) for words in text.values()]
        self.places: dict[str, list[int]] = {}
        for place, words in enumerate(text.values()):
            for word in words:
                if word in weights:
                    self.places.setdefault(word, []).append(place)

    def is_long(self, place: int) -> bool:
        """Whether a sentence is more than a heading or a list mark."""
        return len(self.text[place]) >= FEWEST_LETTERS

    def shared(self, theirs: "_Sentences") -> tuple[str, ...]:
        """The rarest words of both."""
        common = self.places.keys() & theirs.places.keys()
        return tuple(sorted(common, key=lambda word: (-self.weights[word], word))[:MOST_WORDS])

    def closest(self, theirs: "_Sentences") -> tuple[tuple[str, str, float], ...]:
        """Pairs of sentences with the highest weighted Dice coefficient, each sentence once."""
        overlap: dict[tuple[int, int], float] = {}
        for word in sorted(self.places.keys() & theirs.places.keys()):
            for pair in product(filter(self.is_long, self.places[word]), filter(theirs.is_long, theirs.places[word])):
                overlap[pair] = overlap.get(pair, 0.0) + self.weights[word]
        alike = {pair: 2 * both / (self.sums[pair[0]] + theirs.sums[pair[1]]) for pair, both in overlap.items()}
        found: list[tuple[str, str, float]] = []
        used: set[tuple[int, int]] = set()
        for pair in sorted(alike, key=lambda pair: (-alike[pair], pair)):
            if len(found) == MOST_SENTENCES or alike[pair] < CLOSE:
                break
            if all(pair[0] != mine and pair[1] != other for mine, other in used):
                used.add(pair)
                found.append((self.text[pair[0]], theirs.text[pair[1]], round(min(alike[pair], 1.0), 3)))
        return tuple(found)


def _taken_apart(report: Report) -> dict[str, set[str]]:
    """The title, and the sentences and lines at the beginning of the description, each with its words."""
    body = SENTENCE.split(report.description[:CHARACTERS])
    parts = [part.strip() for part in (report.title, *body)]
    return {part: set(WORD.findall(part.lower())) for part in [part for part in parts if part][:SENTENCES]}
