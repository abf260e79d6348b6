"""Why two reports look alike, in words that a triager can check."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from gedbd.matching.report import Report, Why

FIELDS = ("product", "component", "version", "os", "priority")
CHARACTERS, SENTENCES, MOST_WORDS, MOST_SENTENCES = 4_000, 30, 8, 3
FEWEST_LETTERS = 8
CLOSE = 0.2

WORD = re.compile(r"(?u)\b\w\w+\b")
SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")


class Asked:
    """A query, taken apart once for all its candidates.

    Args:
        report: The query.
        rarity: Weights of words, high for rare ones and 0 for those that tell nothing, such as stop words.
    """

    def __init__(self, report: Report, rarity: Callable[[Sequence[str]], np.ndarray]) -> None:
        self.report = report
        self.sentences = sentences_of(report)
        self.words = sorted({word for sentence in self.sentences for word in WORD.findall(sentence.lower())})
        self._rarity_of = rarity
        self.rarity = rarity(self.words)
        self.places = {
            word: place for place, (word, rare) in enumerate(zip(self.words, self.rarity, strict=True)) if rare > 0
        }
        self.matrix = self._shared_words(self.sentences)
        self.weight = self.matrix @ self.rarity

    def why(self, stored: Report) -> Why:
        """What speaks for a stored report."""
        sentences = sentences_of(stored)
        theirs = self._shared_words(sentences)
        shared = [self.words[place] for place in np.argsort(-self.rarity, kind="stable") if theirs[:, place].any()]
        return Why(tuple(shared[:MOST_WORDS]), agreeing(self.report, stored), self._closest(sentences, theirs))

    def _shared_words(self, sentences: Sequence[str]) -> np.ndarray:
        """Which of the query's words each sentence has, ``(S, W)`` of 0 and 1."""
        matrix = np.zeros((len(sentences), len(self.words)), dtype=np.float32)
        for row, sentence in enumerate(sentences):
            matrix[row, [self.places[word] for word in set(WORD.findall(sentence.lower())) if word in self.places]] = 1
        return matrix

    def _closest(self, sentences: Sequence[str], theirs: np.ndarray) -> tuple[tuple[str, str, float], ...]:
        """Pairs of sentences with the highest weighted Dice coefficient, each sentence once."""
        if not len(sentences) or not len(self.sentences):
            return ()
        common = (self.matrix * self.rarity) @ theirs.T
        promising = np.flatnonzero(common.max(axis=0) > 0).tolist()
        weight = np.array(
            [self._rarity_of(list(set(WORD.findall(sentences[place].lower())))).sum() for place in promising]
        )
        alike = 2 * common[:, promising] / (self.weight[:, None] + weight).clip(1e-9)
        found: list[tuple[str, str, float]] = []
        for flat in np.argsort(-alike, axis=None, kind="stable").tolist():
            mine, other = divmod(flat, alike.shape[1])
            if len(found) == MOST_SENTENCES or alike[mine, other] < CLOSE:
                break
            pair = self.sentences[mine], sentences[promising[other]]
            if all(pair[0] != before[0] and pair[1] != before[1] for before in found):
                found.append((*pair, round(min(float(alike[mine, other]), 1.0), 3)))
        return tuple(found)


def agreeing(first: Report, second: Report) -> dict[str, str]:
    """Fields that both reports have and that are the same, upper and lower case being one."""
    mine = {name: getattr(first, name).strip() for name in FIELDS}
    theirs = {name: getattr(second, name).strip() for name in FIELDS}
    return {name: theirs[name] for name in FIELDS if mine[name] and mine[name].lower() == theirs[name].lower()}


def sentences_of(report: Report) -> list[str]:
    """The title, and the sentences and lines at the beginning of the description."""
    body = SENTENCE.split(report.description[:CHARACTERS])
    parts = [part.strip() for part in (report.title, *body)]
    return [part for part in parts if len(part) >= FEWEST_LETTERS][:SENTENCES]
