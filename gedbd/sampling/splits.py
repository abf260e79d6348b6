"""Splits into training, validation and test, by time, by group, by fold or by pair.

``of_documents`` assigns each document to a split; ``of_pairs`` assigns each pair to a split, or ``OUTSIDE``, by the
splits of its two documents.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import OUTSIDE, PARTS, TEST, TRAIN, VAL, Corpus, Documents, keep_first
from gedbd.corpora.dates import OutOfRangeError, parse_date
from gedbd.corpora.relevance import Groups


class Split(Protocol):
    """Assigns documents and pairs to splits."""

    def of_documents(self, documents: Documents, groups: Groups) -> np.ndarray:
        """The split of each document, ``(N,)`` int8: 0 train, 1 val, 2 test, or ``OUTSIDE``."""
        ...

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The split of each pair ``(P,)`` of rows ``earlier < later``, or ``OUTSIDE``."""
        ...


class LaterPart:
    """Assigns a pair to the split of its later document, the maximum of both, since split numbers ascend in time."""

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The split of the later document."""
        return np.asarray(parts[np.maximum(earlier, later)])


class SharedPart:
    """Assigns a pair to the split that contains both of its documents."""

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The split that contains both documents, or ``OUTSIDE``."""
        return np.where(parts[earlier] == parts[later], parts[earlier], OUTSIDE).astype(np.int8)


@dataclass(frozen=True)
class TimeSplit(LaterPart):
    """Train before one moment, validate before the next, test after it.

    A pair belongs to the split of its later document, as a new report is compared with all earlier ones. Training pairs
    contain no validation or test documents.
    """

    # start of validation: a fraction of the documents in time order (0.6), or a date ("2015-01-01")
    val_from: float | str = 0.6
    test_from: float | str = 0.8  # start of test, likewise
    # instead of ``val_from``: the fraction of the documents before test that validate, the latest ones
    val_share: float | None = None

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Assigns splits in time order; raises ValueError if a boundary is invalid or a split would be empty."""
        test = _row_of(documents, self.test_from, "test_from")
        if self.val_share is None:
            val = _row_of(documents, self.val_from, "val_from")
        else:
            val = _row_of(documents, (1 - self.val_share) * test / len(documents), "val_share")
        if not 0 < val < test < len(documents):
            raise ValueError(
                f"split=time cuts the {len(documents)} reports of {documents.name} at rows {val} and {test}, which"
                f" leaves a split empty: change split.val_from ({self.val_from}) or split.test_from ({self.test_from})"
            )
        return np.digitize(np.arange(len(documents)), [val, test]).astype(np.int8)


def _row_of(documents: Documents, moment: float | str, option: str) -> int:
    """The first row at or after a moment."""
    dates = documents.table["created_at"]
    if isinstance(moment, float | int):
        row = int(len(documents) * moment)
        if not 0 < row < len(documents) or pd.isna(dates[row]):
            return row
        # Documents of the same second stay in one split, as their order is unknown.
        return int(dates.searchsorted(dates[row], side="left"))
    if not documents.has_dates:
        raise ValueError(
            f"split.{option}={moment} is a date, but {documents.name} has no dates: set a share such as 0.8"
        )
    try:
        when = parse_date(str(moment))
    except OutOfRangeError as error:
        raise ValueError(f"split.{option}={moment}: {error}") from error
    except ValueError as error:
        raise ValueError(
            f"split.{option}={moment} is neither a share of the reports (0.8) nor a date (2015-01-31)"
        ) from error
    return int(dates.searchsorted(pd.Timestamp(when), side="left"))


@dataclass(frozen=True)
class GroupSplit(SharedPart):
    """Assigns whole duplicate groups at random; a pair belongs to the split that contains both documents.

    Stratified: singletons and larger groups are assigned separately.
    """

    val: float = 0.2  # fraction of the groups for validation
    test: float = 0.2  # fraction of the groups for test
    seed: int = 0  # seed of the random numbers

    def of_documents(self, documents: Documents, groups: Groups) -> np.ndarray:
        """Assigns splits by group."""
        check_fractions(self.val, self.test)
        rng = np.random.default_rng(self.seed)
        masters, inverse, sizes = np.unique(groups.group, return_inverse=True, return_counts=True)
        part = np.zeros(len(masters), dtype=np.int8)
        for stratum in (sizes > 1, sizes == 1):
            part[stratum] = _cut(int(stratum.sum()), self.val, self.test, rng)
        return part[inverse]


@dataclass(frozen=True)
class FoldSplit(SharedPart):
    """Cross-validation over duplicate groups: one fold for test, the next for validation, the others for training."""

    folds: int = 5  # number of folds, 3 or more
    # the test fold, modulo ``folds``: ``fold=${seed}`` with ``seeds=5`` and ``folds=5`` tests every group once
    fold: int = 0
    seed: int = 0  # seed of the random numbers; the same for all folds

    def of_documents(self, documents: Documents, groups: Groups) -> np.ndarray:
        """Assigns splits by group, stratified: singletons and larger groups are distributed separately."""
        rng = np.random.default_rng(self.seed)
        masters, inverse, sizes = np.unique(groups.group, return_inverse=True, return_counts=True)
        fold = np.empty(len(masters), dtype=np.int64)
        for stratum in (np.flatnonzero(sizes > 1), np.flatnonzero(sizes == 1)):
            fold[rng.permutation(stratum)] = np.arange(len(stratum)) % self.folds
        # With folds=5 and fold=4: fold 4 has offset 0 (test), fold 0 offset 1 (validation), 1 to 3 are training.
        offset = (fold - self.fold) % self.folds
        return np.select([offset == 0, offset == 1], [TEST, VAL], TRAIN).astype(np.int8)[inverse]


@dataclass(frozen=True)
class PairSplit(LaterPart):
    """Random split of pairs, as in the authors' code. It leaks: a document occurs in pairs of several splits.

    Documents and pairs are all training ones until ``cut`` assigns the sampled pairs to the splits.
    """

    val: float = 0.2  # fraction of the pairs for validation
    test: float = 0.2  # fraction of the pairs for test
    seed: int = 0  # seed of the random numbers

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Assigns every document to training."""
        check_fractions(self.val, self.test)
        return np.zeros(len(documents), dtype=np.int8)

    def cut(self, count: int) -> np.ndarray:
        """Assigns ``count`` pairs to the three splits at random, ``(count,)``."""
        return _cut(count, self.val, self.test, np.random.default_rng(self.seed))


