"""Splits into train, validation and test, by time, by group, by fold or by pair.

``of_documents`` assigns a part to every document, ``of_pairs`` to every pair from the parts of its two documents, or
``OUTSIDE`` where the pair belongs to no part. Each class says which documents and groups its parts may share.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.corpus import Corpus, Documents, keep_first
from gedbd.corpora.dates import OutOfRangeError, parse_date
from gedbd.corpora.relevance import Groups

PARTS = ("train", "val", "test")
# Numbers of the parts, in the order of PARTS and of time.
TRAIN = 0
VAL = 1
TEST = 2
OUTSIDE = -1


class Split(Protocol):
    """Assigns documents and pairs to the parts."""

    def of_documents(self, documents: Documents, groups: Groups) -> np.ndarray:
        """The part of every document, ``(N,)`` int8 of 0 train, 1 val, 2 test; ``OUTSIDE`` if it belongs to none."""
        ...

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part of each pair ``(P,)`` of rows ``earlier < later``; ``OUTSIDE`` if it belongs to none."""
        ...


class LaterPart:
    """Puts a pair into the part of its later document."""

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part of the later document."""
        # The numbers of the parts ascend in time, so the later one is the maximum.
        return np.asarray(parts[np.maximum(earlier, later)])


class SharedPart:
    """A pair belongs to the part that contains both of its documents."""

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part that contains both documents, ``OUTSIDE`` if none does."""
        return np.where(parts[earlier] == parts[later], parts[earlier], OUTSIDE).astype(np.int8)


