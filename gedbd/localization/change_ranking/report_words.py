"""Words and names of a report, and their counts in commits and files."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from pathlib import PurePosixPath
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.text.words import CodeWords, separate

MAX_NAME_CHARS = 300  # of a method with its class
MAX_LINE_CHARS = 1000  # of a line that holds a frame of .NET or JavaScript
# The parentheses after a method in a frame of the Java virtual machine. The search finds only these; the name before
# them is read backwards, so that a long text without a frame takes one pass.
JVM_LOCATION = re.compile(
    r"\((?:([\w$-]{1,200}\.(?:java|kt|scala|groovy|clj|jsp))(?::(\d{1,9}))?|Native Method|Unknown Source)\)"
)
REVERSED_NAME = re.compile(r"[\w.$<>/@-]+")
PYTHON_FRAME = re.compile(r'File "([^"\n]{1,1000})", line (\d{1,9})(?:, in ([\w<>.]{1,200}))?')
LINE = re.compile(r"[^\n]+")
SCRIPT_SUFFIXES = (".js", ".jsx", ".ts", ".tsx", ".mjs", ".cjs", ".vue")
IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# An identifier of code rather than a word of prose: parseUrl, max_size, JSPServlet.
CODE_LIKE = re.compile(r"[a-z0-9][A-Z]|_|[A-Z]{2}[a-z]")
QUALIFIED = re.compile(r"(?<![\w.])(?:[a-z_]\w{0,50}[./]){2,20}[A-Z]\w{0,100}")
MAX_WORDS = 400  # the first ones of a report
MAX_NAMES = 500  # likewise for names, qualified names and frames
TAIL_PARTS = 2  # of a path in a stack trace: the parts before differ between machines


class Frame(NamedTuple):
    """A frame of a stack trace."""

    class_name: str  # the class with its package; empty where the frame names none
    method: str  # the method or function; empty where the frame names none
    file: str  # the file as the frame names it, a name or a path; empty where it names none
    line: int | None  # the line from 1; None where the frame names none


def find_frames(text: str) -> list[Frame]:
    """The frames of all stack traces in a text, in their order."""
    # Python: File "a/b.py", line 12, in run
    python = [
        (match.start(), Frame("", match[3] or "", match[1], int(match[2]))) for match in PYTHON_FRAME.finditer(text)
    ]
    frames = [*_jvm_frames(text), *python]
    # Those of .NET and JavaScript are on lines that begin with "at".
    for match in LINE.finditer(text):
        line = match[0].strip() if len(match[0]) <= MAX_LINE_CHARS else ""
        frame = (_dotnet_frame(line) or _script_frame(line)) if line.startswith("at ") else None
        if frame is not None:
            frames.append((match.start(), frame))
    return [frame for _, frame in sorted(frames, key=lambda item: item[0])]


def _jvm_frames(text: str) -> Iterator[tuple[int, Frame]]:
    """Frames such as ``at java.base/a.b.Outer$Inner.run(Outer.java:12)``, with their positions."""
    for match in JVM_LOCATION.finditer(text):
        before = text[max(0, match.start() - MAX_NAME_CHARS) : match.start()]
        name = REVERSED_NAME.match(before[::-1])
        class_name, _, method = name[0][::-1].rpartition("/")[2].rpartition(".") if name else ("", "", "")
        if class_name and method:
            line = int(match[2]) if match[2] else None
            yield match.start(), Frame(class_name, method, match[1] or "", line)


def _dotnet_frame(line: str) -> Frame | None:
    r"""Reads a frame such as ``at A.B.Run(String name) in C:\a\B.cs:line 12``."""
    head, _, number = line.rpartition(":line ")
    call, _, file = head.partition(" in ")
    class_name, _, method = call.removeprefix("at ").partition("(")[0].rpartition(".")
    if not file or not method or not _is_number(number):
        return None
    return Frame(class_name.rstrip("."), method, file, int(number))  # a constructor is A.B..ctor


def _script_frame(line: str) -> Frame | None:
    """Reads a frame such as ``at Parser.run (a/b.js:12:5)`` or ``at a/b.js:12:5``."""
    words = line.split()
    file, *numbers = words[-1].strip("()").rsplit(":", 2)
    if not file.endswith(SCRIPT_SUFFIXES) or len(numbers) != 2 or not all(map(_is_number, numbers)):
        return None
    # The words between are "Parser.run", "async run", "new Parser", or nothing.
    class_name, _, method = (words[-2] if len(words) > 2 else "").rpartition(".")
    return Frame(class_name, method, file, int(numbers[0]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 10


class NamedFile(NamedTuple):
    """A name in the report that may be that of a file."""

    name: str  # lower case, without suffix
    weight: float  # 1 for an identifier of code, .4 for a capitalised word
    position: int  # number of identifiers before it
    in_title: bool  # whether it is in the title


class ReportWords(NamedTuple):
    """Words and names of a report."""

    words: Mapping[str, float]  # words and their weights: 1 + log of the count, and 1 more for those of the title
    title: Mapping[str, float]  # words of the title and their counts
    code: Mapping[str, float]  # identifiers of code, each with the weight 1
    names: tuple[NamedFile, ...]  # names that files may have
    tails: tuple[str, ...]  # qualified names as ends of paths without suffix, such as ``org/a/Parser``
    frames: tuple[str, ...]  # ends of the paths of stack frames, in their order


def report_words(title: str, description: str) -> ReportWords:
    """Extracts the words and names of a report."""
    code_words = CodeWords()
    text = f"{title}\n{description}"
    in_title = Counter(code_words.of_text(title))
    counts = Counter(code_words.of_text(text))
    weights = {word: 1 + float(np.log(count)) + (word in in_title) for word, count in counts.items()}
    identifiers = IDENTIFIER.findall(separate(text))
    code = {name.lower(): 1.0 for name in identifiers if CODE_LIKE.search(name)}
    tails = (match[0].replace(".", "/") for match in QUALIFIED.finditer(separate(text)))
    return ReportWords(
        words=dict(islice(weights.items(), MAX_WORDS)),
        title={word: float(count) for word, count in islice(in_title.items(), MAX_WORDS)},
        code=dict(islice(code.items(), MAX_WORDS)),
        names=_names(identifiers, set(IDENTIFIER.findall(separate(title)))),
        tails=tuple(islice(tails, MAX_NAMES)),
        frames=tuple(_tail(frame) for frame in find_frames(text)[:MAX_NAMES]),
    )


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
    """Counts of words by row in F fields: for each row ``(T, 1 + F)`` int32, the number of the word and its counts."""

    def __init__(self, texts: RaggedArray) -> None:
        self.texts = texts

    @classmethod
    def of(cls, texts: Iterable[Sequence[str]], vocabulary: Vocabulary) -> "WordCounts":
        """The counts of the words of texts, in one field; new words are learned."""
        counted = []
        for words in texts:
            distinct = np.unique(vocabulary([words], learn=True)[0], return_counts=True)
            counted.append(np.column_stack(distinct).astype(np.int32))
        return cls(RaggedArray.of(counted, np.empty((0, 2), dtype=np.int32)))

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
        """The rows, among the first ``before``, that contain a word, ``(K,)`` ascending, and counts, ``(K, F)``."""
        positions, starts = self._by_word
        if not 0 <= word < len(starts) - 1:
            return np.empty(0, dtype=np.int64), np.empty((0, self.texts.values.shape[1] - 1))
        with_word = positions[starts[word] : starts[word + 1]]
        rows = self._row[with_word]
        end = np.searchsorted(rows, before)
        return rows[:end], self.texts.values[with_word[:end], 1:]


def grouped(owners: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sums the counts of neighbouring rows with the same owner: owners 0 0 4 with counts 1 2 3 give 0 4 and 3 3."""
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    return owners[first], np.add.reduceat(counts, first, axis=0) if len(first) else counts


class Bm25Field:
    """BM25 of N texts for several queries, summed word by word.

    sum over the words of weight * log(1 + (n - df + .5) / (df + .5)) * tf / (tf + k1 (1 - b + b l / mean l)).

    ``lengths (N,)`` are the numbers of words of the texts, of which ``num_texts`` exist, the n above; ``queries`` hold
    the weights of the words of each query. ``scores`` are those of each query, ``(N,)`` float32.
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
        """Adds the scores of a word that ``(T,)`` distinct texts contain ``counts`` times each."""
        if not len(texts):
            return
        idf = np.log1p((self._num_texts - len(texts) + 0.5) / (len(texts) + 0.5))
        term_score = idf * counts / (counts + self._norm[texts])
        for name, weights in self._queries.items():
            weight = weights.get(word)
            if weight is not None:
                self.scores[name][texts] += (weight * term_score).astype(np.float32)
