"""Vectors of reports in a NumPy file with ids and unit rows."""

import os
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.io.files import replacing


def check_writable(path: Path) -> None:
    """Raises ValueError if a path does not end in .npz, or its folder is missing or not writable."""
    if path.suffix != ".npz":
        raise ValueError(f"out={path} must end in .npz: ids and vectors as NumPy arrays")
    if path.is_dir() or not (path.parent.is_dir() and os.access(path.parent, os.W_OK)):
        raise ValueError(f"out={path} cannot be written: give a file in an existing, writable folder")


def save_vectors(path: Path, ids: pd.Series, vectors: np.ndarray) -> None:
    """Writes ``id`` ``(N,)`` as text and ``vectors`` ``(N, D)`` float32; an interrupted call leaves no file.

    Args:
        path: See ``check_writable``.
        ids: N ids.
        vectors: Their vectors.
    """
    with replacing(path) as unfinished:
        np.savez(unfinished, id=ids.to_numpy(dtype=str), vectors=vectors)
