"""Approximate scores with a bound of their error, and which reports have the highest exact ones."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np


class Shortlist(NamedTuple):
    """The reports that have the highest exact scores, as far as approximate ones tell.

    Attributes:
        certain: ``(S,)`` rows that are among them.
        possible: ``(P,)`` rows that may be among them, ascending.
        num_left: How many of ``possible`` are.
    """

    certain: np.ndarray
    possible: np.ndarray
    num_left: int

    def rows(self, exact: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The reports in any order; of equal exact scores the older report is taken first.

        Args:
            exact: Gives the exact scores of some rows.
        """
        if not self.num_left:
            return self.certain
        best = self.possible
        if self.num_left < len(best):
            best = best[np.argsort(-exact(best), kind="stable")[: self.num_left]]
        return np.concatenate([self.certain, best])


class RoughScores(NamedTuple):
    """Approximate scores of N reports. The exact score of value v is from v least - error to v most + error.

    Attributes:
        values: ``(N,)`` float32.
        least: See there.
        most: See there.
        error: See there.
    """

    values: np.ndarray
    least: float = 1.0
    most: float = 1.0
    error: float = 0.0

    def highest(self, depth: int, allowed: np.ndarray | None = None, above: float = -np.inf) -> Shortlist:
        """The reports with the highest exact scores.

        Args:
            depth: How many to find.
            allowed: ``(N,)`` bool, what may be found; None for all.
            above: What has this approximate score or a lower one is not found.
        """
        nothing = np.empty(0, dtype=np.int64)
        if not depth:
            return Shortlist(nothing, nothing, 0)
        is_open = self.values > above if allowed is None else (self.values > above) & allowed
        rows = np.flatnonzero(is_open)
        if len(rows) <= depth:
            return Shortlist(rows, nothing, 0)
        # Without what cannot be found, for it may be many equal scores, which take long to partition.
        values = self.values[rows]
        lowest = float(np.partition(values, -depth)[-depth])
        # No report with this approximate score or a lower one has a higher exact score than the ceiling, and fewer than
        # ``depth`` have a higher approximate one.
        ceiling = lowest * self.most + self.error
        likely = np.flatnonzero(values >= (lowest * self.least - 2 * self.error) / self.most)
        is_certain = values[likely] > (ceiling + self.error) / self.least
        certain = rows[likely[is_certain]]
        return Shortlist(certain, rows[likely[~is_certain]], depth - len(certain))
