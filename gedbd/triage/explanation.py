"""Explains a match in terms that a triager can check: shared rare words, equal fields, similar sentences."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
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

WORD = re.compile(r"\w\w+")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")


def explain(
    query: Report, candidates: Sequence[Report], rarity: Callable[[Sequence[str]], np.ndarray]
) -> list[Explanation]:
    """Explains why a report matches each of some stored reports.

    Args:
        query: The new report.
        candidates: The stored reports.
        rarity: Weights of words: high for rare ones, 0 for uninformative ones such as stop words.
    """
    mine = _split_sentences(query)
    asked = set().union(*mine.values()) - stop_words()
    # Sentences that share no word with the query are left out, so that their words need not be looked up.
    texts = [_sentences_with(asked, _split_sentences(report)) for report in candidates]
    words = sorted(asked.union(*(sentence for text in texts for sentence in text.values())) - stop_words())
    weights = {word: weight for word, weight in zip(words, rarity(words).tolist(), strict=True) if weight > 0}
    own = _WeightedSentences(mine, weights, weights.keys())
    others = [_WeightedSentences(text, weights, own.words) for text in texts]
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
    """The sentences of a report and the weighted words that are compared.

    Args:
        text: The words of each sentence.
        weights: Weights of words.
        compared: The words to compare.

    Attributes:
        words: Those of them that the report has.
        places: The sentences in which each of them occurs, without headings and list marks.
    """

    def __init__(self, text: Mapping[str, set[str]], weights: Mapping[str, float], compared: Set[str]) -> None:
        self.text = list(text)
        self.weights = weights
        self.words: set[str] = set()
        self.places: dict[str, list[int]] = {}
        self._all_words = list(text.values())
        self._sums: dict[int, float] = {}
        for place, (sentence, words) in enumerate(text.items()):
            found = words & compared
            self.words |= found
            if len(sentence) >= MIN_SENTENCE_LENGTH:
                for word in found:
                    self.places.setdefault(word, []).append(place)

    def sum_at(self, place: int) -> float:
        """The sum of the weights of all words of a sentence, compared or not."""
        if place not in self._sums:
            # Sorted: sets differ in order from process to process, and the sum with them in its last bit.
            words = sorted(self._all_words[place] & self.weights.keys())
            self._sums[place] = sum(map(self.weights.__getitem__, words))
        return self._sums[place]

    def shared_terms(self, other: "_WeightedSentences") -> tuple[str, ...]:
        """The rarest words of both."""
        common = self.words & other.words
        return tuple(sorted(common, key=lambda word: (-self.weights[word], word))[:MAX_TERMS])

    def similar_sentences(self, other: "_WeightedSentences") -> tuple[tuple[str, str, float], ...]:
        """Pairs of sentences with the highest weighted Dice coefficient, each sentence once."""
        # By words, not by pairs of sentences: most pairs share no word at all.
        overlap: dict[tuple[int, int], float] = {}
        for word in sorted(self.places.keys() & other.places.keys()):
            for pair in product(self.places[word], other.places[word]):
                overlap[pair] = overlap.get(pair, 0.0) + self.weights[word]
        similar: list[tuple[float, int, int]] = []
        for (mine, theirs), both in overlap.items():
            similarity = 2 * both / (self.sum_at(mine) + other.sum_at(theirs))
            if similarity >= MIN_SIMILARITY:
                similar.append((-similarity, mine, theirs))  # the most similar pair is sorted first
        found: list[tuple[str, str, float]] = []
        used: set[tuple[int, int]] = set()
        for negative, mine, theirs in sorted(similar):
            if len(found) == MAX_PAIRS:
                break
            if all(mine != first and theirs != second for first, second in used):
                used.add((mine, theirs))
                found.append((self.text[mine], other.text[theirs], round(min(-negative, 1.0), 3)))
        return tuple(found)


def _split_sentences(report: Report) -> dict[str, set[str]]:
    """The words of each sentence: of the title, and of the sentences and lines at the beginning of the description."""
    # Lines first: a pattern with both ends of a sentence takes twice as long.
    lines = report.description[:MAX_CHARACTERS].split("\n")
    body = [part for line in lines for part in SENTENCE_END.split(line)]
    stripped = [part.strip() for part in (report.title, *body)]
    sentences = [part for part in stripped if part]
    return {part: set(WORD.findall(part.lower())) for part in sentences[:MAX_SENTENCES]}


def _sentences_with(words: Set[str], text: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """The sentences that have any of some words."""
    return {sentence: own for sentence, own in text.items() if not own.isdisjoint(words)}