@dataclass(frozen=True)
class TimeSplit(LaterPart):
    """Train before one moment, validate before the next, test after it.

    A pair belongs to the part of its later document, as in use: a new report is compared with all earlier ones. No
    validation or test document occurs in a training pair.

    Args:
        val_from: First moment of validation: a share of the documents in time (0.6), or a date ("2015-01-01").
        test_from: First moment of test, likewise.
        val_share: Instead of ``val_from``: the share of the documents before test that validate, the latest of them.
    """

    val_from: float | str = 0.6
    test_from: float | str = 0.8
    val_share: float | None = None

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Parts by chronological order; groups play no role.

        Raises:
            ValueError: If a boundary cannot be placed or a part would be empty.
        """
        test = _row_of(documents, self.test_from, "test_from")
        if self.val_share is None:
            val = _row_of(documents, self.val_from, "val_from")
        else:
            val = _row_of(documents, (1 - self.val_share) * test / len(documents), "val_share")
        if not 0 < val < test < len(documents):
            raise ValueError(
                f"split=time cuts the {len(documents)} reports of {documents.name} at rows {val} and {test}, which"
                f" leaves a part empty: change split.val_from ({self.val_from}) or split.test_from ({self.test_from})"
            )
        return np.digitize(np.arange(len(documents)), [val, test]).astype(np.int8)


def _row_of(documents: Documents, moment: float | str, option: str) -> int:
    """First row at or after a moment."""
    dates = documents.table["created_at"]
    if isinstance(moment, float | int):
        row = int(len(documents) * moment)
        if not 0 < row < len(documents) or pd.isna(dates[row]):
            return row
        # Documents of the same second stay in one part, as their order within it is unknown.
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
    """Duplicate groups are drawn whole into train, validation and test; a pair has both documents in one part.

    Groups of two and more and singletons are drawn separately, so that each part has its share of both.

    Args:
        val: Fraction of the groups drawn for validation.
        test: Fraction of the groups drawn for test.
        seed: Determines the draw.
    """

    val: float = 0.2
    test: float = 0.2
    seed: int = 0

    def of_documents(self, documents: Documents, groups: Groups) -> np.ndarray:
        """Parts by group."""
        check_fractions(self.val, self.test)
        rng = np.random.default_rng(self.seed)
        masters, inverse, sizes = np.unique(groups.group, return_inverse=True, return_counts=True)
        part = np.zeros(len(masters), dtype=np.int8)
        for chosen in (sizes > 1, sizes == 1):
            part[chosen] = _cut(int(chosen.sum()), self.val, self.test, rng)
        return part[inverse]


@dataclass(frozen=True)
class FoldSplit(SharedPart):
    """Cross-validation over duplicate groups: one fold of them is test, the next validation, the others training.

    Args:
        folds: Number of folds, 3 or more.
        fold: The test fold, modulo ``folds``: ``fold=${seed}`` with ``seeds=5`` and ``folds=5`` tests every group once.
        seed: Determines which groups form a fold; the same for all folds.
    """

    folds: int = 5
    fold: int = 0
    seed: int = 0

    def of_documents(self, documents: Documents, groups: Groups) -> np.ndarray:
        """Parts by group; groups of two and more and singletons are distributed separately."""
        rng = np.random.default_rng(self.seed)
        masters, inverse, sizes = np.unique(groups.group, return_inverse=True, return_counts=True)
        fold = np.empty(len(masters), dtype=np.int64)
        for chosen in (np.flatnonzero(sizes > 1), np.flatnonzero(sizes == 1)):
            fold[rng.permutation(chosen)] = np.arange(len(chosen)) % self.folds
        # With folds=5 and fold=4: fold 4 is 0 ahead (test), fold 0 is 1 ahead (validation), 1 to 3 are training.
        ahead = (fold - self.fold) % self.folds
        return np.select([ahead == 0, ahead == 1], [TEST, VAL], TRAIN).astype(np.int8)[inverse]


@dataclass(frozen=True)
class PairSplit:
    """The split of the authors' code: pairs are shuffled and cut regardless of their documents.

    It leaks: a document occurs in pairs of several parts.

    Args:
        val: Fraction of the pairs for validation.
        test: Fraction of the pairs for test.
        seed: Determines the draw.
    """

    val: float = 0.2
    test: float = 0.2
    seed: int = 0

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Training may see every document."""
        check_fractions(self.val, self.test)
        return np.zeros(len(documents), dtype=np.int8)

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Every pair may be drawn; ``cut`` assigns the parts once all pairs are drawn."""
        return np.zeros(len(earlier), dtype=np.int8)

    def cut(self, count: int) -> np.ndarray:
        """Assigns ``count`` pairs to the three parts at random, ``(count,)``."""
        return _cut(count, self.val, self.test, np.random.default_rng(self.seed))


def split_corpus(split: Split, corpus: Corpus) -> np.ndarray:
    """The part of every report of a corpus, ``(N,)`` int8 of 0 train, 1 val, 2 test; ``OUTSIDE`` for none."""
    return split.of_documents(corpus.documents, corpus.relevance)


def keep_assigned(corpus: Corpus, parts: np.ndarray) -> tuple[Corpus, np.ndarray]:
    """A corpus without the documents that come after all parts, and the parts of the others.

    No model and no word count may read them, as they do not exist yet when the last part is tested.
    """
    count = int(np.flatnonzero(parts != OUTSIDE).max(initial=-1)) + 1
    return (corpus, parts) if count == len(corpus) else (keep_first(corpus, count), parts[:count])


def check_fractions(val: float, test: float) -> None:
    """Raises ValueError unless both fractions are above 0 and leave something to train on."""
    if not (0 < val < 1 and 0 < test < 1 and val + test < 1):
        raise ValueError(f"split.val={val} and split.test={test} must be above 0 and leave something to train on")


def _cut(count: int, val: float, test: float, rng: np.random.Generator) -> np.ndarray:
    """A random part for each of ``count`` items; fractions are rounded at the ends of the parts."""
    position = np.empty(count, dtype=np.int64)
    position[rng.permutation(count)] = np.arange(count)
    # With 10 items, val=0.2 and test=0.2: places 0 to 5 are training, 6 and 7 validation, 8 and 9 test.
    bounds = [round(count * (1 - val - test)), round(count * (1 - test))]
    return np.digitize(position, bounds).astype(np.int8)


@dataclass(frozen=True)
class YearSplit(LaterPart):
    """Test on the documents of one calendar year (UTC), validate on the last days before it, train on all before these.

    Later documents belong to no part.

    Args:
        year: The year to test.
        val_days: Days of validation before the year, above 0.
    """

    year: int
    val_days: float = 92

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Parts by creation date, ``OUTSIDE`` after the year; groups play no role.

        Raises:
            ValueError: If there are no dates, or a part would be empty.
        """
        if not documents.has_dates:
            raise ValueError(f"split=year needs creation dates, and {documents.name} has none: choose split=group")
        test_from = pd.Timestamp(self.year, 1, 1, tz="UTC")
        bounds = [test_from - pd.Timedelta(days=self.val_days), test_from, pd.Timestamp(self.year + 1, 1, 1, tz="UTC")]
        dates = documents.table["created_at"]
        # Documents of a bound's own moment belong to the part that it begins.
        val, test, end = (int(dates.searchsorted(bound, side="left")) for bound in bounds)
        empty = [part for part, size in zip(PARTS, (val, test - val, end - test), strict=True) if not size]
        if empty:
            raise ValueError(
                f"split.year={self.year} leaves part {empty[0]} of {documents.name} without documents, which are"
                f" created from {dates.min():%Y-%m-%d} to {dates.max():%Y-%m-%d}: choose another year or split.val_days"
            )
        parts = np.full(len(documents), OUTSIDE, dtype=np.int8)
        parts[:val] = TRAIN
        parts[val:test] = VAL
        parts[test:end] = TEST
        return parts


