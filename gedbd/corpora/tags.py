"""Tags of documents: those of a question, or the component and the labels of a bug report; and their overlap."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

SEPARATOR = ";"


def tags_of(table: pd.DataFrame) -> list[tuple[str, ...]]:
    """The tags of N documents, each in lower case and once, in the order in which a document names them.

    Args:
        table: N documents with ``component`` and, where they have any, ``labels``.

    Returns:
        For each document its component, if it has one, and its labels.
    """
    labels = table["labels"] if "labels" in table else pd.Series("", index=table.index)
    tags = []
    for component, names in zip(table["component"], labels, strict=True):
        named = [name.strip().lower() for name in (component, *names.split(SEPARATOR))]
        tags.append(tuple(dict.fromkeys(name for name in named if name)))
    return tags


def number_tags(tags: Sequence[tuple[str, ...]]) -> dict[str, int]:
    """A number for each tag of some documents, 0..T-1, in the order in which they first occur."""
    names = dict.fromkeys(tag for own in tags for tag in own)
    return {tag: number for number, tag in enumerate(names)}


def occurrence_matrix(tags: Sequence[tuple[str, ...]], places: Mapping[str, int]) -> csr_array:
    """Which of N documents has which of T tags, ``(N, T)`` int32 of 0 and 1; tags without a place are left out.

    Args:
        tags: The tags of each document; a tag that is repeated counts once.
        places: The column of each tag, 0..T-1, as ``number_tags`` gives them.
    """
    rows: list[int] = []
    columns: list[int] = []
    for row, own in enumerate(tags):
        known = {places[tag] for tag in own if tag in places}
        columns += sorted(known)
        rows += [row] * len(known)
    ones = np.ones(len(rows), dtype=np.int32)
    place = (np.array(rows, dtype=np.int64), np.array(columns, dtype=np.int64))
    return csr_array((ones, place), shape=(len(tags), len(places)))


def tag_overlap(first: csr_array, second: csr_array) -> np.ndarray:
    """Jaccard overlap of the tags of each two documents, ``(A, T), (B, T) -> (A, B)`` float32; 0 where neither has any.

    Args:
        first: Which tags A documents have, see ``occurrence_matrix``.
        second: Likewise of B documents, with the same columns.
    """
    overlap = np.zeros((first.shape[0], second.shape[0]), dtype=np.float32)
    shared = (first @ second.T).tocoo()  # only the pairs that share a tag, so that no union is empty
    row, column = shared.coords
    union = first.sum(axis=1)[row] + second.sum(axis=1)[column] - shared.data
    overlap[row, column] = shared.data / union
    return overlap
