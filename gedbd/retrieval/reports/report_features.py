"""What is compared of a report, as numbers: vector, terms, identifiers, fields and dates."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.fields import product_names
from gedbd.corpora.readers.bug_reports import RESOLVED_AT
from gedbd.retrieval.inverted_index import MAX_CHARACTERS, Vocabulary, short_texts, words
from gedbd.text.words import find_error_lines, find_identifiers

FIELDS = ("product", "component", "version", "priority")
# When a report was resolved (not where it is open, or the tracker does not say), and when it came in.
TIMES = ("resolved", "day")
# The words of title and description and those of the title, in order; identifiers and lines about errors, each once.
TERM_KINDS = ("text", "title", "identifiers", "errors")
TERMS_VERSION = "2"  # to be raised when ``terms_of`` finds other terms in a text
# Terms of these kinds begin so in the vocabulary, which no word does.
IDENTIFIER_MARK = "identifier:"
ERROR_MARK = "error:"

EMPTY, UNKNOWN = -1, -2

EPOCH = pd.Timestamp(0, tz="UTC")


class CategoryEncoder:
    """A number for each value of a field; upper and lower case are the same."""

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
class ReportFeatures:
    """B reports as numbers."""

    vectors: np.ndarray  # ``(B, D)`` float32, unit rows
    terms: Mapping[str, Sequence[np.ndarray]]  # for each of ``TERM_KINDS`` those of each report, ``(L,)`` int32
    # ``(B,)`` values of ``FIELDS``, int32 codes of a ``CategoryEncoder``, and of ``TIMES``, float64 days since 1970 in
    # UTC; NaN where there is no date
    columns: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, row: int) -> "ReportFeatures":
        """One of the reports."""
        return self.take([row])

    def take(self, rows: list[int]) -> "ReportFeatures":
        """Some of the reports."""
        terms = {kind: [texts[row] for row in rows] for kind, texts in self.terms.items()}
        columns = {name: values[rows] for name, values in self.columns.items()}
        return ReportFeatures(self.vectors[rows], terms, columns)


class FeatureEncoder:
    """Turns reports into numbers.

    Attributes:
        categories: Numbers of the values of each of ``FIELDS``.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.categories = {field: CategoryEncoder() for field in FIELDS}

    def encode(self, reports: pd.DataFrame, vectors: np.ndarray, learn: bool) -> ReportFeatures:
        """Reports as numbers.

        Args:
            reports: B reports; without a column ``resolved_at`` all of them count as open.
            vectors: ``(B, D)`` unit rows.
            learn: Give numbers to new terms and values, as when reports are stored.
        """
        resolved = days_of(reports[RESOLVED_AT]) if RESOLVED_AT in reports else np.full(len(reports), np.nan)
        times = {"resolved": resolved, "day": days_of(reports["created_at"])}
        columns = self.encode_categories(reports, learn) | times
        return ReportFeatures(vectors, terms_of(reports, self.vocabulary, learn), columns)

    def encode_categories(self, reports: pd.DataFrame, learn: bool) -> dict[str, np.ndarray]:
        """Codes of each of ``FIELDS``, ``(B,)``."""
        # Without a series of products, which takes a quarter of a millisecond for a single report.
        return {
            field: encode(product_names(reports) if field == "product" else reports[field], learn)
            for field, encode in self.categories.items()
        }


def terms_of(reports: pd.DataFrame, vocabulary: Vocabulary, learn: bool) -> dict[str, list[np.ndarray]]:
    """The terms of B reports by kind of ``TERM_KINDS``, each ``(L,)`` int32; see ``FeatureEncoder.encode``."""
    # Cut as the BM25 baseline cuts, so that evaluation and search count the same words.
    text = vocabulary(words(short_texts(reports, MAX_CHARACTERS)), learn)
    title = vocabulary(words(list(reports["title"])), learn)
    whole = [f"{title}\n{body}" for title, body in zip(reports["title"], reports["description"], strict=True)]
    identifiers = [[IDENTIFIER_MARK + name for name in find_identifiers(report)] for report in whole]
    errors = [[ERROR_MARK + line for line in find_error_lines(report)] for report in whole]
    return {
        "text": text,
        "title": title,
        "identifiers": vocabulary(identifiers, learn),
        "errors": vocabulary(errors, learn),
    }


def days_of(dates: pd.Series, origin: pd.Timestamp = EPOCH) -> np.ndarray:
    """Days since an origin, ``(B,)`` float64; NaN where there is no date."""
    # On the array inside: a series takes twice as long for a single date.
    return np.asarray((dates.array - origin) / pd.Timedelta(days=1), dtype=np.float64)
