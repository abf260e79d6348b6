"""Vectors of reports as an index of faiss, with a file of their ids."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gedbd.io.files import replacing, write_text


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
    write_text(named, "".join(f"{one}\n" for one in ids))
    return path, named
