"""Rough products of many vectors with one, by vectors of whole numbers from -127 to 127."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from copy import copy

import numpy as np

from gedbd.retrieval.growing import GrowingRows

MAX_CODE = 127
DEVIATIONS = 8  # a rough cosine is never so many standard deviations off
BLOCK = 65_536  # vectors of one task of a thread
THREADS = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="products")


class Int8Vectors:
    """Vectors as whole numbers from -127 to 127, a quarter of their size: vector = code * scale + a small rest.

    Args:
        codes: ``(F, D)`` int8 codes to start with.
        scale: ``(F,)`` float32.
        rest: ``(F,)`` float32 lengths of the rests.
    """

    def __init__(self, codes: np.ndarray, scale: np.ndarray, rest: np.ndarray) -> None:
        self.codes = GrowingRows(codes)
        self.scale = GrowingRows(scale)
        self.rest = float(rest.max(initial=0))

    @classmethod
    def empty(cls, dim: int) -> "Int8Vectors":
        """Codes of no vector."""
        nothing = np.empty(0, dtype=np.float32)
        return cls(np.empty((0, dim), dtype=np.int8), nothing, nothing)

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
        """Cosines of all vectors with a query ``(D,)``, ``(P,)``, and how far they are at most from the exact ones."""
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


def encode_vectors(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Codes of vectors, their scales, and the lengths of the rests, ``(B, D) -> (B, D), (B,), (B,)``."""
    scale = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-12).astype(np.float32) / MAX_CODE
    codes = np.rint(vectors / scale[:, None]).astype(np.int8)
    rest = np.linalg.norm(vectors - codes * scale[:, None], axis=1)
    return codes, scale, rest.astype(np.float32)


def products(parts: Sequence[np.ndarray], query: np.ndarray) -> np.ndarray:
    """The products of codes with those of a query, ``(P, D)`` in parts, ``(D,) -> (P,)`` float32."""
    found = np.empty(sum(map(len, parts)), dtype=np.float32)
    tasks, first = [], 0
    for codes in parts:
        for start in range(0, len(codes), BLOCK):
            block = codes[start : start + BLOCK]
            out = found[first + start : first + start + len(block)]
            tasks.append(THREADS.submit(_write_products, block, query, out))
        first += len(codes)
    for task in tasks:
        task.result()
    return found


def _write_products(codes: np.ndarray, query: np.ndarray, out: np.ndarray) -> None:
    import simsimd

    out[:] = np.asarray(simsimd.cdist(query[None], codes, "dot")).ravel()
