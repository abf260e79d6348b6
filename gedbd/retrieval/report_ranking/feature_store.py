"""The features of reports as numbers: vector, terms, identifiers, fields and dates; and the store that they grow in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd

from gedbd.corpora.fields import product_names
from gedbd.corpora.readers.bug_reports import RESOLVED_AT
from gedbd.retrieval.growing_arrays import GrowingArray, RowMap
from gedbd.retrieval.inverted_index import MAX_CHARACTERS, Vocabulary, short_texts, words_of
from gedbd.retrieval.report_ranking.term_index import TermIndex
from gedbd.retrieval.report_ranking.vector_table import Int8Vectors, VectorTable, encode_vectors
from gedbd.text.words import find_error_lines, find_identifiers

FIELDS = ("product", "component", "version", "priority")
# When a report was resolved (missing if it is open or unknown), and when it came in.
TIMES = ("resolved", "day")
# The words of title and description and those of the title, in order; identifiers and lines about errors, each once.
TERM_KINDS = ("text", "title", "identifiers", "errors")
TERMS_VERSION = "2"  # raise it when ``terms_of`` finds other terms in a text
# Prefixes of these kinds of terms in the vocabulary; no word begins with them.
IDENTIFIER_MARK = "identifier:"
ERROR_MARK = "error:"

EMPTY, UNKNOWN = -1, -2
BATCH = 1_000  # reports whose terms are found at once

EPOCH = pd.Timestamp(0, tz="UTC")


class CategoryEncoder:
    """Numbers the values of a field, ignoring case."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self._codes = {name: code for code, name in enumerate(values)}

    @property
    def values(self) -> list[str]:
        """All values, in the order of their numbers."""
        return list(self._codes)

    def __call__(self, values: Iterable[str], learn: bool) -> np.ndarray:
        """``(B,)`` int32 codes: ``EMPTY`` for no value, ``UNKNOWN`` for a new one unless it is learned."""
        given = list(values)
        names = {value: value.strip().lower() for value in dict.fromkeys(given)}
        if learn:
            for name in filter(None, names.values()):
                self._codes.setdefault(name, len(self._codes))
        # Two codes below 0, because an empty value and an unknown one agree with nothing, not even with each other.
        codes = {value: self._codes.get(name, UNKNOWN) if name else EMPTY for value, name in names.items()}
        return np.array([codes[value] for value in given], dtype=np.int32)


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
    """Turns reports into numbers."""

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

    def numbered(texts: list[str], find: Callable[[str], list[str]], mark: str = "") -> list[np.ndarray]:
        # In batches, as the terms of all texts at once take many times the memory of the texts.
        batches = (texts[start : start + BATCH] for start in range(0, len(texts), BATCH))
        found = ([[mark + term for term in find(text)] for text in batch] for batch in batches)
        return [terms for batch in found for terms in vocabulary(batch, learn)]

    whole = [f"{title}\n{body}" for title, body in zip(reports["title"], reports["description"], strict=True)]
    return {
        # Cut as the BM25 baseline cuts, so that evaluation and search count the same words.
        "text": numbered(short_texts(reports, MAX_CHARACTERS), words_of),
        "title": numbered(list(reports["title"]), words_of),
        "identifiers": numbered(whole, find_identifiers, IDENTIFIER_MARK),
        "errors": numbered(whole, find_error_lines, ERROR_MARK),
    }


def days_of(dates: pd.Series, origin: pd.Timestamp = EPOCH) -> np.ndarray:
    """Days since an origin, ``(B,)`` float64; NaN where there is no date."""
    # On the underlying array: a series takes twice as long for a single date.
    return np.asarray((dates.array - origin) / pd.Timedelta(days=1), dtype=np.float64)


MEAN_STEP = 500
UNIT = 1 << 30  # vectors are summed as whole multiples of 1 / UNIT


