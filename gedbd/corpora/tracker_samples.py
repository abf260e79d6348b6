"""Samples of a tracker's reports, by which what was trained on the tracker recognises it."""

from collections.abc import Sequence
from hashlib import blake2b

import pandas as pd

SIZE = 64


def sample_of(reports: pd.DataFrame) -> tuple[int, ...]:
    """The ``SIZE`` lowest hashes of id and title: a sample that identifies the tracker but reveals no text.

    As which hashes are lowest does not depend on the order or on the other reports, two states of one tracker share
    most of their samples (MinHash: Broder, 1997).
    """
    return tuple(sorted(_hashes(reports))[:SIZE])


def count_shared(reports: pd.DataFrame, samples: Sequence[Sequence[int]]) -> list[int]:
    """How many reports of each sample are among these reports."""
    present = _hashes(reports) if samples else set()
    return [len(present.intersection(sample)) for sample in samples]


def _hashes(reports: pd.DataFrame) -> set[int]:
    texts = (f"{name}\n{title}" for name, title in zip(reports["id"], reports["title"], strict=True))
    return {int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=6).digest()) for text in texts}
