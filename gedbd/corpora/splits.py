"""Splits into train, validation and test. Each class says which wall it builds; a test proves it.

``of_reports`` gives every report a part, ``of_pairs`` gives every pair a part from the parts of its two reports, or
``OUTSIDE`` where the pair would cross a wall.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from gedbd.corpora.dates import OutOfRangeError, parse_date
from gedbd.corpora.documents import Corpus

PARTS = ("train", "val", "test")
TRAIN, VAL, TEST = 0, 1, 2
OUTSIDE = -1


class Split(Protocol):
    """What pairs and graph ask of a split."""

    def of_reports(self, corpus: Corpus) -> np.ndarray:
        """The part of every report, ``(N,)`` int8 of 0 train, 1 val, 2 test."""
        ...

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part of each pair ``(P,)`` of rows ``earlier < later``; ``OUTSIDE`` if it belongs to none."""
        ...


@dataclass(frozen=True)
class TimeSplit:
    """Train before one moment, validate before the next, test after it.

    A pair belongs to the part of its later report, as a triager would meet it: the earlier one may be of any age. So no
    validation or test report occurs in a training pair.

    Args:
        val_from: First moment of validation: a share of the reports in time (0.6), or a date ("2015-01-01").
        test_from: First moment of test, likewise.
    """

    val_from: float | str = 0.6
    test_from: float | str = 0.8

    def of_reports(self, corpus: Corpus) -> np.ndarray:
        """Parts by chronological order. Raises ValueError if a boundary cannot be placed or a part would be empty."""
        val, test = (_row_of(corpus, value, name) for name, value in vars(self).items())
        if not 0 < val < test < len(corpus):
            raise ValueError(
                f"split=time cuts the {len(corpus)} reports of {corpus.name} at rows {val} and {test}, which leaves a"
                f" part empty: choose split.val_from ({self.val_from}) and split.test_from ({self.test_from}) anew"
            )
        rows = np.arange(len(corpus))
        return ((rows >= val).astype(np.int8) + (rows >= test)).astype(np.int8)

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part of the later report."""
        return np.asarray(parts[np.maximum(earlier, later)])


def _row_of(corpus: Corpus, moment: float | str, option: str) -> int:
    """First row at or after a moment. Reports filed in the same second never lie on two sides of the wall."""
    dates = corpus.reports["created_at"]
    if isinstance(moment, float | int):
        row = int(len(corpus) * moment)
        if not 0 < row < len(corpus) or pd.isna(dates[row]):
            return row
        return int(dates.searchsorted(dates[row], side="left"))
    if bool(dates.isna().all()):
        raise ValueError(f"split.{option}={moment} is a date, but {corpus.name} has no dates: give a share such as 0.8")
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
class GroupSplit:
    """Duplicate groups are drawn whole into train, validation and test; a pair has both reports in one part.

    Groups of two and more and lone reports are drawn apart, so that each part has its share of both.

    Args:
        val: Share of the groups drawn for validation.
        test: Share of the groups drawn for test.
        seed: Fixes the draw.
    """

    val: float = 0.2
    test: float = 0.2
    seed: int = 0

    def of_reports(self, corpus: Corpus) -> np.ndarray:
        """Parts by group."""
        _check_shares(self.val, self.test)
        rng = np.random.default_rng(self.seed)
        masters, inverse, sizes = np.unique(corpus.group, return_inverse=True, return_counts=True)
        part = np.zeros(len(masters), dtype=np.int8)
        for several in (True, False):
            part[(sizes > 1) == several] = _cut(int(((sizes > 1) == several).sum()), self.val, self.test, rng)
        return part[inverse]

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part that both reports share."""
        return _shared_part(parts, earlier, later)


@dataclass(frozen=True)
class FoldSplit:
    """Cross-validation over duplicate groups: one fold of them is test, the next validation, the others training.

    Args:
        folds: Number of folds, 3 or more.
        fold: Which one is test, counted on from the last to the first again: ``fold=${seed}`` with ``seeds=5`` and
            ``folds=5`` tests every group once.
        seed: Fixes which groups make a fold; the same for all folds.
    """

    folds: int = 5
    fold: int = 0
    seed: int = 0

    def of_reports(self, corpus: Corpus) -> np.ndarray:
        """Parts by group; groups of two and more and lone reports are dealt out apart."""
        if self.folds < 3:
            raise ValueError(f"split.folds={self.folds} must be 3 or more: one to test, one to validate, one to train")
        rng = np.random.default_rng(self.seed)
        masters, inverse, sizes = np.unique(corpus.group, return_inverse=True, return_counts=True)
        fold = np.empty(len(masters), dtype=np.int64)
        for several in (True, False):
            chosen = np.flatnonzero((sizes > 1) == several)
            fold[rng.permutation(chosen)] = np.arange(len(chosen)) % self.folds
        ahead = (fold - self.fold) % self.folds
        return np.select([ahead == 0, ahead == 1], [TEST, VAL], TRAIN).astype(np.int8)[inverse]

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """The part that both reports share."""
        return _shared_part(parts, earlier, later)


@dataclass(frozen=True)
class PairSplit:
    """The paper's split: pairs are shuffled and cut, whatever their reports. It leaks: reports occur in several parts.

    Args:
        val: Share of the pairs for validation.
        test: Share of the pairs for test.
        seed: Fixes the draw.
    """

    val: float = 0.2
    test: float = 0.2
    seed: int = 0

    def of_reports(self, corpus: Corpus) -> np.ndarray:
        """Every report may be trained on."""
        _check_shares(self.val, self.test)
        return np.zeros(len(corpus), dtype=np.int8)

    def of_pairs(self, parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Every pair may be drawn; ``cut`` deals them out once all are there."""
        return np.zeros(len(earlier), dtype=np.int8)

    def cut(self, count: int) -> np.ndarray:
        """Deals ``count`` pairs out to the three parts at random, ``(count,)``."""
        return _cut(count, self.val, self.test, np.random.default_rng(self.seed))


def _shared_part(parts: np.ndarray, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
    return np.where(parts[earlier] == parts[later], parts[earlier], OUTSIDE).astype(np.int8)


def _check_shares(val: float, test: float) -> None:
    if not (0 < val < 1 and 0 < test < 1 and val + test < 1):
        raise ValueError(f"split.val={val} and split.test={test} must be above 0 and leave something to train on")


def _cut(count: int, val: float, test: float, rng: np.random.Generator) -> np.ndarray:
    place = np.empty(count, dtype=np.int64)
    place[rng.permutation(count)] = np.arange(count)
    first, second = round(count * (1 - val - test)), round(count * (1 - test))
    return ((place >= first).astype(np.int8) + (place >= second)).astype(np.int8)
