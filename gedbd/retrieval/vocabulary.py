"""Words of texts, and the numbers that stand for them."""

from collections.abc import Sequence
from itertools import chain

import numpy as np
import pandas as pd

from gedbd.corpora.templates import join_texts
from gedbd.text.words import find_words

MAX_CHARACTERS = 2000  # of a description


def short_texts(table: pd.DataFrame, max_characters: int) -> list[str]:
    """Title and the beginning of the description of each row."""
    descriptions = [text[:max_characters] for text in table["description"]]
    return join_texts(table["title"], descriptions)


def words(texts: Sequence[str]) -> list[list[str]]:
    """The words of each text in order, see ``gedbd.text.words``, without English stop words.

    Those of ASCII text are as ``bm25s.tokenize`` finds them, which itself draws a progress bar for each text under a
    lock that all processes share: a process that is killed while it holds the lock stops the others.
    """
    from bm25s.stopwords import STOPWORDS_EN

    stop = frozenset(STOPWORDS_EN)
    return [[word for word in find_words(text) if word not in stop] for text in texts]


class Vocabulary:
    """A number for each term, in the order in which terms were learned.

    Args:
        terms: Terms to start with, in order.
    """

    def __init__(self, terms: Sequence[str] = ()) -> None:
        self.terms = list(terms)
        self._numbers = {term: number for number, term in enumerate(self.terms)}

    def __len__(self) -> int:
        return len(self.terms)

    def __getitem__(self, number: int) -> str:
        return self.terms[number]

    def since(self, count: int) -> list[str]:
        """The terms behind the first ``count``."""
        return self.terms[count:]

    def find(self, term: str) -> int | None:
        """The number of a term, None if it was not learned."""
        return self._numbers.get(term)

    def find_all(self, terms: Sequence[str]) -> list[int | None]:
        """The number of each term, None if it was not learned."""
        return list(map(self._numbers.get, terms))

    def __call__(self, texts: Sequence[Sequence[str]], learn: bool) -> list[np.ndarray]:
        """Texts of words as numbers, each ``(L,)`` int32.

        Unknown words are learned, or else get numbers below 0: no stored text has them, but they count in what a copy
        of the text would score.
        """
        if learn:
            distinct = list(dict.fromkeys(chain.from_iterable(texts)))
            for word, number in zip(distinct, self.find_all(distinct), strict=True):
                if number is None:
                    self._numbers[word] = len(self)
                    self.terms.append(word)
        unknown: dict[str, int] = {}
        numbered = []
        for text in texts:
            pairs = zip(text, self.find_all(text), strict=True)
            numbers = [unknown.setdefault(word, -1 - len(unknown)) if known is None else known for word, known in pairs]
            numbered.append(np.array(numbers, dtype=np.int32))
        return numbered

    def forget(self, count: int) -> None:
        """Keeps the first ``count`` terms only, where those learned since could not be stored."""
        for term in self.since(count):
            del self._numbers[term]
            self.terms.pop()
