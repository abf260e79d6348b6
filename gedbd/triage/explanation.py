"""Explains a match by shared rare words, equal fields, similar sentences and the ranker's features."""

import re
from collections.abc import Callable, Mapping, Sequence, Set
from functools import cache, cached_property
from itertools import product
from typing import NamedTuple

import numpy as np
from rich.cells import cell_len

from gedbd.corpora.bug_report import Explanation, Report
from gedbd.io.console import cut_cells
from gedbd.text.cleaning import is_code_line, is_form
from gedbd.text.words import find_words, normalise, shared_phrases, stop_words

MAX_REASONS = 5
MAX_NAMED = 3  # identifiers
MOST_FREQUENT = 5  # maximum number of reports that have a rare error line, in a small tracker
MOST_FREQUENT_SHARE = 0.001  # of all reports, likewise in a large one
MAX_LINE_CELLS = 70
MIN_SHARE = 0.05  # of all positive contributions to a score
SAME_FIELDS = ("same product", "same component", "same version", "same priority")
NOT_SIMILARITY = {"days", "group size"}
MAX_DAYS = 7  # for closeness in time to be a reason
FAMILIES = {
    "title": ("title", "same title", "report title"),
    "text": ("text", "report text", "dense", "sum"),
    "identifiers": ("identifiers", "query identifiers"),
    "days": ("days", "reports since", "reports of component since"),
    "group size": ("group size",),
    **{name: (name,) for name in SAME_FIELDS},
}
FIELDS = ("product", "component", "version", "os", "priority")
MAX_CHARACTERS = 1_500  # of a description
MAX_SENTENCES = 20  # of a report
MAX_TERMS = 8
MAX_PAIRS = 3
# Columns of a terminal (two for an ideograph); shorter sentences are headings or list marks.
MIN_SENTENCE_LENGTH = 8
MIN_SIMILARITY = 0.2
SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
STOPS = "\u3002\uff01\uff1f\uff61"  # ideographic, wide ! and ?, narrow
CLOSING = "\u300d\u300f\uff09\u2019\u201d"  # brackets and quotation marks
# In Chinese and Japanese, no blank follows a full stop, but a closing mark may.
ANY_SENTENCE_END = re.compile(
    rf"{SENTENCE_END.pattern}|(?<=[{STOPS}])(?![{STOPS}{CLOSING}])\s*|(?<=[{STOPS}][{CLOSING}])\s*"
)


def explain(
    query: Report, candidates: Sequence[Report], rarity: Callable[[Sequence[str]], np.ndarray]
) -> list[Explanation]:
    """Explains the matches of a report; ``rarity`` weights words: high for rare ones, 0 for stop words and the like."""
    query_sentences = _split_sentences(query)
    query_words = set().union(*query_sentences.values()) - stop_words()
    # Sentences that share no word with the query are skipped, so that their words need not be looked up.
    texts = []
    for report in candidates:
        sentences = _split_sentences(report)
        texts.append({sentence: words for sentence, words in sentences.items() if not words.isdisjoint(query_words)})
    words = sorted(query_words.union(*(sentence for text in texts for sentence in text.values())) - stop_words())
    weights = {word: weight for word, weight in zip(words, rarity(words).tolist(), strict=True) if weight > 0}
    first = _WeightedSentences(query_sentences, weights, weights.keys())
    explanations = []
    for candidate, text in zip(candidates, texts, strict=True):
        second = _WeightedSentences(text, weights, first.words)
        fields = equal_fields(query, candidate)
        explanations.append(Explanation(first.shared_terms(second), fields, first.similar_sentences(second)))
    return explanations


def equal_fields(first: Report, second: Report) -> dict[str, str]:
    """Non-empty fields that are equal in both reports, ignoring case."""
    equal = {}
    for name in FIELDS:
        value = getattr(second, name).strip()
        if value and value.lower() == getattr(first, name).strip().lower():
            equal[name] = value
    return equal


class _WeightedSentences:
    """The sentences of a report and the weights of their words.

    Args:
        text: The words of each sentence.
        weights: Weights of words.
        compared: The words to compare.
    """

    def __init__(self, text: Mapping[str, set[str]], weights: Mapping[str, float], compared: Set[str]) -> None:
        self.text = list(text)
        self.weights = weights
        self.words: set[str] = set()  # the compared words in the report
        # numbers of the sentences with each of these words, without headings and list marks
        self.sentences_of: dict[str, list[int]] = {}
        self._all_words = list(text.values())
        self._sums: dict[int, float] = {}
        for number, (sentence, words) in enumerate(text.items()):
            shared = words & compared
            self.words |= shared
            if len(sentence) >= MIN_SENTENCE_LENGTH or cell_len(sentence) >= MIN_SENTENCE_LENGTH:
                for word in shared:
                    self.sentences_of.setdefault(word, []).append(number)

    def sum_of(self, number: int) -> float:
        """The sum of the weights of all words of a sentence, compared or not."""
        if number not in self._sums:
            # Sorted: the order of a set differs between processes, which would change the last bit of the sum.
            words = sorted(self._all_words[number] & self.weights.keys())
            self._sums[number] = sum(map(self.weights.__getitem__, words))
        return self._sums[number]

    @cached_property
    def _non_ascii(self) -> str:
        """The non-ASCII sentences, normalised."""
        return "\n".join(normalise(sentence) for sentence in self.text if not sentence.isascii())

    def shared_terms(self, other: "_WeightedSentences") -> tuple[str, ...]:
        """The rarest shared words, with pairs of Chinese, Japanese and Korean characters joined into phrases."""
        weight_of = {word: self.weights[word] for word in self.words & other.words}
        if not all(map(str.isascii, weight_of)):
            weight_of = shared_phrases(weight_of, self._non_ascii, other._non_ascii)
        return tuple(sorted(weight_of, key=lambda word: (-weight_of[word], word))[:MAX_TERMS])

    def similar_sentences(self, other: "_WeightedSentences") -> tuple[tuple[str, str, float], ...]:
        """Pairs of sentences with the highest weighted Dice coefficient, each sentence once."""
        # By words, as most pairs of sentences share none.
        overlap: dict[tuple[int, int], float] = {}
        for word in sorted(self.sentences_of.keys() & other.sentences_of.keys()):
            for pair in product(self.sentences_of[word], other.sentences_of[word]):
                overlap[pair] = overlap.get(pair, 0.0) + self.weights[word]
        similar: list[tuple[float, int, int]] = []
        for (first, second), shared_weight in overlap.items():
            similarity = 2 * shared_weight / (self.sum_of(first) + other.sum_of(second))
            if similarity >= MIN_SIMILARITY:
                similar.append((-similarity, first, second))  # the most similar pair is sorted first
        pairs: list[tuple[str, str, float]] = []
        used_first: set[int] = set()
        used_second: set[int] = set()
        for negative, first, second in sorted(similar):
            if len(pairs) == MAX_PAIRS:
                break
            is_used = first in used_first or second in used_second
            if not is_used and _is_quotable(self.text[first]) and _is_quotable(other.text[second]):
                used_first.add(first)
                used_second.add(second)
                pairs.append((self.text[first], other.text[second], round(min(-negative, 1.0), 3)))
        return tuple(pairs)


