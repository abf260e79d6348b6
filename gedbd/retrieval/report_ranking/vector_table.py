"""The vectors of reports, approximate scores with a bound of their error, and the most similar reports by them."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from functools import partial
from typing import NamedTuple

import numpy as np

from gedbd.retrieval.growing_arrays import GrowingRows, RowMap

MAX_CODE = 127
DEVIATIONS = 8  # bounds the error of a rough cosine, in standard deviations
BLOCK = 65_536  # vectors of one task of a thread
THREADS = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="products")
MIN_CODED = 10_000  # fewer vectors are compared without codes
ROUNDING = 1e-5  # bounds the error of a cosine by rounding to single precision


class Shortlist(NamedTuple):
    """The reports that have the highest exact scores, as far as approximate ones tell."""

    certain: np.ndarray  # ``(S,)`` rows that are among them
    possible: np.ndarray  # ``(P,)`` rows that may be among them, ascending
    num_left: int  # how many of ``possible`` are

    def rows(self, exact: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """The reports in any order; of equal exact scores the older report is taken first.

        ``exact`` gives the exact scores of some rows.
        """
        if not self.num_left:
            return self.certain
        best = self.possible
        if self.num_left < len(best):
            best = best[np.argsort(-exact(best), kind="stable")[: self.num_left]]
        return np.concatenate([self.certain, best])


class RoughScores(NamedTuple):
    """Approximate scores of N reports. The exact score of value v is from v * least - error to v * most + error."""

    values: np.ndarray  # ``(N,)`` float32
    least: float = 1.0
    most: float = 1.0
    error: float = 0.0

    def highest(self, depth: int, allowed: np.ndarray | None = None, above: float = -np.inf) -> Shortlist:
        """The reports with the highest exact scores.

        Args:
            depth: Number of reports to find.
            allowed: ``(N,)`` bool, the reports that may be found; None for all.
            above: Only reports with a higher approximate score are found.
        """
        nothing = np.empty(0, dtype=np.int64)
        if not depth:
            return Shortlist(nothing, nothing, 0)
        is_candidate = self.values > above if allowed is None else (self.values > above) & allowed
        rows = np.flatnonzero(is_candidate)
        if len(rows) <= depth:
            return Shortlist(rows, nothing, 0)
        # Without reports that cannot be found: many equal scores take long to partition.
        values = self.values if len(rows) == len(self.values) else self.values[rows]
        lowest = float(np.partition(values, -depth)[-depth])
        # No report with this approximate score or a lower one has a higher exact score than the ceiling, and fewer than
        # ``depth`` have a higher approximate one.
        ceiling = lowest * self.most + self.error
        likely = np.flatnonzero(values >= (lowest * self.least - 2 * self.error) / self.most)
        is_certain = values[likely] > (ceiling + self.error) / self.least
        certain = rows[likely[is_certain]]
        return Shortlist(certain, rows[likely[~is_certain]], depth - len(certain))


class Int8Vectors:
    """Vectors quantised to -127 to 127, a quarter of their size: vector = code * scale + a small rest.

    Args:
        codes: ``(F, D)`` int8 codes to start with.
        scale: ``(F,)`` float32.
        rest: ``(F,)`` float32 lengths of the rests.
    """

    def __init__(self, codes: np.ndarray, scale: np.ndarray, rest: np.ndarray) -> None:
        self.codes = GrowingRows(codes)
        self.scale = GrowingRows(scale)
        self.rest = float(rest.max(initial=0))

    def __copy__(self) -> "Int8Vectors":
        """Codes that can grow without changing these."""
        other = Int8Vectors.__new__(Int8Vectors)
        other.codes, other.scale, other.rest = copy(self.codes), copy(self.scale), self.rest
        return other

    def add(self, vectors: np.ndarray) -> None:
        """Adds the codes of vectors, ``(B, D)``."""
        codes, scale, rest = encode_vectors(vectors)
        self.scale.extend(scale)
        self.codes.extend(codes)
        self.rest = max(self.rest, float(rest.max(initial=0)))

    def rough_cosines(self, query: np.ndarray) -> tuple[np.ndarray, float]:
        """Cosines of all vectors with a query ``(D,)``, ``(P,)``, and a bound of their error."""
        own, own_scale, own_rest = encode_vectors(query[None])
        rough = products(self.codes.parts, own[0])
        first = 0
        for scale in self.scale.parts:
            rough[first : first + len(scale)] *= scale * own_scale
            first += len(scale)
        # |v q - c s q'| <= |v - c s| |q| + |c s| |q - q'|, where v and q have length 1. Both products are sums of D
        # roundings up and down, whose standard deviation is that bound divided by the root of D.
        bound = self.rest + (1 + self.rest) * float(own_rest[0])
        return rough, bound * min(1.0, DEVIATIONS / np.sqrt(len(query)))


class VectorTable:
    """Unit vectors of reports, which grow at the end.

    The first ones ``(F, D)`` float32 may be in a file. Codes that are not given are computed when they are needed.

    Attributes:
        rows: Maps reports to the places of their vectors. A report that replaces another one gets a new place.
    """

    def __init__(self, fixed: np.ndarray, codes: Int8Vectors | None = None) -> None:
        self._vectors = GrowingRows(fixed)
        nothing = np.empty(0, dtype=np.float32)
        self._codes = codes or Int8Vectors(np.empty((0, fixed.shape[1]), dtype=np.int8), nothing, nothing)
        self._lock = threading.Lock()
        self.rows = RowMap()

    def __copy__(self) -> "VectorTable":
        """A table that can grow without changing this one."""
        other = VectorTable.__new__(VectorTable)
        with self._lock:
            other._vectors, other._codes = copy(self._vectors), copy(self._codes)
        other._lock = threading.Lock()
        other.rows = self.rows
        return other

    def __getstate__(self) -> dict[str, object]:
        """What is pickled: all but the lock, of which each process has its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, object]) -> None:
        self.__dict__.update(state)
        self._lock = threading.Lock()

    @property
    def dim(self) -> int:
        """Size of the vectors."""
        return int(self._vectors.parts[0].shape[1])

    @property
    def num_places(self) -> int:
        """Number of vectors, those of replaced and removed reports included."""
        return len(self._vectors)

    @property
    def filled(self) -> np.ndarray:
        """The vectors of all N reports, ``(N, D)``; a copy if any were added, replaced or removed."""
        return self.rows.in_rows(self._vectors.filled)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of some reports, ``(R,) -> (R, D)``."""
        return self._vectors.take(self.rows.places(rows))

    def add(self, fresh: np.ndarray) -> None:
        """Adds vectors at the end."""
        self._vectors.extend(fresh)

    def cosines(self, rows: np.ndarray, *queries: np.ndarray) -> np.ndarray:
        """Cosines of some reports with each of K queries ``(D,)``, ``(K, R)``, for one query ``(R,)``.

        A cosine does not depend on the other reports and queries.
        """
        vectors = self.take(rows)
        cosines = [np.einsum("rd,d->r", vectors, query) for query in queries]
        return np.asarray(cosines[0] if len(cosines) == 1 else cosines)

    def rough_cosines(self, query: np.ndarray, before: int | None = None) -> RoughScores:
        """Rough cosines of all reports with a query ``(D,)``, or of the first ``before`` ones."""
        if len(self._vectors) < MIN_CODED:
            rough, error = self._vectors.filled @ query, ROUNDING
        else:
            with self._lock:
                missing = np.arange(len(self._codes.codes), len(self._vectors))
                if len(missing):
                    self._codes.add(self._vectors.take(missing))
                codes = copy(self._codes)
            rough, error = codes.rough_cosines(query)
            error += ROUNDING
        return RoughScores(self.rows.in_rows(rough)[:before], error=error)


def encode_vectors(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of vectors, their scales, and the lengths of the rests, ``(B, D) -> (B, D), (B,), (B,)``."""
    scale = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-12).astype(np.float32) / MAX_CODE
    scaled = vectors / scale[:, None]
    codes = np.rint(scaled, out=scaled).astype(np.int8)
    rest = np.linalg.norm(vectors - np.multiply(codes, scale[:, None], out=scaled), axis=1)
    return codes, scale, rest.astype(np.float32)


def products(parts: Sequence[np.ndarray], query: np.ndarray) -> np.ndarray:
    """The products of codes with those of a query, ``(P, D)`` in parts, ``(D,) -> (P,)`` float32."""
    blocks = [codes[start : start + BLOCK] for codes in parts for start in range(0, len(codes), BLOCK)]
    return np.concatenate([np.empty(0, dtype=np.float32), *THREADS.map(partial(_products_of_block, query), blocks)])


def _products_of_block(query: np.ndarray, codes: np.ndarray) -> np.ndarray:
    import simsimd

    return np.asarray(simsimd.cdist(query[None], codes, "dot"), dtype=np.float32).ravel()