class FeatureStore:
    """The features of all stored reports, to which reports are added at the end: row i is stored report i.

    A copy by ``copy.copy`` can grow without changing this store, for searches that are using it; of several copies only
    one may grow.
    """

    def __init__(self, dim: int) -> None:
        self.vectors = VectorTable(np.empty((0, dim), dtype=np.float32))
        self.terms = {kind: TermIndex() for kind in TERM_KINDS}
        self._columns = {name: GrowingArray(np.empty(0, dtype=np.int32)) for name in FIELDS}
        self._columns |= {name: GrowingArray(np.empty(0, dtype=np.float64)) for name in TIMES}
        self._latest_day: float | None = None
        self._first_resolved: int | None = None
        self._rows = RowMap()
        self._sums: dict[int, np.ndarray] = {}
        self._means: dict[int, np.ndarray] = {}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, np.ndarray], means: Mapping[str, float]) -> "FeatureStore":
        """A store of reports whose features are in arrays, which may be files.

        Args:
            arrays: ``vectors``, ``codes``, ``scale`` and ``rest`` of ``VectorTable`` and its codes; ``field`` with the
                name of each of ``FIELDS``, ``day`` and ``resolved``, each ``(N,)``; ``sums (S, D)`` of the vectors of
                each ``MEAN_STEP`` reports; and those of ``TermIndex.of_arrays`` after each of ``TERM_KINDS``.
            means: The mean length with which the saturation of each kind was computed.
        """
        store = cls(arrays["vectors"].shape[1])
        store.vectors = VectorTable(arrays["vectors"], Int8Vectors(arrays["codes"], arrays["scale"], arrays["rest"]))
        store._columns = {name: GrowingArray.copy_of(arrays[f"field {name}"]) for name in FIELDS}
        store._columns |= {name: GrowingArray.copy_of(arrays[name]) for name in TIMES}
        for kind in TERM_KINDS:
            own = {name.removeprefix(f"{kind} "): array for name, array in arrays.items() if name.startswith(kind)}
            store.terms[kind] = TermIndex.of_arrays(own, means[kind])
        store._sums = dict(enumerate(arrays["sums"]))
        return store

    def as_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """The arguments of ``of_arrays``, for a store to which reports were only added."""
        vectors = self.vectors.filled
        codes, scale, rest = encode_vectors(vectors)
        arrays = {"vectors": vectors, "codes": codes, "scale": scale, "rest": rest}
        arrays |= {name: self[name] for name in TIMES} | {f"field {name}": self[name] for name in FIELDS}
        self.mean_vector(len(self))  # computes all sums
        sums = [self._sums[step] for step in range(len(self) // MEAN_STEP)]
        arrays["sums"] = np.array(sums, dtype=np.int64).reshape(-1, self.vectors.dim)
        means = {}
        for kind, index in self.terms.items():
            of_kind, means[kind] = index.as_arrays()
            arrays |= {f"{kind} {name}": array for name, array in of_kind.items()}
        return arrays, means

    def __copy__(self) -> "FeatureStore":
        other = FeatureStore.__new__(FeatureStore)
        other.__dict__.update(self.__dict__)
        other.vectors = copy(self.vectors)
        other.terms = {kind: copy(index) for kind, index in self.terms.items()}
        other._columns = {name: copy(column) for name, column in self._columns.items()}
        other._sums = self._sums.copy()
        other._means = self._means.copy()
        return other

    def __len__(self) -> int:
        return len(self._columns["day"])

    def __getitem__(self, name: str) -> np.ndarray:
        """``(N,)`` values of one of ``FIELDS`` or ``TIMES``, see ``ReportFeatures.columns``."""
        return self._columns[name].filled

    @property
    def latest_day(self) -> float:
        """The highest of all days on which a report came in or was resolved; NaN if no report has a date."""
        if self._latest_day is None:
            created = np.fmax.reduce(self["day"], initial=np.nan)
            self._latest_day = float(np.fmax.reduce(self["resolved"], initial=created))
        return self._latest_day

    @property
    def first_resolved(self) -> int:
        """The first report that has a date of resolution; the number of all reports if none has."""
        if self._first_resolved is None:
            rows = np.flatnonzero(~np.isnan(self["resolved"]))
            self._first_resolved = int(rows[0]) if len(rows) else len(self)
        return self._first_resolved

    def num_since(self, rows: np.ndarray, count: int) -> np.ndarray:
        """Number of the first ``count`` reports from each of some rows on, ``(R,)``."""
        return np.asarray(count - rows)

    def num_of_component_since(self, rows: np.ndarray, of_component: np.ndarray) -> np.ndarray:
        """Number of reports of a component, in ascending rows, from each of some rows on, ``(R,)``."""
        return np.asarray(len(of_component) - of_component.searchsorted(rows))

    def mean_vector(self, count: int) -> np.ndarray:
        """The mean of the first vectors, ``(D,)``: ``count`` rounded down to a multiple of ``MEAN_STEP``."""
        steps = count // MEAN_STEP
        if not steps:
            return np.zeros(self.vectors.dim, dtype=np.float32)
        if steps not in self._means:
            for step in set(range(steps)) - self._sums.keys():
                rows = np.arange(step * MEAN_STEP, (step + 1) * MEAN_STEP)
                self._sums[step] = whole_numbers(self.vectors.take(rows)).sum(axis=0)
            total = np.sum([self._sums[step] for step in range(steps)], axis=0)
            self._means[steps] = (total / (steps * MEAN_STEP * UNIT)).astype(np.float32)
        return self._means[steps]

    def add(self, fresh: ReportFeatures) -> None:
        """Adds reports at the end."""
        self._append(fresh, self._rows.grown(len(fresh), self.vectors.num_places))
        self._latest_day = None
        self._first_resolved = None
        for name in (*FIELDS, *TIMES):  # days come last, because the length of a store is their number
            self._columns[name].extend(fresh.columns[name])

    def replaced(self, rows: list[int], fresh: ReportFeatures) -> "FeatureStore":
        """A store with other reports in some rows; this one does not change, as searches may be using it."""
        other = copy(self)
        other._remove(np.array(rows, dtype=np.int64))
        other._append(fresh, self._rows.replaced(rows, self.vectors.num_places))
        for name, values in fresh.columns.items():
            # A copy: searches may be reading the old values.
            filled = self[name].copy()
            filled[rows] = values
            other._columns[name] = GrowingArray(filled)
        for step in {row // MEAN_STEP for row in rows}:
            other._sums.pop(step, None)
        other._means = {}
        other._latest_day = None
        other._first_resolved = None
        return other

    def with_vectors(self, vectors: np.ndarray) -> "FeatureStore":
        """A store with other vectors, which shares all else with this one."""
        other = FeatureStore.__new__(FeatureStore)
        other.__dict__.update(self.__dict__)
        other.vectors = VectorTable(vectors)
        other.vectors.rows = self._rows
        other._sums = {}
        other._means = {}
        return other

    def without(self, removed: np.ndarray) -> "FeatureStore":
        """A store without some rows, ``removed (N,)`` bool; later rows move up."""
        other = copy(self)
        rows = np.flatnonzero(removed)
        other._remove(rows)
        other._set_rows(self._rows.without(removed, self.vectors.num_places))
        other._columns = {name: GrowingArray(column.filled[~removed]) for name, column in self._columns.items()}
        other._sums = self._sums_without(rows)
        other._means = {}
        other._latest_day = None
        other._first_resolved = None
        return other

    def _append(self, fresh: ReportFeatures, rows: RowMap) -> None:
        """Adds vectors and terms at the last places."""
        self.vectors.add(fresh.vectors)
        for kind, index in self.terms.items():
            index.add(fresh.terms[kind])
        self._set_rows(rows)

    def _remove(self, rows: np.ndarray) -> None:
        """Excludes the terms of reports from all counts."""
        for index in self.terms.values():
            index.remove(self._rows.places(rows))

    def _set_rows(self, rows: RowMap) -> None:
        self._rows = rows
        self.vectors.rows = rows
        for index in self.terms.values():
            index.rows = rows

    def _sums_without(self, rows: np.ndarray) -> dict[int, np.ndarray]:
        """The sums that stay known in a store without some rows, ascending."""
        if len(rows) != 1:
            first = int(rows.min(initial=len(self))) // MEAN_STEP
            return {step: total for step, total in self._sums.items() if step < first}
        # The first report of each later step moves into the step before.
        (row,) = rows.tolist()
        sums = self._sums.copy()
        later = sorted(step for step in sums if step >= row // MEAN_STEP)
        leaving = np.array([max(step * MEAN_STEP, row) for step in later], dtype=np.int64)
        coming = np.array([(step + 1) * MEAN_STEP for step in later], dtype=np.int64)
        complete = coming < len(self)
        moved = [whole_numbers(self.vectors.take(some[complete])) for some in (coming, leaving)]
        for place, step in enumerate(later):
            if complete[place]:
                sums[step] = sums[step] + moved[0][place] - moved[1][place]
            else:
                del sums[step]
        return sums


def whole_numbers(vectors: np.ndarray) -> np.ndarray:
    """Vectors in units of 1 / ``UNIT``, int64: sums of them do not depend on the order in which they are summed."""
    return np.rint(vectors.astype(np.float64) * UNIT).astype(np.int64)
