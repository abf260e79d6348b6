"""Words and names of a report, and their counts in commits and files."""

import re
from collections import Counter
from collections.abc import Mapping
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.text.stack_traces import Frame, find_frames
from gedbd.text.words import CodeWords, separate

IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# An identifier of code rather than a word of prose: parseUrl, max_size, JSPServlet.
CODE_LIKE = re.compile(r"[a-z0-9][A-Z]|_|[A-Z]{2}[a-z]")
QUALIFIED = re.compile(r"(?<![\w.])(?:[a-z_]\w{0,50}[./]){2,20}[A-Z]\w{0,100}")
MAX_WORDS = 400  # the first ones of a report
MAX_NAMES = 500  # likewise for names, qualified names and frames
TAIL_PARTS = 2  # of a path in a stack trace: the parts before differ between machines


class NamedFile(NamedTuple):
    """A name of the report that a file may have.

    Attributes:
        name: Lower case, without suffix.
        weight: 1 for an identifier of code, .4 for a capitalised word.
        position: Number of identifiers before it.
        in_title: Whether it is in the title.
    """

    name: str
    weight: float
    position: int
    in_title: bool


class ReportWords(NamedTuple):
    """Words and names of a report.

    Attributes:
        words: Words and their weights: 1 + log of the count, and 1 more for those of the title.
        title: Words of the title and their counts.
        code: Identifiers of code, each with the weight 1.
        names: Names that files may have.
        tails: Ends of paths, without suffixes, of qualified names, such as ``org/a/Parser``.
        frames: Ends of paths of the stack traces' frames, in their order.
    """

    words: Mapping[str, float]
    title: Mapping[str, float]
    code: Mapping[str, float]
    names: tuple[NamedFile, ...]
    tails: tuple[str, ...]
    frames: tuple[str, ...]


def report_words(title: str, description: str) -> ReportWords:
    """Reads a report."""
    code_words = CodeWords()
    text = f"{title}\n{description}"
    in_title = Counter(code_words.of_text(title))
    counts = Counter(code_words.of_text(text))
    weights = {word: 1 + float(np.log(count)) + (word in in_title) for word, count in counts.items()}
    identifiers = IDENTIFIER.findall(separate(text))
    code = {name.lower(): 1.0 for name in identifiers if CODE_LIKE.search(name)}
    tails = (match[0].replace(".", "/") for match in QUALIFIED.finditer(separate(text)))
    return ReportWords(
        words=_first(weights),
        title=_first({word: float(count) for word, count in in_title.items()}),
        code=_first(code),
        names=_names(identifiers, set(IDENTIFIER.findall(separate(title)))),
        tails=tuple(islice(tails, MAX_NAMES)),
        frames=tuple(_tail(frame) for frame in find_frames(text)[:MAX_NAMES]),
    )


def _first(weights: Mapping[str, float]) -> dict[str, float]:
    return dict(list(weights.items())[:MAX_WORDS])


def _names(identifiers: list[str], in_title: set[str]) -> tuple[NamedFile, ...]:
    """Each name once, at its first position, in the spelling with the highest weight."""
    by_name: dict[str, NamedFile] = {}
    for position, name in enumerate(identifiers):
        is_code = CODE_LIKE.search(name) is not None
        if len(name) < 3 or not (is_code or name[0].isupper()):
            continue
        named = NamedFile(name.lower(), 1.0 if is_code else 0.4, position, name in in_title)
        first = by_name.setdefault(named.name, named)
        if named.weight > first.weight:
            by_name[named.name] = named._replace(position=first.position, in_title=named.in_title or first.in_title)
    return tuple(by_name.values())[:MAX_NAMES]


def _tail(frame: Frame) -> str:
    """The end of the path of a frame's file, without suffix."""
    file = PurePosixPath(frame.file.replace("\\", "/"))
    if len(file.parts) > 1 or not frame.class_name:
        return "/".join(file.with_suffix("").parts[-TAIL_PARTS:]) if file.name else ""
    *package, class_name = frame.class_name.split(".")
    return "/".join([*package, file.stem or class_name.partition("$")[0]])


