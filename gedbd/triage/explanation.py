"""Explains a match in terms that a triager can check: shared rare words, equal fields, similar sentences."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import product

import numpy as np

from gedbd.text.stop_words import stop_words
from gedbd.triage.report import Explanation, Report

FIELDS = ("product", "component", "version", "os", "priority")
MAX_CHARACTERS = 1_500  # of a description
MAX_SENTENCES = 20  # of a report
MAX_TERMS = 8
MAX_PAIRS = 3
MIN_SENTENCE_LENGTH = 8  # characters; shorter ones are headings or list marks
MIN_SIMILARITY = 0.2

WORD = re.compile(r"(?u)\b\w\w+\b")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+|\n+")


def explain(
    query: Report, candidates: Sequence[Report], rarity: Callable[[Sequence[str]], np.ndarray]
) -> list[Explanation]:
    """Explains why a report matches each of some stored reports.

    Args:
        query: The new report.
        candidates: The stored reports.
        rarity: Weights of words: high for rare ones, 0 for uninformative ones such as stop words.
    """
    texts = [_split_sentences(report) for report in (query, *candidates)]
    words = sorted(set().union(*(sentence for text in texts for sentence in text.values())) - stop_words())
    weights = {word: weight for word, weight in zip(words, rarity(words).tolist(), strict=True) if weight > 0}
    own, *others = [_WeightedSentences(text, weights) for text in texts]
    explanations = []
    for candidate, sentences in zip(candidates, others, strict=True):
        terms = own.shared_terms(sentences)
        pairs = own.similar_sentences(sentences)
        explanations.append(Explanation(terms, equal_fields(query, candidate), pairs))
    return explanations


def equal_fields(first: Report, second: Report) -> dict[str, str]:
    """Fields that are not empty and equal in both reports, in upper or lower case."""
    equal = {}
    for name in FIELDS:
        mine = getattr(first, name).strip()
        theirs = getattr(second, name).strip()
        if mine and mine.lower() == theirs.lower():
            equal[name] = theirs
    return equal


class _WeightedSentences:
    """The sentences of a report, the sum of weights of each, and the sentences in which each weighted word occurs."""

    def __init__(self, text: Mapping[str, set[str]], weights: Mapping[str, float]) -> None:
        self.text = list(text)
        self.weights = weights
        # Sorted: sets differ in order from process to process, and the sum with them in its last bit.
        weighted = [sorted(words & weights.keys()) for words in text.values()]
        self.sums = [sum(map(weights.__getitem__, words)) for words in weighted]
        self.places: dict[str, list[int]] = {}
        for place, words in enumerate(weighted):
            for word in words:
                self.places.setdefault(word, []).append(place)

    def is_long(self, place: int) -> bool:
        """Whether a sentence is more than a heading or a list mark."""
        return len(self.text[place]) >= MIN_SENTENCE_LENGTH

    def shared_terms(self, other: "_WeightedSentences") -> tuple[str, ...]:
        """The rarest words of both."""
        common = self.places.keys() & other.places.keys()
        return tuple(sorted(common, key=lambda word: (-self.weights[word], word))[:MAX_TERMS])

    def similar_sentences(self, other: "_WeightedSentences") -> tuple[tuple[str, str, float], ...]:
        """Pairs of sentences with the highest weighted Dice coefficient, each sentence once."""
        # By words, not by pairs of sentences: most pairs share no word at all.
        overlap: dict[tuple[int, int], float] = {}
        for word in sorted(self.places.keys() & other.places.keys()):
            mine = filter(self.is_long, self.places[word])
            theirs = filter(other.is_long, other.places[word])
            for pair in product(mine, theirs):
                overlap[pair] = overlap.get(pair, 0.0) + self.weights[word]
        similarity = {pair: 2 * both / (self.sums[pair[0]] + other.sums[pair[1]]) for pair, both in overlap.items()}
        found: list[tuple[str, str, float]] = []
        used: set[tuple[int, int]] = set()
        for pair in sorted(similarity, key=lambda pair: (-similarity[pair], pair)):
            if len(found) == MAX_PAIRS or similarity[pair] < MIN_SIMILARITY:
                break
            if all(pair[0] != mine and pair[1] != theirs for mine, theirs in used):
                used.add(pair)
                rounded = round(min(similarity[pair], 1.0), 3)
                found.append((self.text[pair[0]], other.text[pair[1]], rounded))
        return tuple(found)


def _split_sentences(report: Report) -> dict[str, set[str]]:
    """The words of each sentence: of the title, and of the sentences and lines at the beginning of the description."""
    body = SENTENCE_END.split(report.description[:MAX_CHARACTERS])
    stripped = [part.strip() for part in (report.title, *body)]
    sentences = [part for part in stripped if part]
    return {part: set(WORD.findall(part.lower())) for part in sentences[:MAX_SENTENCES]}
