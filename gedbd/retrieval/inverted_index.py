"""BM25 over texts that are added one after the other.

The scores are those of bm25s (method ``lucene``), equal to the last bit. bm25s weighs every word of every text once,
and would have to do so again after each text that is added, because a weight depends on how many texts there are and
how long they are. Here counts are stored and weighed for each query: a text is found as soon as it is added, and a
replay of the tracker's history can leave out the texts that did not exist yet.
"""

from collections.abc import Mapping, Sequence
from copy import copy
from itertools import chain
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.templates import join_texts
from gedbd.retrieval.growing_arrays import GrowingArray
from gedbd.text.words import find_words

MAX_CHARACTERS = 2000  # of a description
MIN_COMMON_SHARE = 0.1  # of the texts
MAX_COMMON_TERMS = 128
SUMMED_BLOCK = 65_536  # texts whose sums stay in the processor's cache
K1 = 1.5
B = 0.75
TAIL = 512  # texts in the small part before it is merged into the large one
# The English ones of Lucene and bm25s.
ENGLISH = """
a an and are as at be but by for if in into is it no not of on or such that the their then there these they this to was
will with
"""
STOP_WORDS = frozenset(ENGLISH.split())


def short_texts(table: pd.DataFrame, max_characters: int) -> list[str]:
    """Title and the beginning of the description of each row."""
    descriptions = [text[:max_characters] for text in table["description"]]
    return join_texts(table["title"], descriptions)


def words_of(text: str) -> list[str]:
    """The words of a text in order, see ``gedbd.text.words``, without English stop words.

    For ASCII text they equal those of ``bm25s.tokenize``.
    """
    return [word for word in find_words(text) if word not in STOP_WORDS]