class WordCounts:
    """Counts of words by row in F fields.

    Args:
        texts: For each row ``(T, 1 + F)`` int32: number of the word, counts in the fields.
    """

    def __init__(self, texts: RaggedArray) -> None:
        self.texts = texts

    @cached_property
    def lengths(self) -> np.ndarray:
        """``(N, F)`` number of words of each row."""
        sums = np.concatenate([np.zeros((1, self.texts.values.shape[1] - 1)), np.cumsum(self.texts.values[:, 1:], 0)])
        return np.asarray(sums[self.texts.starts[1:]] - sums[self.texts.starts[:-1]])

    @cached_property
    def _by_word(self) -> tuple[np.ndarray, np.ndarray]:
        """Positions of all values ordered by word, and the start of each word."""
        from scipy.sparse import csr_array

        words = self.texts.values[:, 0]
        num_words = int(words.max(initial=-1)) + 1
        positions = np.arange(len(words), dtype=np.int64)
        # The conversion sorts positions by word and keeps the order of rows.
        table = csr_array((positions, words, self.texts.starts), shape=(len(self.texts), num_words)).tocsc()
        return table.data, table.indptr.astype(np.int64)

    @cached_property
    def _row(self) -> np.ndarray:
        """The row of each value."""
        return np.repeat(np.arange(len(self.texts), dtype=np.int64), self.texts.lengths)

    def find(self, word: int, before: int) -> tuple[np.ndarray, np.ndarray]:
        """Those of the first ``before`` rows that contain a word, ``(K,)`` ascending, and counts, ``(K, F)``."""
        positions, starts = self._by_word
        if not 0 <= word < len(starts) - 1:
            return np.empty(0, dtype=np.int64), np.empty((0, self.texts.values.shape[1] - 1))
        with_word = positions[starts[word] : starts[word + 1]]
        rows = self._row[with_word]
        end = np.searchsorted(rows, before)
        return rows[:end], self.texts.values[with_word[:end], 1:]


def grouped(owners: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums the counts of neighbouring rows with equal owner: owners 0 0 4 with counts 1 2 3 give 0 4 and 3 3."""
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    return owners[first], np.add.reduceat(counts, first, axis=0) if len(first) else counts


class Bm25Field:
    """BM25 of N texts for several queries, summed word by word.

    sum over the words of weight * log(1 + (n - df + .5) / (df + .5)) * tf / (tf + k1 (1 - b + b l / mean l)).

    Args:
        lengths: ``(N,)`` number of words of each text.
        num_texts: Number n of texts that exist.
        queries: Weights of the words of each query.
        k1: Saturation of term frequency.
        b: Length normalization, from 0 to 1.

    Attributes:
        scores: For each query ``(N,)`` float32.
    """

    def __init__(
        self,
        lengths: np.ndarray,
        num_texts: int,
        queries: Mapping[str, Mapping[str, float]],
        k1: float = 1.5,
        b: float = 0.75,
    ) -> None:
        self._num_texts = num_texts
        mean = max(float(lengths.sum()) / max(num_texts, 1), 1e-9)
        self._norm = k1 * (1 - b + b * lengths / mean)
        self._queries = queries
        self.scores = {name: np.zeros(len(lengths), dtype=np.float32) for name in queries}

    def add(self, word: str, texts: np.ndarray, counts: np.ndarray) -> None:
        """Adds the scores of a word.

        Args:
            word: The word.
            texts: ``(T,)`` distinct texts that contain it.
            counts: ``(T,)`` number of occurrences, above 0.
        """
        if not len(texts):
            return
        idf = np.log1p((self._num_texts - len(texts) + 0.5) / (len(texts) + 0.5))
        part = idf * counts / (counts + self._norm[texts])
        for name, weights in self._queries.items():
            weight = weights.get(word)
            if weight is not None:
                self.scores[name][texts] += (weight * part).astype(np.float32)
