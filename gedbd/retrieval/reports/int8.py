"""Rough products of many vectors with one, by vectors of whole numbers from -127 to 127."""

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

MAX_CODE = 127
BLOCK = 65_536  # vectors of one task of a thread
THREADS = ThreadPoolExecutor(min(4, os.cpu_count() or 1), thread_name_prefix="products")


def encode(vectors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Codes of vectors, int8, and their scales: vector = code * scale + a small rest, ``(B, D) -> (B, D), (B,)``."""
    scale = np.maximum(np.abs(vectors).max(axis=1, initial=0), 1e-12).astype(np.float32) / MAX_CODE
    return np.rint(vectors / scale[:, None]).astype(np.int8), scale


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
