"""Comments as queries for methods, and methods without their own names."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.retrieval.scorers.lexical import Bm25
from gedbd.retrieval.scorers.scorer import ScorerInputs

MIN_WORDS = 3  # of a query
SENTENCES = 2
MAX_CHARACTERS = 10_000_000  # nothing is cut off
HIDDEN_NAME = "hidden"
BLOCK_TAG = re.compile(r"^\s*@\w+", re.MULTILINE)
INLINE_TAG = re.compile(r"\{@\w+\s*([^{}]*)\}")
HTML_TAG = re.compile(r"</?\w[^<>]*>")
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|_")


class SearchSample(NamedTuple):
    """Methods with a query each; no query occurs twice.

    Attributes:
        queries: Q queries.
        codes: Q methods; method i answers query i.
        hidden: The same without their own names, see ``hide_name``.
        rows: ``(Q,)`` their rows in the corpus.
    """

    queries: list[str]
    codes: list[str]
    hidden: list[str]
    rows: np.ndarray

    def __len__(self) -> int:
        return len(self.queries)


def query_of(comment: str) -> str:
    """The first two sentences of a Javadoc without tags; empty if they have fewer than three words.

    Block tags (``@param`` and all that follows) and HTML are removed; of ``{@link Session#getId() its id}`` remains
    ``Session#getId() its id``.
    """
    tag = BLOCK_TAG.search(comment)
    text = comment[: tag.start()] if tag else comment
    text = HTML_TAG.sub(" ", INLINE_TAG.sub(r"\1", text))
    sentences = SENTENCE_END.split(" ".join(text.split()))
    query = " ".join(sentences[:SENTENCES])
    return query if len(query.split()) >= MIN_WORDS else ""


def hide_name(code: str, name: str) -> str:
    """A method with every occurrence of its own name as a whole word replaced by ``HIDDEN_NAME``."""
    return re.sub(rf"(?<![\w$]){re.escape(name)}(?![\w$])", HIDDEN_NAME, code)


def draw_queries(table: pd.DataFrame, rows: np.ndarray, count: int) -> SearchSample:
    """The first ``count`` methods that have a query which no method before has.

    Args:
        table: Methods with ``title`` (name), ``description`` (code) and ``comment``.
        rows: Rows to draw from, in random order.
        count: See above.
    """
    chosen: dict[str, int] = {}
    for row in rows.tolist():
        if len(chosen) == count:
            break
        query = query_of(table["comment"][row])
        if query:
            chosen.setdefault(query, row)
    found = list(chosen.values())
    codes = [table["description"][row] for row in found]
    hidden = [hide_name(table["description"][row], table["title"][row]) for row in found]
    return SearchSample(list(chosen), codes, hidden, np.array(found, dtype=np.int64))


def bm25_scores(queries: Sequence[str], codes: Sequence[str]) -> np.ndarray:
    """BM25 of every method for every query, ``(Q, N)``.

    The words of an identifier count too, in queries and methods: ``getId`` is read as ``getId get Id``.
    """
    none = pd.DataFrame({"query": [], "document": [], "label": []})
    inputs = ScorerInputs(_documents(codes), _documents(queries), none)
    scorer = Bm25(max_characters=MAX_CHARACTERS)
    scorer.fit(inputs)
    return scorer.scores(np.arange(len(queries)))


def _with_words(text: str) -> str:
    identifiers = re.findall(r"\w+", text)
    compound = [WORD_START.sub(" ", name) for name in identifiers if WORD_START.search(name)]
    return " ".join([*identifiers, *compound])


def _documents(texts: Sequence[str]) -> pd.DataFrame:
    return pd.DataFrame({"title": "", "description": [_with_words(text) for text in texts], "created_at": pd.NaT})
