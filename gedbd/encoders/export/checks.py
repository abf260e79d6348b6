"""Checks of exported models: same vectors as gedbd, and a folder that is written as a whole."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

TOLERANCE = 1e-5
CHECKED = {"longest": 40, "shortest": 40, "random": 120}


def some_texts(texts: list[str]) -> list[str]:
    """Distinct texts to compare an exported model on: an empty one, the longest, the shortest, and random others.

    Args:
        texts: All texts of a corpus.
    """
    by_length = sorted(set(texts), key=lambda text: (len(text), text))
    count = min(len(by_length), CHECKED["random"])
    rows = np.random.default_rng(0).choice(len(by_length), count, replace=False)
    shortest = by_length[: CHECKED["shortest"]]
    longest = by_length[-CHECKED["longest"] :]
    sampled = [by_length[row] for row in rows]
    # Keys of a dictionary keep their order, unlike those of a set.
    return list(dict.fromkeys(["", *shortest, *longest, *sampled]))


def largest_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference between the numbers of two sets of vectors ``(N, D)``.

    Raises:
        ValueError: If it is more than ``TOLERANCE``, or not a number.
    """
    largest = float(np.abs(found - expected).max())
    # Not "largest > TOLERANCE": a comparison with NaN is false.
    if not largest <= TOLERANCE:
        raise ValueError(
            f"the exported model's vectors differ from gedbd's by {largest:.1e}, more than {TOLERANCE:.0e}: nothing was"
            " written; this encoder cannot be exported in this format with the installed packages"
        )
    return largest


def check_free(out: Path) -> None:
    """Raises ValueError if no folder can be made there: the name is taken, or its parent is missing or not writable."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"out={out} exists and is not an empty folder: give another folder, or delete it")
    parent = out.absolute().parent
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise ValueError(f"out={out} cannot be written: give a new folder inside a writable one")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """A temporary folder next to ``out`` that becomes ``out`` at the end, or is deleted after an error."""
    with tempfile.TemporaryDirectory(dir=out.absolute().parent) as temporary:
        fresh = Path(temporary) / "model"
        fresh.mkdir()
        yield fresh
        # safetensors makes its files readable for their owner alone.
        for path in fresh.rglob("*.safetensors"):
            path.chmod(fresh.stat().st_mode & 0o666)
        fresh.rename(out)
