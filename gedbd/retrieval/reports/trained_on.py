"""Tells whether a ranker was trained on a tracker, by a sample of hashes of its reports."""

from collections.abc import Sequence
from hashlib import blake2b

import pandas as pd

SIZE = 64
SEEN = "the default ranker was trained on this tracker and knows its duplicates"
MIN_SHARE = 0.5  # of a sample that the reports of the same tracker contain


def sample_of(reports: pd.DataFrame) -> tuple[int, ...]:
    """The ``SIZE`` lowest hashes of id and title: a sample that tells the tracker but no text of it.

    As which hashes are lowest does not depend on the order or on the other reports, two states of one tracker share
    most of their samples (MinHash: Broder, 1997).
    """
    return tuple(sorted(_hashes(reports))[:SIZE])


def was_trained_on(reports: pd.DataFrame, samples: Sequence[Sequence[int]]) -> bool:
    """Whether the reports contain half of the reports of a sample."""
    if not samples:
        return False
    present = _hashes(reports)
    return any(len(present.intersection(sample)) >= MIN_SHARE * len(sample) for sample in samples if sample)


def _hashes(reports: pd.DataFrame) -> set[int]:
    texts = (f"{one}\n{title}" for one, title in zip(reports["id"], reports["title"], strict=True))
    return {int.from_bytes(blake2b(text.encode("utf-8", "replace"), digest_size=6).digest()) for text in texts}
