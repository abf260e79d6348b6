"""What is compared of a report, as numbers: vector, terms, identifiers, fields and dates."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import pandas as pd

from gedbd.corpora.fields import product_names
from gedbd.corpora.readers.bug_reports import RESOLVED_AT
from gedbd.retrieval.growing_arrays import RaggedArray
from gedbd.retrieval.vocabulary import MAX_CHARACTERS, Vocabulary, short_texts, words
from gedbd.text.code_words import find_error_lines, find_identifiers

FIELDS = ("product", "component", "version", "priority")
# Terms of these kinds begin so in the vocabulary, which no word does.
IDENTIFIER_MARK = "identifier:"
ERROR_MARK = "error:"


EMPTY, UNKNOWN = -1, -2

EPOCH = pd.Timestamp(0, tz="UTC")


class CategoryEncoder:
    """A number for each value of a field; upper and lower case are the same.

    Args:
        values: The values with the numbers 0, 1, 2, ...
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._codes = {name: code for code, name in enumerate(values)}

    @property
    def values(self) -> list[str]:
        """All values, in the order of their numbers."""
        return list(self._codes)

    def __call__(self, values: Iterable[str], learn: bool) -> np.ndarray:
        """``(B,)`` int32 codes: ``EMPTY`` for no value, ``UNKNOWN`` for a new one unless it is learned."""
        names = [value.strip().lower() for value in values]
        if learn:
            for name in filter(None, names):
                self._codes.setdefault(name, len(self._codes))
        # Two codes below 0, because an empty value and an unknown one agree with nothing, each other included.
        codes = [self._codes.get(name, UNKNOWN) if name else EMPTY for name in names]
        return np.array(codes, dtype=np.int32)


@dataclass(frozen=True)
class ReportTerms:
    """The terms of B reports, each ``(L,)`` int32.

    Attributes:
        text: The words of title and description, in order.
        title: The words of the title, in order.
        identifiers: Its identifiers, each once, see ``find_identifiers``.
        errors: Its lines about errors, each once, see ``find_error_lines``.
    """

    text: Sequence[np.ndarray]
    title: Sequence[np.ndarray]
    identifiers: Sequence[np.ndarray]
    errors: Sequence[np.ndarray]

    def __len__(self) -> int:
        return len(self.text)

    def by_report(self) -> list[tuple[np.ndarray, ...]]:
        """The terms of each report, in the order of the attributes."""
        return list(zip(self.text, self.title, self.identifiers, self.errors, strict=True))

    def flat(self) -> "ReportTerms":
        """The same as ``RaggedArray``, which is pickled in less time than many arrays."""
        nothing = np.empty(0, dtype=np.int32)
        return ReportTerms(*(RaggedArray.of(getattr(self, one.name), nothing) for one in fields(self)))

    def take(self, rows: list[int]) -> "ReportTerms":
        """The terms of some of the reports."""
        return ReportTerms(*([getattr(self, one.name)[row] for row in rows] for one in fields(self)))


@dataclass(frozen=True)
class ReportFeatures:
    """B reports as numbers.

    Attributes:
        vectors: ``(B, D)`` float32, unit rows.
        terms: Their words, identifiers and lines about errors.
        codes: ``(B, 4)`` int32 codes of ``FIELDS``, see ``CategoryEncoder``.
        day: ``(B,)`` days since 1970, UTC; NaN where there is no date.
        resolved: ``(B,)`` likewise when they were resolved; NaN where they are open, or the tracker does not say.
    """

    vectors: np.ndarray
    terms: ReportTerms
    codes: np.ndarray
    day: np.ndarray
    resolved: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, row: int) -> "ReportFeatures":
        """One of the reports."""
        return self.take([row])

    def take(self, rows: list[int]) -> "ReportFeatures":
        """Some of the reports."""
        terms = self.terms.take(rows)
        return ReportFeatures(self.vectors[rows], terms, self.codes[rows], self.day[rows], self.resolved[rows])


@dataclass(frozen=True)
class FeatureEncoder:
    """Turns reports into numbers.

    Attributes:
        vocabulary: Numbers of terms.
        categories: Numbers of the values of each field of ``FIELDS``.
    """

    vocabulary: Vocabulary
    categories: tuple[CategoryEncoder, ...]

    @classmethod
    def of(cls, vocabulary: Vocabulary) -> "FeatureEncoder":
        """An encoder with a vocabulary, which has not met any value of a field."""
        return cls(vocabulary, tuple(CategoryEncoder() for _ in FIELDS))

    def encode(self, reports: pd.DataFrame, vectors: np.ndarray, learn: bool) -> ReportFeatures:
        """Reports as numbers.

        Args:
            reports: B reports; without a column ``resolved_at`` all of them count as open.
            vectors: ``(B, D)`` unit rows.
            learn: Give numbers to new terms and values, as when reports are stored.
        """
        terms = terms_of(reports, self.vocabulary, learn)
        codes = self.encode_categories(reports, learn)
        resolved = days_of(reports[RESOLVED_AT]) if RESOLVED_AT in reports else np.full(len(reports), np.nan)
        return ReportFeatures(vectors, terms, codes, days_of(reports["created_at"]), resolved)

    def encode_categories(self, reports: pd.DataFrame, learn: bool) -> np.ndarray:
        """Codes of the fields, ``(B, 4)``."""
        # Without a series of products, which takes a quarter of a millisecond for a single report.
        values: list[Iterable[str]] = [
            product_names(reports) if field == "product" else reports[field] for field in FIELDS
        ]
        pairs = zip(values, self.categories, strict=True)
        return np.column_stack([encode(column, learn) for column, encode in pairs])


def terms_of(reports: pd.DataFrame, vocabulary: Vocabulary, learn: bool) -> ReportTerms:
    """The terms of reports; see ``FeatureEncoder.encode``."""
    # Cut as the BM25 baseline cuts, so that evaluation and search count the same words.
    text = vocabulary(words(short_texts(reports, MAX_CHARACTERS)), learn)
    title = vocabulary(words(list(reports["title"])), learn)
    whole = [f"{title}\n{body}" for title, body in zip(reports["title"], reports["description"], strict=True)]
    identifiers = [[IDENTIFIER_MARK + name for name in find_identifiers(one)] for one in whole]
    errors = [[ERROR_MARK + line for line in find_error_lines(one)] for one in whole]
    return ReportTerms(text, title, vocabulary(identifiers, learn), vocabulary(errors, learn))


def days_of(dates: pd.Series, origin: pd.Timestamp = EPOCH) -> np.ndarray:
    """Days since an origin, ``(B,)`` float64; NaN where there is no date."""
    # On the array inside: a series takes twice as long for a single date.
    return np.asarray((dates.array - origin) / pd.Timedelta(days=1), dtype=np.float64)
