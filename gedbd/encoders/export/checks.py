"""What is asked of an exported model: the vectors of gedbd, and a folder that comes whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

TOLERANCE = 1e-5
CHECKED = {"longest": 40, "shortest": 40, "random": 120}


def some_texts(texts: list[str]) -> list[str]:
    """Distinct texts to hold an exported model to: an empty one, the longest, the shortest, and others at random.

    Args:
        texts: All texts of a corpus.
    """
    by_length = sorted(set(texts), key=lambda text: (len(text), text))
    drawn = np.random.default_rng(0).choice(len(by_length), min(len(by_length), CHECKED["random"]), replace=False)
    chosen = [*by_length[: CHECKED["shortest"]], *by_length[-CHECKED["longest"] :], *(by_length[row] for row in drawn)]
    return list(dict.fromkeys(["", *chosen]))


def largest_difference(found: np.ndarray, expected: np.ndarray) -> float:
    """The largest difference between the numbers of two sets of vectors ``(N, D)``.

    Raises:
        ValueError: If it is more than ``TOLERANCE``, or none.
    """
    largest = float(np.abs(found - expected).max())
    if not largest <= TOLERANCE:
        raise ValueError(
            f"the exported model's vectors differ from gedbd's by {largest:.1e}, more than {TOLERANCE:.0e}: nothing was"
            " written; this encoder cannot be exported in this format with the installed packages"
        )
    return largest


def check_free(out: Path) -> None:
    """Raises ValueError if no folder can be made there: something stands there, or there is nowhere to put it."""
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise ValueError(f"out={out} exists and is not an empty folder: give another name, or remove it")
    parent = out.absolute().parent
    if not (parent.is_dir() and os.access(parent, os.W_OK)):
        raise ValueError(f"out={out} cannot be written: give a folder inside an existing one that you may write to")


@contextmanager
def whole_folder(out: Path) -> Iterator[Path]:
    """An empty folder beside ``out`` that becomes ``out`` at the end, or goes away where something failed."""
    with tempfile.TemporaryDirectory(dir=out.absolute().parent) as beside:
        fresh = Path(beside) / "model"
        fresh.mkdir()
        yield fresh
        for path in fresh.rglob("*.safetensors"):  # these are written for their owner's eyes only
            path.chmod(fresh.stat().st_mode & 0o666)
        fresh.rename(out)