@dataclass(frozen=True)
class HeldOutSplit(LaterPart):
    """Trains on some trackers; of each held-out tracker, the first reports validate and the others test."""

    val_share: float = 0.8  # fraction of the reports of each held-out tracker that validates
    # maximum number of these reports; None for all. Test queries are ranked against the others, which are ``OUTSIDE``
    max_val: int | None = None

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Assigns splits by the column ``held_out``; raises ValueError if there is none."""
        if "held_out" not in documents.table:
            raise ValueError(
                f"split=held_out needs several trackers, and {documents.name} is one: set dataset=trackers"
            )
        first = documents.first_of_tracker
        position = np.arange(len(documents)) - first
        num_val = (np.bincount(first)[first] * self.val_share).astype(np.int64)
        parts = np.where(position < num_val, VAL, TEST)
        if self.max_val is not None:
            parts[(parts == VAL) & (position >= self.max_val)] = OUTSIDE
        return np.where(documents.table["held_out"], parts, TRAIN).astype(np.int8)


def split_corpus(split: Split, corpus: Corpus) -> np.ndarray:
    """The split of each report of a corpus, ``(N,)`` int8: 0 train, 1 val, 2 test, or ``OUTSIDE``."""
    return split.of_documents(corpus.documents, corpus.relevance)


def keep_assigned(corpus: Corpus, parts: np.ndarray) -> tuple[Corpus, np.ndarray]:
    """Removes the documents after the last split, which do not exist yet when it is tested."""
    count = int(np.flatnonzero(parts != OUTSIDE).max(initial=-1)) + 1
    return (corpus, parts) if count == len(corpus) else (keep_first(corpus, count), parts[:count])


def check_fractions(val: float, test: float) -> None:
    """Raises ValueError unless both fractions are above 0 and their sum is below 1."""
    if not (0 < val < 1 and 0 < test < 1 and val + test < 1):
        raise ValueError(f"split.val={val} and split.test={test} must be above 0 and leave something to train on")


def _cut(count: int, val: float, test: float, rng: np.random.Generator) -> np.ndarray:
    """A random split for each of ``count`` items, with rounded bounds."""
    position = np.empty(count, dtype=np.int64)
    position[rng.permutation(count)] = np.arange(count)
    # With 10 items, val=0.2 and test=0.2: positions 0 to 5 are training, 6 and 7 validation, 8 and 9 test.
    bounds = [round(count * (1 - val - test)), round(count * (1 - test))]
    return np.digitize(position, bounds).astype(np.int8)


@dataclass(frozen=True)
class YearSplit(LaterPart):
    """Test on one calendar year (UTC), validate on the days before it, train on all earlier documents."""

    year: int  # the year to test; later documents are ``OUTSIDE``
    val_days: float = 92  # days of validation before the year, above 0

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Assigns splits by creation date; raises ValueError if there are no dates, or a split would be empty."""
        if not documents.has_dates:
            raise ValueError(f"split=year needs creation dates, and {documents.name} has none: choose split=group")
        test_from = pd.Timestamp(self.year, 1, 1, tz="UTC")
        bounds = [test_from - pd.Timedelta(days=self.val_days), test_from, pd.Timestamp(self.year + 1, 1, 1, tz="UTC")]
        dates = documents.table["created_at"]
        # A document at a bound belongs to the split that begins there.
        rows = [int(dates.searchsorted(bound, side="left")) for bound in bounds]
        sizes = np.diff([0, *rows, len(documents)])
        empty = [part for part, size in zip(PARTS, sizes[:-1], strict=True) if not size]
        if empty:
            raise ValueError(
                f"split.year={self.year} leaves split {empty[0]} of {documents.name} without documents, which were"
                f" created from {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}: choose another year or split.val_days"
            )
        return np.repeat(np.array([TRAIN, VAL, TEST, OUTSIDE], dtype=np.int8), sizes)


