"""Scorers that count words: TF-IDF and BM25."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import pandas as pd

from gedbd.retrieval.inverted_index import MAX_CHARACTERS, InvertedIndex, Vocabulary, short_texts, words
from gedbd.retrieval.scorers.scorer_contract import EarlierScorer, Scorer, ScorerInputs
from gedbd.text.diffs import change_fields
from gedbd.text.words import CodeWords, find_words

if TYPE_CHECKING:
    from sklearn.feature_extraction.text import CountVectorizer

# Options of scikit-learn's counters; in ASCII text they find the words that scikit-learn finds by default.
COUNTED: dict[str, Any] = {"tokenizer": find_words, "token_pattern": None, "lowercase": False, "stop_words": "english"}


class TfIdf(Scorer):
    """Cosine of TF-IDF vectors (scikit-learn), without English stop words.

    Descriptions are cut, so that a long log does not outweigh the rest.
    """

    def __init__(self, max_characters: int = MAX_CHARACTERS) -> None:
        self.max_characters = max_characters

    def fit(self, inputs: ScorerInputs) -> None:
        """Counts words. Document frequencies are those of all documents: they are text without labels."""
        from scipy.sparse import csr_array
        from sklearn.feature_extraction.text import TfidfVectorizer

        texts = short_texts(inputs.documents, self.max_characters)
        counter = TfidfVectorizer(**COUNTED, sublinear_tf=True, dtype=np.float32)
        if not has_words(counter, texts):
            self.documents_ = csr_array((len(texts), 1), dtype=np.float32)
            self.queries_ = csr_array((len(inputs.queries), 1), dtype=np.float32)
            return
        self.documents_ = counter.fit_transform(texts)
        self.queries_ = self.documents_
        if not inputs.one_table:
            self.queries_ = counter.transform(short_texts(inputs.queries, self.max_characters))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)`` cosines."""
        # Rows have length 1, so that products are cosines.
        return np.asarray((self.queries_[rows] @ self.documents_.T).toarray())


@dataclass(eq=False)
class Bm25(Scorer):
    """BM25 as Lucene scores it, without English stop words."""

    field: str = "text"  # ``text`` for title and description, ``title`` for the title alone
    max_characters: int = MAX_CHARACTERS  # length that descriptions are cut to
    # return the root of the score. It compresses the scores of long queries, which would dominate a sum with other
    # scores
    square_root: bool = False

    def __post_init__(self) -> None:
        if self.field not in ("text", "title"):
            raise ValueError(f"BM25's field={self.field} is unknown: choose text or title")

    def fit(self, inputs: ScorerInputs) -> None:
        """Indexes all documents. Document frequencies are those of all documents: they are text without labels."""
        vocabulary = Vocabulary()
        documents = vocabulary(words(self._texts(inputs.documents)), learn=True)
        self.index_ = InvertedIndex()
        self.index_.add(documents)
        self.queries_ = documents
        if not inputs.one_table:
            # Words that no document has get numbers that the index does not know, and score nothing.
            self.queries_ = vocabulary(words(self._texts(inputs.queries)), learn=False)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``, 0 or above."""
        scores = np.empty((len(rows), len(self.index_)), dtype=np.float32)
        for position, row in enumerate(rows):
            scores[position] = self.index_.scores(self.queries_[row])
        return np.sqrt(scores) if self.square_root else scores

    def _texts(self, table: pd.DataFrame) -> list[str]:
        return list(table["title"]) if self.field == "title" else short_texts(table, self.max_characters)


def has_words(counter: "CountVectorizer", texts: Iterable[str]) -> bool:
    """Whether a counter finds anything to count; scikit-learn cannot fit if it does not."""
    analyse = counter.build_analyzer()
    return any(analyse(text) for text in texts)


Field = Literal["diff", "message", "paths", "all"]
StructuredField = Literal["message", "paths", "names", "added", "removed", "comments"]


class CodeBm25(EarlierScorer):
    """BM25 of a report's title and description over one text of each change.

    Documents after the report count neither in the frequencies of words nor in the mean length. ``field`` is ``diff``,
    ``message`` (its first line and the rest), ``paths``, or ``all`` three as one text.
    """

    def __init__(self, field: Field = "diff", words: CodeWords | None = None) -> None:
        if field not in get_args(Field):
            raise ValueError(f"CodeBm25's field={field} is unknown: choose {', '.join(get_args(Field))}")
        self.field = field
        self.words = words or CodeWords()

    def read(self, inputs: ScorerInputs) -> None:
        """Indexes the changes."""
        self.index_, self.queries_ = index_texts(field_texts(inputs.documents, self.field), inputs.queries, self.words)

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """BM25, 0 or above."""
        return np.asarray(self.index_.scores(self.queries_[row], before))


class StructuredBm25(EarlierScorer):
    """The sum of the BM25 of each field of the report over each field of the change, as in BLUiR.

    Source: Saha, Lease, Khurshid and Perry, "Improving Bug Localization using Structured Information Retrieval", ASE
    2013: s(q, d) = sum over the fields f of q and g of d of s(q_f, d_g). There documents are source files with the
    fields class names, method names, variables and comments, found by a parser. Here they are changes: message, paths,
    names of classes and methods, added lines, removed lines and comments, read line by line; variables are words of the
    lines. BM25 replaces TF-IDF, without stemming. BM25 is linear in the query, so that the sum over title and
    description is the score of both as one text.
    """

    def __init__(
        self, fields: Sequence[StructuredField] = get_args(StructuredField), words: CodeWords | None = None
    ) -> None:
        unknown = [field for field in fields if field not in get_args(StructuredField)]
        if unknown or not fields:
            raise ValueError(
                f"StructuredBm25's fields={list(fields)}: choose from {', '.join(get_args(StructuredField))}"
            )
        self.fields = tuple(fields)
        self.words = words or CodeWords()

    def read(self, inputs: ScorerInputs) -> None:
        """Indexes each field of the changes."""
        self.indexes_ = []
        texts = structured_texts(inputs.documents)
        for field in self.fields:
            self.indexes_.append(index_texts(texts[field], inputs.queries, self.words))

    def earlier_scores(self, row: int, before: int) -> np.ndarray:
        """Sum of BM25, 0 or above."""
        return np.asarray(np.sum([index.scores(queries[row], before) for index, queries in self.indexes_], axis=0))


def field_texts(changes: pd.DataFrame, field: Field) -> list[str]:
    """The text of a field of each change."""
    if field == "message":
        return list(changes["title"] + "\n" + changes["description"])
    if field == "all":
        return list(changes["title"] + "\n" + changes["description"] + "\n" + changes["paths"] + "\n" + changes["diff"])
    return list(changes[field])


def structured_texts(changes: pd.DataFrame) -> dict[str, list[str]]:
    """The texts of the fields of ``StructuredBm25`` of each change."""
    fields = [change_fields(diff) for diff in changes["diff"]]
    texts = {
        name: [getattr(of_change, name) for of_change in fields] for name in ("names", "added", "removed", "comments")
    }
    return texts | {"message": field_texts(changes, "message"), "paths": field_texts(changes, "paths")}


def index_texts(
    texts: Sequence[str], reports: pd.DataFrame, words: CodeWords
) -> tuple[InvertedIndex, list[np.ndarray]]:
    """An index of texts, and the terms of each report, ``(L,)`` int32."""
    vocabulary = Vocabulary()
    index = InvertedIndex()
    index.add(vocabulary(words(texts), learn=True))
    queries = words(reports["title"] + "\n" + reports["description"])
    return index, vocabulary(queries, learn=False)
