"""What is compared of every stored report, as numbers in memory: row i of each column is stored report i."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.fields import products
from gedbd.retrieval.inverted_index import Lexicon

EMPTY, UNKNOWN = -1, -2


@dataclass(frozen=True)
class Numbers:
    """Some reports, B of them, as numbers.

    Attributes:
        vectors: ``(B, D)`` float32, unit rows.
        text: The terms of title and description of each, in order, ``(L,)`` int32.
        title: The terms of the title of each.
        product: ``(B,)`` codes; equal ones agree, ``EMPTY`` and ``UNKNOWN`` agree with nothing.
        component: ``(B,)`` likewise.
        day: ``(B,)`` days since 1970, UTC; not a number where there is no date.
    """

    vectors: np.ndarray
    text: Sequence[np.ndarray]
    title: Sequence[np.ndarray]
    product: np.ndarray
    component: np.ndarray
    day: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, row: int) -> "Numbers":
        """One of them."""
        one = slice(row, row + 1)
        return Numbers(
            self.vectors[one], self.text[one], self.title[one], self.product[one], self.component[one], self.day[one]
        )

    def take(self, rows: list[int]) -> "Numbers":
        """Some of them."""
        text, title = ([texts[row] for row in rows] for texts in (self.text, self.title))
        return Numbers(self.vectors[rows], text, title, self.product[rows], self.component[rows], self.day[rows])


class Columns:
    """The numbers of all stored reports; they grow at the end.

    Args:
        dim: Size D of the vectors.
    """

    def __init__(self, dim: int) -> None:
        self._vectors = _Growing(np.empty((0, dim), dtype=np.float32))
        self._product = _Growing(np.empty(0, dtype=np.int32))
        self._component = _Growing(np.empty(0, dtype=np.int32))
        self._day = _Growing(np.empty(0, dtype=np.float64))
        self.text, self.title = Lexicon(), Lexicon()

    def __len__(self) -> int:
        return len(self._day)

    @property
    def vectors(self) -> np.ndarray:
        """``(N, D)`` float32."""
        return self._vectors.filled

    @property
    def product(self) -> np.ndarray:
        """``(N,)`` int32."""
        return self._product.filled

    @property
    def component(self) -> np.ndarray:
        """``(N,)`` int32."""
        return self._component.filled

    @property
    def day(self) -> np.ndarray:
        """``(N,)`` float64."""
        return self._day.filled

    def add(self, fresh: Numbers) -> None:
        """Adds rows at the end."""
        self._vectors.extend(fresh.vectors)
        self._product.extend(fresh.product)
        self._component.extend(fresh.component)
        self.text.add(fresh.text)
        self.title.add(fresh.title)
        self._day.extend(fresh.day)  # last, for it says how many there are

    def replaced(self, rows: list[int], fresh: Numbers) -> "Columns":
        """Columns with other numbers in some rows; these stay as they are, for searches that go on with them."""
        other = Columns(self.vectors.shape[1])
        other._vectors = self._vectors.replaced(rows, fresh.vectors)
        other._product = self._product.replaced(rows, fresh.product)
        other._component = self._component.replaced(rows, fresh.component)
        other._day = self._day.replaced(rows, fresh.day)
        other.text = self.text.replaced(rows, fresh.text)
        other.title = self.title.replaced(rows, fresh.title)
        return other

    def without(self, gone: np.ndarray) -> "Columns":
        """Columns without some rows, ``gone (N,)`` bool; later rows move up."""
        other = Columns(self.vectors.shape[1])
        other._vectors = _Growing(self.vectors[~gone])
        other._product = _Growing(self.product[~gone])
        other._component = _Growing(self.component[~gone])
        other._day = _Growing(self.day[~gone])
        other.text, other.title = self.text.without(gone), self.title.without(gone)
        return other


class Codes:
    """A number for each value that a field has had; upper and lower case are one."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def __call__(self, values: Iterable[str], learn: bool) -> np.ndarray:
        """``(B,)`` int32: ``EMPTY`` for no value, ``UNKNOWN`` for one that was not met before, unless it is learnt."""
        names = [value.strip().lower() for value in values]
        if learn:
            for name in filter(None, names):
                self._codes.setdefault(name, len(self._codes))
        return np.array([self._codes.get(name, UNKNOWN) if name else EMPTY for name in names], dtype=np.int32)


class Vocabulary:
    """A number for each term, in the order in which they were met.

    Args:
        terms: Those that are known, in order.
    """

    def __init__(self, terms: Sequence[str] = ()) -> None:
        self.terms = list(terms)
        self._numbers = {term: number for number, term in enumerate(self.terms)}

    def __call__(self, texts: Sequence[Sequence[str]], learn: bool) -> list[np.ndarray]:
        """Texts of words as numbers, each ``(L,)`` int32.

        Words that are not known are learnt, or else get numbers below 0: nothing that is stored has them, but they
        count in what a copy of the text would score.
        """
        if learn:
            for term in (word for text in texts for word in text if word not in self._numbers):
                if term not in self._numbers:
                    self._numbers[term] = len(self.terms)
                    self.terms.append(term)
        strange: dict[str, int] = {}
        return [np.array([self._number(word, strange) for word in text], "i4") for text in texts]

    def _number(self, word: str, strange: dict[str, int]) -> int:
        """A word's number, below 0 if it is not known; asked once, as another thread may forget it meanwhile."""
        number = self._numbers.get(word)
        return strange.setdefault(word, ~len(strange)) if number is None else number

    def forget(self, count: int) -> None:
        """Leaves only the first so many terms, where those learnt since could not be stored."""
        for term in self.terms[count:]:
            del self._numbers[term]
        del self.terms[count:]


def days_of(dates: pd.Series) -> np.ndarray:
    """Days since 1970, ``(B,)``; not a number where there is no date."""
    return np.asarray((dates - pd.Timestamp(0, tz="UTC")) / pd.Timedelta(days=1), dtype=np.float64)


def form_codes(reports: pd.DataFrame, product: Codes, component: Codes, learn: bool) -> tuple[np.ndarray, np.ndarray]:
    """Codes of products and components, as the baselines ``product`` and ``component`` compare them."""
    return product(products(reports), learn), component(reports["component"], learn)


class _Growing:
    """An array that grows at the end; twice as much room is taken each time, so that adding one by one stays cheap."""

    def __init__(self, filled: np.ndarray) -> None:
        self._room, self._count = filled, len(filled)

    def __len__(self) -> int:
        return self._count

    @property
    def filled(self) -> np.ndarray:
        return self._room[: self._count]

    def extend(self, fresh: np.ndarray) -> None:
        needed = self._count + len(fresh)
        if needed > len(self._room):
            room = np.empty((max(needed, 2 * len(self._room)), *self._room.shape[1:]), dtype=self._room.dtype)
            room[: self._count] = self.filled
            self._room = room
        self._room[self._count : needed] = fresh
        self._count = needed

    def replaced(self, rows: list[int], fresh: np.ndarray) -> "_Growing":
        filled = self.filled.copy()
        filled[rows] = fresh
        return _Growing(filled)
