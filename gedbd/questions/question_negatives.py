"""Non-duplicates to train with: from the buckets nearest to the anchor's, or the nearest by the current vectors."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gedbd.corpora.fields import number_tags, occurrence_matrix, tag_overlap
from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.sampling.group_batches import nearest_rows

BLOCK = 256
CHOICES = ("buckets", "mined", "in_batch")


@dataclass(frozen=True)
class Negatives:
    """How non-duplicates are chosen for training; raises ValueError if an option is invalid."""

    # ``buckets`` as published, the same in every epoch; ``mined`` nearest non-duplicates by the current vectors, chosen
    # in each epoch; ``in_batch`` those of the other pairs of the batch alone
    kind: str = "buckets"
    alpha: float = 0.3  # minimum similarity of buckets, see ``bucket_negatives``
    neighbours: int = 10  # number of nearest non-duplicates that ``mined`` draws from

    def __post_init__(self) -> None:
        if self.kind not in CHOICES:
            raise ValueError(f"task.negatives={self.kind} is unknown: choose {', '.join(CHOICES)}")

    @property
    def provides(self) -> frozenset[str]:
        """Labels of a batch that losses may read."""
        return frozenset({"groups"} if self.kind == "in_batch" else {"groups", "triplets"})


def bucket_negatives(
    anchors: np.ndarray,
    group: np.ndarray,
    vectors: np.ndarray,
    tags: Sequence[tuple[str, ...]],
    answered: np.ndarray,
    training: np.ndarray,
    alpha: float,
) -> tuple[np.ndarray, int]:
    """The negatives of Algorithm 1 of Hazra et al., 2023 (arXiv 2309.05035).

    A bucket is a group of duplicates, its vector the mean of its questions' vectors. For each anchor: among the
    answered questions in other buckets whose cosine to the anchor's bucket is above ``alpha``, the one whose tags have
    the largest Jaccard overlap with the anchor's. Of equal overlaps the nearest bucket comes first, then the older
    question. An anchor without any such question gets the nearest training question that is not a duplicate of it.

    Args:
        anchors: ``(P,)`` rows of questions in buckets.
        group: ``(N,)`` groups that the training pairs form.
        vectors: ``(N, D)`` frozen vectors of the questions.
        tags: The tags of each question.
        answered: ``(N,)`` bool, questions that have an answer.
        training: ``(N,)`` bool, questions of the training split.
        alpha: Minimum similarity of buckets, -1 to 1. The paper does not publish it.

    Returns:
        ``(P,)`` a row for each anchor, and the number of anchors without a qualifying question.
    """
    members = np.flatnonzero(np.bincount(group, minlength=len(group))[group] > 1)
    bucket = np.full(len(group), -1)
    bucket[members] = np.unique(group[members], return_inverse=True)[1]
    sums = np.zeros((int(bucket.max(initial=-1)) + 1, vectors.shape[1]), dtype=np.float64)
    np.add.at(sums, bucket[members], vectors[members])
    means = unit_rows(sums)  # normalised, sum and mean are the same vector
    candidates = members[answered[members]]
    chosen = np.full(len(anchors), -1)
    occurrences = occurrence_matrix(tags, number_tags(tags))
    for start in range(0, len(anchors) if len(candidates) else 0, BLOCK):
        block = anchors[start : start + BLOCK]
        similarity = means[bucket[block]] @ means[bucket[candidates]].T
        allowed = (similarity > alpha) & (group[block][:, None] != group[candidates])
        overlap = np.where(allowed, tag_overlap(occurrences[block], occurrences[candidates]), -1.0)
        # Candidates are in chronological order, and argmax takes the first of equals: the oldest question.
        tied = allowed & (overlap == overlap.max(axis=1, keepdims=True))
        best = np.where(tied, similarity, -np.inf).argmax(axis=1)
        chosen[start : start + BLOCK] = np.where(allowed.any(axis=1), candidates[best], -1)
    missing = np.flatnonzero(chosen < 0)
    if len(missing):
        chosen[missing] = _nearest_non_duplicates(anchors[missing], group, unit_rows(vectors), training, 1)[:, 0]
    return chosen, len(missing)


def mined_negatives(
    anchors: np.ndarray,
    group: np.ndarray,
    vectors: np.ndarray,
    training: np.ndarray,
    neighbours: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """One of the nearest non-duplicates of each anchor, at random.

    Args:
        anchors: ``(P,)`` rows.
        group: ``(N,)`` groups that the training pairs form.
        vectors: ``(N, D)`` unit rows, as the model projects them now.
        training: ``(N,)`` bool, questions of the training split.
        neighbours: Number of nearest non-duplicates to draw from.
        rng: Random number generator.

    Returns:
        ``(P,)`` rows.
    """
    unique, position = np.unique(anchors, return_inverse=True)
    nearest = _nearest_non_duplicates(unique, group, vectors, training, neighbours)
    drawn = rng.integers(0, nearest.shape[1], len(anchors))
    return np.asarray(nearest[position, drawn])


def _nearest_non_duplicates(
    anchors: np.ndarray, group: np.ndarray, vectors: np.ndarray, training: np.ndarray, count: int
) -> np.ndarray:
    """The nearest training questions outside each anchor's group, ``(P, count)``, repeated where there are fewer."""
    pool = np.flatnonzero(training)
    largest = int(np.bincount(group[pool]).max(initial=1))
    # At most ``largest`` of the count + largest nearest questions are in the anchor's own group.
    nearest = nearest_rows(vectors, np.unique(anchors), pool, count + largest)
    rows = np.empty((len(anchors), count), dtype=np.int64)
    for position, anchor in enumerate(anchors.tolist()):
        negatives = nearest[anchor][group[nearest[anchor]] != group[anchor]]
        if not len(negatives):
            raise ValueError("all training questions are duplicates of each other: no non-duplicate can be drawn")
        rows[position] = np.resize(negatives[:count], count)
    return rows