def words(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text, see ``words_of``."""
    return list(map(words_of, texts))


class Vocabulary:
    """A number for each term, in the order in which terms were learned."""

    def __init__(self, terms: Sequence[str] = ()) -> None:
        self.terms = list(terms)
        self._numbers = {term: number for number, term in enumerate(self.terms)}

    def __len__(self) -> int:
        return len(self.terms)

    def __getitem__(self, number: int) -> str:
        return self.terms[number]

    def __call__(self, texts: Sequence[Sequence[str]], learn: bool) -> list[np.ndarray]:
        """Texts of words as numbers, each ``(L,)`` int32.

        Unknown words are learned, or else get numbers below 0: no stored text has them, but they count in the score
        of a copy of the text.
        """
        if learn:
            distinct = list(dict.fromkeys(chain.from_iterable(texts)))
            for word in distinct:
                if word not in self._numbers:
                    self._numbers[word] = len(self)
                    self.terms.append(word)
        unknown: dict[str, int] = {}
        numbered = []
        for text in texts:
            pairs = zip(text, map(self._numbers.get, text), strict=True)
            numbers = [unknown.setdefault(word, -1 - len(unknown)) if known is None else known for word, known in pairs]
            numbered.append(np.array(numbers, dtype=np.int32))
        return numbered


class Postings(NamedTuple):
    """Rows and counts of each term: terms ascending, and the rows of each term ascending."""

    terms: np.ndarray  # ``(T,)``
    starts: np.ndarray  # ``(T + 1,)``: the rows of term number i are ``rows[starts[i] : starts[i + 1]]``
    rows: np.ndarray  # ``(P,)`` int32
    counts: np.ndarray  # ``(P,)``; empty where only the saturation is needed
    # ``(P,)`` float32, the share of its idf that a term scores in a text, count / (norm + count), where the mean length
    # of texts is ``mean``
    saturation: np.ndarray
    mean: float

    @classmethod
    def of(cls, texts: Mapping[int, np.ndarray], lengths: np.ndarray, mean: float) -> "Postings":
        """The postings of some texts by their rows; ``lengths (N,)`` are those of all texts."""
        sizes = np.array([len(text) for text in texts.values()], dtype=np.int64)
        flat = np.concatenate([np.empty(0, dtype=np.int32), *texts.values()]).astype(np.int64)
        rows = np.repeat(np.fromiter(texts, dtype=np.int64, count=len(texts)), sizes)
        # A term and a row as one number: with rows below 10, term 3 in row 7 is 37.
        span = int(rows.max(initial=0)) + 1
        pairs, counts = np.unique(flat * span + rows, return_counts=True)
        rows = (pairs % span).astype(np.int32)
        return cls.sorted(pairs // span, rows, counts.astype(np.float32), lengths, mean)

    @classmethod
    def sorted(
        cls, flat: np.ndarray, rows: np.ndarray, counts: np.ndarray, lengths: np.ndarray, mean: float
    ) -> "Postings":
        """The postings of P terms, rows and counts, each ``(P,)``, sorted by term and then by row."""
        terms, starts = np.unique(flat, return_index=True)
        saturation = (counts / (length_norm(lengths[rows], mean) + counts)).astype(np.float32)
        return cls(terms, np.append(starts, len(flat)), rows, counts, saturation, mean)

    def joined(self, others: "Postings", lengths: np.ndarray, mean: float) -> "Postings":
        """These postings and those of other rows."""
        flat = np.concatenate([np.repeat(part.terms, np.diff(part.starts)) for part in (self, others)])
        rows = np.concatenate([self.rows, others.rows])
        counts = np.concatenate([self.counts, others.counts])
        span = int(rows.max(initial=0)) + 1
        order = np.argsort(flat * span + rows, kind="stable")  # both parts are in order: a stable sort merges them
        return Postings.sorted(flat[order], rows[order], counts[order], lengths, mean)

    def runs(self, column: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The rows in some ranges and their values in a column, ``counts`` or ``saturation``, range after range."""
        runs = [slice(*bounds) for bounds in zip(starts.tolist(), ends.tolist(), strict=True)]
        rows, values = (np.concatenate([array[:0], *(array[run] for run in runs)]) for array in (self.rows, column))
        return rows, values

    def ranges(self, terms: np.ndarray, before: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Where the rows below ``before`` of each term begin and end; an unknown term has an empty range."""
        if not len(self.terms):
            nothing = np.zeros(len(terms), dtype=np.int64)
            return nothing, nothing
        places = np.searchsorted(self.terms, terms).clip(max=len(self.terms) - 1)
        starts = self.starts[places]
        ends = np.where(self.terms[places] == terms, self.starts[places + 1], starts)
        if before is not None:
            limit = np.int32(before)  # of the rows' type: another one would convert them
            ranges = zip(starts.tolist(), ends.tolist(), strict=True)
            found = [start + int(self.rows[start:end].searchsorted(limit)) for start, end in ranges]
            ends = np.array(found, dtype=np.int64)
        return starts, ends


def length_norm(lengths: np.ndarray, mean: float) -> np.ndarray:
    """K1 (1 - B + B l / mean l): the count of a term that scores half its idf in a text of length l."""
    return np.asarray(K1 * ((1 - B) + B * lengths.astype(np.float64) / mean))


class CommonTerms(NamedTuple):
    """A table of the saturation of each common term in each text, see ``Postings``."""

    terms: np.ndarray  # ``(C,)``, ascending
    saturation: np.ndarray  # ``(C, N)`` float32

    @staticmethod
    def chosen(sizes: np.ndarray, num_texts: int) -> np.ndarray:
        """The common terms, ascending, from the number of texts ``(T,)`` that contain each term."""
        most = np.argsort(-sizes, kind="stable")[:MAX_COMMON_TERMS]
        return np.sort(most[sizes[most] >= max(MIN_COMMON_SHARE * num_texts, 1)])

    def contain(self, terms: np.ndarray) -> np.ndarray:
        """Whether each of some terms is common, ``(T,) -> (T,)`` bool."""
        places = np.searchsorted(self.terms, terms).clip(max=len(self.terms) - 1)
        return np.asarray(self.terms[places] == terms)

    def add_scores(self, terms: np.ndarray, weights: np.ndarray, total: np.ndarray) -> None:
        """Adds the scores of some terms, with weights ``(T,)``, to the first N values of ``total`` float32."""
        columns = [self.saturation[place] for place in np.searchsorted(self.terms, terms)]
        count = self.saturation.shape[1]
        product = np.empty(min(SUMMED_BLOCK, count), dtype=np.float32)
        for start in range(0, count, SUMMED_BLOCK):
            part = total[start : min(start + SUMMED_BLOCK, count)]
            weighed = product[: len(part)]
            for column, weight in zip(columns, weights, strict=True):
                np.multiply(column[start : start + SUMMED_BLOCK], weight, out=weighed)
                part += weighed


class IndexState(NamedTuple):
    """The content of an index at one time; it is replaced, never changed."""

    lengths: np.ndarray  # ``(N,)`` how many terms each text has
    num_texts: int  # how many of the texts exist, the removed ones left out
    num_terms: float  # how many terms these have in all
    # the postings of all texts: read from a file, merged since, and the latest
    parts: tuple[Postings, ...]
    removed: Postings  # the postings of the removed texts, which are in ``parts`` too

    @property
    def mean(self) -> float:
        """The mean length of the texts; a little above 0 where all are empty."""
        return max(self.num_terms / max(self.num_texts, 1), 1e-9)

    def frequency(self, terms: np.ndarray, ranges: Sequence[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
        """How many of the texts contain each of some terms, from the ``Postings.ranges`` of each of ``parts``."""
        removed_starts, removed_ends = self.removed.ranges(terms, None)
        sizes = [ends - starts for starts, ends in ranges]
        return np.asarray(np.sum(sizes, axis=0) - (removed_ends - removed_starts))

    def until(self, before: int | None) -> tuple["IndexState", int | None]:
        """The state, with count and mean of the first ``before`` texts; and ``before``, None if these are all."""
        if before is None or before >= len(self.lengths):
            return self, None
        return self._replace(num_texts=before, num_terms=float(self.lengths[:before].sum(dtype=np.float64))), before


class InvertedIndex:
    """Counts of terms by text. Texts are numbered 0..N-1 in the order in which they were added.

    Recent texts are kept in a small part, which is merged into a larger one once it has ``TAIL`` texts and a hundredth
    of those that are not from a file. The first part may come from a file and never changes. While one thread adds
    texts, others may search: they see all of an addition or nothing.
    """

    def __init__(self) -> None:
        nothing = Postings.of({}, np.empty(0, dtype=np.float32), 1.0)
        self._lengths = GrowingArray(np.empty(0, dtype=np.float32))
        self._num_fixed = 0  # texts in the first part
        self._state = IndexState(self._lengths.filled, 0, 0.0, (nothing, nothing, nothing), nothing)
        self._tail: dict[int, np.ndarray] = {}  # the texts of the small part by number

    def __len__(self) -> int:
        return len(self._state.lengths)

    def __copy__(self) -> "InvertedIndex":
        """An index to which texts can be added without changing this one."""
        other = self.__class__.__new__(self.__class__)
        other.__dict__.update(self.__dict__)
        other._lengths = copy(self._lengths)
        other._tail = self._tail.copy()
        return other

    def add(self, texts: Sequence[np.ndarray]) -> None:
        """Adds texts at the end.

        Args:
            texts: The numbers of their terms in order, each ``(L,)`` int32; a term has the same number in all texts.
        """
        state = self._state
        fresh = np.array([len(text) for text in texts], dtype=np.float32)
        self._tail |= dict(enumerate(texts, start=len(state.lengths)))
        self._lengths.extend(fresh)
        grown = state._replace(
            lengths=self._lengths.filled,
            num_texts=state.num_texts + len(texts),
            num_terms=state.num_terms + float(fresh.sum(dtype=np.float64)),
        )
        fixed, large, _ = state.parts
        small = Postings.of(self._tail, grown.lengths, grown.mean)
        if len(self._tail) >= max(TAIL, (len(grown.lengths) - self._num_fixed) // 100):
            large = large.joined(small, grown.lengths, grown.mean)
            small = Postings.of({}, grown.lengths, grown.mean)
            self._tail = {}
        self._state = grown._replace(parts=(fixed, large, small))

    def scores(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """BM25 of texts for a query.

        sum over the query's terms t of log(1 + (n - df + .5) / (df + .5)) * tf / (tf + K1 (1 - B + B l / mean l)).

        Args:
            terms: ``(L,)`` numbers of the query's terms, repeated as in its text; unknown ones score nothing.
            before: Score and count only the first ``before`` texts, as if the others did not exist. None for all.
        """
        state, before = self.until(before)
        lengths = state.lengths[:before]
        total = np.zeros(len(lengths), dtype=np.float32)
        if not len(lengths) or not len(terms):
            return total
        distinct, places = np.unique(terms, return_inverse=True)
        ranges = [part.ranges(distinct, before) for part in state.parts]
        idf = idf_of(state.frequency(distinct, ranges), state.num_texts).astype(np.float32)
        norm = length_norm(lengths, state.mean)
        for part, (starts, ends) in zip(state.parts, ranges, strict=True):
            rows, counts = part.runs(part.counts, starts, ends)
            sizes = ends - starts
            weights = np.repeat(idf, sizes) * (counts / (norm[rows] + counts))
            last = np.cumsum(sizes)
            runs = [slice(end - size, end) for end, size in zip(last.tolist(), sizes.tolist(), strict=True)]
            for place in places.tolist():
                # Word by word in single precision, in the order of the query's words, as in bm25s.
                run = runs[place]
                np.add.at(total, rows[run], weights[run].astype(np.float32))
        return total

    def frequency(self, terms: np.ndarray, before: int | None = None) -> np.ndarray:
        """How many of the texts contain each of some distinct terms, ``(T,) -> (T,)``."""
        state, before = self.until(before)
        return state.frequency(terms, [part.ranges(terms, before) for part in state.parts])

    def until(self, before: int | None) -> tuple[IndexState, int | None]:
        """The state with the first ``before`` texts only, see ``IndexState.until``."""
        return self._state.until(before)


def idf_of(frequency: np.ndarray, count: int) -> np.ndarray:
    """Inverse document frequency of terms that ``frequency`` of ``count`` texts contain, as Lucene defines it."""
    return np.asarray(np.log(1 + (count - frequency + 0.5) / (frequency + 0.5)))