def _is_quotable(sentence: str) -> bool:
    """Whether a sentence is worth quoting: code, headings and labels are not."""
    return not is_code_line(sentence) and not is_form(sentence)


def _split_sentences(report: Report) -> dict[str, set[str]]:
    """The words of the title and of each sentence or line at the beginning of the description."""
    # Lines first: a pattern with both ends of a sentence takes twice as long.
    lines = report.description[:MAX_CHARACTERS].split("\n")
    body = [part for line in lines for part in (SENTENCE_END if line.isascii() else ANY_SENTENCE_END).split(line)]
    stripped = [part.strip() for part in (report.title, *body)]
    sentences = [part for part in stripped if part]
    return {part: set(find_words(part)) for part in sentences[:MAX_SENTENCES]}


class SharedLine(NamedTuple):
    """A line about an error, without numbers and signs, that ``frequency`` of ``num_reports`` stored reports have."""

    text: str
    frequency: int
    num_reports: int

    @property
    def is_rare(self) -> bool:
        """Whether few reports have it, unlike a message such as "an error occurred"."""
        return self.frequency <= max(MOST_FREQUENT, MOST_FREQUENT_SHARE * self.num_reports)

    def __str__(self) -> str:
        counted = f"{self.frequency:,} of {self.num_reports:,} reports"
        return f'same error "{cut_cells(self.text, MAX_LINE_CELLS)}", in {counted}'


def reasons(
    contributions: Mapping[str, float],
    values: Mapping[str, float],
    identifiers: Sequence[str],
    error: SharedLine | None,
) -> tuple[str, ...]:
    """Short phrases: a rare shared line about an error, then the families of features by their contributions.

    Families without a contribution or without a fact to state (such as different components) are left out. Features
    that do not indicate similarity, such as group size, are never the only reason.

    Args:
        contributions: Contribution of each feature to a candidate's score, see ``ReportRanker.contributions``.
        values: The candidate's features by name.
        identifiers: Shared identifiers, rarest first.
        error: The rarest shared line about an error, or None.
    """
    totals = dict.fromkeys(FAMILIES, 0.0)
    for name, value in contributions.items():
        family = _family(name)
        if family is not None:
            totals[family] += value
    min_total = MIN_SHARE * sum(value for value in totals.values() if value > 0)
    phrases = {"errors": str(error)} if error is not None and error.is_rare else {}
    for family, total in sorted(totals.items(), key=lambda item: -item[1]):
        phrase = _phrase(family, values, identifiers)
        if total > 0 and total >= min_total and phrase:
            phrases[family] = phrase
    return () if phrases.keys() <= NOT_SIMILARITY else tuple(phrases.values())[:MAX_REASONS]


@cache
def _family(name: str) -> str | None:
    """The family of a feature; None if it is never a reason."""
    for family, prefixes in FAMILIES.items():
        if any(name == prefix or name.startswith(f"{prefix} ") for prefix in prefixes):
            return family
    return None


def _phrase(family: str, values: Mapping[str, float], identifiers: Sequence[str]) -> str:
    """A phrase that states the fact of a family, or empty."""
    if family in SAME_FIELDS:
        return family if values[family] == 1 else ""
    if family == "title":
        return "same title" if values["same title"] == 1 else "similar title" if values["title shared"] > 0 else ""
    if family == "identifiers":
        named = ", ".join(identifiers[:MAX_NAMED])
        more = ", ..." if len(identifiers) > MAX_NAMED else ""
        return f"shared {named}{more}" if identifiers else ""
    if family == "days":
        return _days(values["days"])
    if family == "group size":
        size = round(float(np.exp(values["group size"])))
        return f"a group of {size} reports" if size > 1 else ""
    return "similar text"


def _days(logarithm: float) -> str:
    """The time between two reports in words, from log(1 + days)."""
    days = float(np.expm1(logarithm))
    if np.isnan(days) or round(days) > MAX_DAYS:
        return ""
    if days < 1:
        return "less than a day apart"
    count = round(days)
    return f"{count} day{'s' if count > 1 else ''} apart"
