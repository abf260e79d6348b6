"""Vectors of reports in a NumPy file with ids and unit rows."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from gedbd.io.files import replacing, write_text


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


def write_faiss(path: Path, ids: Sequence[str], vectors: np.ndarray) -> tuple[Path, Path]:
    """Writes an exact index of inner products; an interrupted call leaves the former files.

    Args:
        path: The file.
        ids: N ids; row i of the index is line i of the file of ids.
        vectors: ``(N, D)`` float32 unit rows, whose inner products are cosines.

    Returns:
        The file, and that of the ids, whose name ends in ``.ids.txt``.

    Raises:
        OSError: If they cannot be written.
    """
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, dtype=np.float32))
    named = path.with_name(f"{path.name}.ids.txt")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as unfinished:
        unfinished.write_bytes(faiss.serialize_index(index).tobytes())
    write_text(named, "".join(f"{issue_id}\n" for issue_id in ids))
    return path, named