@dataclass(frozen=True)
class FileSplit(SharedPart):
    """Whole files are drawn into train, validation and test; a pair has both documents in one part.

    Methods of a file share names and habits, so that a model that has read some of them knows more about the others.
    The files are put into random order and cut where the shares of the documents are closest to those asked for.

    Args:
        val: Fraction of the documents for validation.
        test: Fraction of the documents for test.
        seed: Determines the draw.
    """

    val: float = 0.1
    test: float = 0.2
    seed: int = 0

    def of_documents(self, documents: Documents, groups: Groups | None = None) -> np.ndarray:
        """Parts by the column ``path``; groups play no role, and one may have members in several parts.

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
                f"split=file: {documents.name} has only {len(paths)} files, but each of the three parts needs at"
                " least one"
            )
        order = np.random.default_rng(self.seed).permutation(len(paths))
        part = np.full(len(paths), TRAIN, dtype=np.int8)
        val_from, test_from = self._bounds(counts[order])
        part[order[val_from:test_from]] = VAL
        part[order[test_from:]] = TEST
        return part[file_of]

    def _bounds(self, counts: np.ndarray) -> tuple[int, int]:
        """The first file of validation and of test, given the numbers of documents of files in random order."""
        # Files of 3, 1 and 6 documents: 0, 3, 4 or 10 of them come before a bound; a bound after 70 % is after the
        # second file. Each part gets a file, so that the last bound is before the third.
        before = np.concatenate([[0], np.cumsum(counts)])
        val_from = int(np.abs(before - before[-1] * (1 - self.val - self.test)).argmin())
        val_from = min(max(val_from, 1), len(counts) - 2)
        test_from = int(np.abs(before - before[-1] * (1 - self.test)).argmin())
        return val_from, min(max(test_from, val_from + 1), len(counts) - 1)


@dataclass(frozen=True)
class Labels:
    """Keeps the labels of a fraction of the training groups and hides those of the others.

    Reports of hidden groups stay nodes of the graph and candidates of the ranking, and may be drawn as negatives, each
    as a singleton. Validation and test keep all labels. Of two fractions with one seed, the groups of the smaller are
    among those of the larger.

    Args:
        fraction: Fraction of the groups with at least two reports in the training part, rounded up.
        seed: Determines which groups.
    """

    fraction: float = 1.0
    seed: int = 0

    def observed(self, corpus: Corpus, parts: np.ndarray) -> np.ndarray:
        """The groups that training may see, ``(N,)``, numbered as in the corpus.

        Args:
            corpus: The reports.
            parts: ``(N,)`` part of each report.

        Raises:
            ValueError: If the fraction is below 1 and the split has no part but training.
        """
        if self.fraction < 1 and (parts == TRAIN).all():
            raise ValueError(
                f"labels.fraction={self.fraction} needs reports outside training, which split=pair does not have:"
                " choose another split"
            )
        masters, sizes = np.unique(corpus.group[parts == TRAIN], return_counts=True)
        masters = masters[sizes > 1]
        kept = int(np.ceil(self.fraction * len(masters)))
        # One permutation for all fractions: a larger one keeps a longer beginning of it.
        dropped = np.random.default_rng(self.seed).permutation(masters)[kept:]
        # A group may reach into validation and test, where its number stays.
        hidden = (parts == TRAIN) & np.isin(corpus.group, dropped)
        return np.where(hidden, np.arange(len(corpus)), corpus.group)


def evenly_spaced(first: int, end: int, max_count: int) -> np.ndarray:
    """At most ``max_count`` of the numbers from ``first`` to below ``end``, evenly spaced: two of 3, 4, 5 are 3, 5."""
    count = min(end - first, max_count)
    return np.unique(np.linspace(first, end - 1, count).round().astype(np.int64))
