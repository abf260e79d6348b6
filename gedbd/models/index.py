"""Finds the nearest of many vectors: exactly, and quickly for one query as well as for thousands."""

import faiss
import numpy as np

FEW = 16
MORE = 32
BLOCK = 64
# Bounds on the error of an inner product of unit vectors: half-precision rounds each number by a part in 2 ** 11 at
# most; single precision adds 1000 products with errors far below the other.
HALF_ERROR, SINGLE_ERROR = 6e-4, 1e-5


class VectorIndex:
    """Unit vectors by row number, the order in which they were added.

    For a few queries, faiss scans a copy in half precision, which is what memory bandwidth allows to be quick, and what
    could be among the best is scored anew from the float32 vectors; if rounding leaves that open, and for many queries,
    all are compared in float32. Either way the answer is that of comparing all: scores are summed in float64, and of
    equal scores the older row comes first.

    Args:
        dim: Size D of the vectors.
    """

    def __init__(self, dim: int) -> None:
        self.dim, self._count = dim, 0
        self._rows = np.empty((0, dim), dtype=np.float32)
        self._half = faiss.IndexScalarQuantizer(dim, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)

    def __len__(self) -> int:
        return self._count

    @property
    def vectors(self) -> np.ndarray:
        """``(N, D)`` float32, as they were added."""
        return self._rows[: self._count]

    def add(self, vectors: np.ndarray) -> None:
        """Adds rows at the end.

        Args:
            vectors: ``(M, D)`` unit rows; a zero row scores 0 with everything.

        Raises:
            ValueError: If they are of another size, or a row is neither of length 1 nor zero.
        """
        fresh = self._checked(vectors)
        needed = self._count + len(fresh)
        if needed > len(self._rows):
            # Twice as much room as before, so that adding one by one stays cheap.
            room = np.empty((max(needed, 2 * len(self._rows)), self.dim), dtype=np.float32)
            room[: self._count] = self.vectors
            self._rows = room
        self._rows[self._count : needed] = fresh
        self._count = needed
        self._half.add(fresh)

    def search(
        self,
        vectors: np.ndarray,
        top_k: int,
        group: np.ndarray | None = None,
        query_group: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """The rows with the highest inner products.

        Args:
            vectors: ``(Q, D)`` unit queries.
            top_k: Rows K to give for each.
            group: ``(N,)`` group of each row; with ``query_group``, rows of a query's own group are left out. Row
                numbers as groups leave out single rows.
            query_group: ``(Q,)`` group of each query.

        Returns:
            Rows ``(Q, K)`` int64 and scores ``(Q, K)`` float32, the best first and the older of equal ones first;
            -1 and ``-inf`` where there are no more.

        Raises:
            ValueError: If sizes do not fit, or ``top_k`` is not above 0.
        """
        queries = self._checked(vectors)
        if top_k < 1:
            raise ValueError(f"top_k={top_k} must be 1 or more")
        own = self._own_groups(len(queries), group, query_group)
        rows = np.full((len(queries), top_k), -1, dtype=np.int64)
        scores = np.full((len(queries), top_k), -np.inf, dtype=np.float32)
        for start in range(0, len(queries), BLOCK):
            block = queries[start : start + BLOCK]
            products = [None] * len(block) if len(queries) <= FEW else block @ self.vectors.T
            for place, (query, single) in enumerate(zip(block, products, strict=True), start=start):
                candidates = self._candidates(query, single, top_k, own[place])
                best, best_scores = self._best(query, candidates, top_k)
                rows[place, : len(best)], scores[place, : len(best)] = best, best_scores
        return rows, scores

    def _candidates(self, query: np.ndarray, single: np.ndarray | None, top_k: int, left_out: np.ndarray) -> np.ndarray:
        """Rows that hold the best; ``single`` are the products in float32, if they have been computed."""
        if single is None:
            candidates = self._scan_half(query, top_k, left_out)
            if candidates is not None:
                return candidates
            single = self.vectors @ query
        return _contenders(single, top_k, left_out)

    def _scan_half(self, query: np.ndarray, top_k: int, left_out: np.ndarray) -> np.ndarray | None:
        """Candidates that surely hold the best, or none if that cannot be said."""
        depth = min(self._count, top_k + MORE + len(left_out))
        if depth == 0:
            return left_out
        near, found = self._half.search(query[None], depth)
        kept = ~np.isin(found[0], left_out)
        candidates = found[0][kept]
        if depth == self._count:
            return np.asarray(candidates)
        # What was not found scores at most near[-1] in half precision.
        return candidates if near[0][kept][top_k - 1] - near[0][-1] > 2 * HALF_ERROR else None

    def _best(self, query: np.ndarray, candidates: np.ndarray, top_k: int) -> tuple[np.ndarray, np.ndarray]:
        exact = (self._rows[candidates].astype(np.float64) @ query.astype(np.float64)).astype(np.float32)
        order = np.lexsort((candidates, -exact))[:top_k]
        return candidates[order], exact[order]

    def _own_groups(
        self, num_queries: int, group: np.ndarray | None, query_group: np.ndarray | None
    ) -> list[np.ndarray]:
        """The rows of each query's group, none where there are no groups."""
        if group is None and query_group is None:
            return [np.empty(0, dtype=np.int64)] * num_queries
        if group is None or query_group is None or len(group) != self._count or len(query_group) != num_queries:
            raise ValueError(
                f"group and query_group go together: a number for each of {self._count} rows and {num_queries} queries"
            )
        order = np.argsort(group, kind="stable")
        first, last = (np.searchsorted(group[order], query_group, side) for side in ("left", "right"))
        return [order[start:end] for start, end in zip(first, last, strict=True)]

    def _checked(self, vectors: np.ndarray) -> np.ndarray:
        if vectors.ndim != 2 or vectors.shape[1] != self.dim:
            raise ValueError(f"vectors of shape {vectors.shape} do not fit an index of (N, {self.dim})")
        checked = np.ascontiguousarray(vectors, dtype=np.float32)
        lengths = np.linalg.norm(checked, axis=1)
        wrong = np.flatnonzero(~((np.abs(lengths - 1) < 1e-3) | (lengths == 0)))
        if len(wrong):
            raise ValueError(f"vector {wrong[0]} has length {lengths[wrong[0]]:.3g}: scale vectors to length 1")
        return checked


def _contenders(scores: np.ndarray, top_k: int, left_out: np.ndarray) -> np.ndarray:
    """Rows that may be among the best by scores in single precision."""
    scores = scores.copy()
    scores[left_out] = -np.inf
    lowest = np.partition(scores, -top_k)[-top_k] if top_k < len(scores) else -np.inf
    return np.flatnonzero((scores >= lowest - 2 * SINGLE_ERROR) & (scores > -np.inf))