@dataclass(frozen=True)
class FileSplit(SharedPart):
    """Assigns whole files, whose methods share names; a pair belongs to the split that contains both documents.

    The files are shuffled and cut where the fractions of the documents are closest to ``val`` and ``test``.
    """

    val: float = 0.1  # fraction of the documents for validation
    test: float = 0.2  # fraction of the documents for test
    seed: int = 0  # seed of the random numbers

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Assigns splits by the column ``path``; a group may have members in several splits.

        Raises:
            ValueError: If the documents have no paths, or are of fewer than three files.
        """
        check_fractions(self.val, self.test)
        if "path" not in documents.table:
            raise ValueError(
                f"split=file needs documents with a path, which those of {documents.name} lack: choose another split,"
                " such as split=time, or dataset=java_sources"
            )
        paths, file_of, counts = np.unique(documents.table["path"], return_inverse=True, return_counts=True)
        if len(paths) < len(PARTS):
            raise ValueError(
                f"split=file: {documents.name} has only {len(paths)} files, but each of the three splits needs at"
                " least one"
            )
        order = np.random.default_rng(self.seed).permutation(len(paths))
        part = np.empty(len(paths), dtype=np.int8)
        part[order] = np.digitize(np.arange(len(paths)), self._bounds(counts[order]))
        return part[file_of]

    def _bounds(self, counts: np.ndarray) -> tuple[int, int]:
        """The first file of validation and of test, by the numbers of documents of the shuffled files."""
        # Files of 3, 1 and 6 documents allow bounds after 0, 3, 4 or 10 documents; that closest to 70 % is after the
        # second file. Each split gets a file, so that the last bound is before the third file.
        before = np.concatenate([[0], np.cumsum(counts)])
        val_from = int(np.abs(before - before[-1] * (1 - self.val - self.test)).argmin())
        val_from = min(max(val_from, 1), len(counts) - 2)
        test_from = int(np.abs(before - before[-1] * (1 - self.test)).argmin())
        return val_from, min(max(test_from, val_from + 1), len(counts) - 1)


@dataclass(frozen=True)
class Labels:
    """Keeps the labels of a fraction of the training groups.

    Reports of hidden groups become singletons: they stay nodes of the graph and candidates, and may be sampled as
    negatives. Validation and test keep all labels. With one seed, a larger fraction keeps the groups of a smaller one.
    """

    fraction: float = 1.0  # fraction of the groups with at least two reports in the training split, rounded up
    seed: int = 0  # seed of the random numbers

    def observed(self, corpus: Corpus, parts: np.ndarray) -> np.ndarray:
        """The groups that training observes, ``(N,)``, numbered as in the corpus.

        Raises:
            ValueError: If the fraction is below 1 and there is no split but training.
        """
        if self.fraction < 1 and (parts == TRAIN).all():
            raise ValueError(
                f"labels.fraction={self.fraction} needs reports outside training, which split=pair does not have:"
                " choose another split"
            )
        masters, sizes = np.unique(corpus.group[parts == TRAIN], return_counts=True)
        masters = masters[sizes > 1]
        kept = int(np.ceil(self.fraction * len(masters)))
        # One permutation for all fractions, of which a larger fraction keeps a longer beginning.
        dropped = np.random.default_rng(self.seed).permutation(masters)[kept:]
        # A group may reach into validation and test, where its number stays.
        hidden = (parts == TRAIN) & np.isin(corpus.group, dropped)
        return np.where(hidden, np.arange(len(corpus)), corpus.group)
