"""Training batches of questions: duplicate pairs, each with a non-duplicate of its anchor."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from gedbd.losses.loss import StepLabels
from gedbd.sampling.batches import BatchIndices, BatchSampler

Draw = Callable[[np.random.Generator], np.ndarray | None]
"""Draws a non-duplicate of each training pair's anchor at the start of an epoch, or none."""


class QuestionBatch(NamedTuple):
    """U distinct questions.

    ``n_id (U,)`` rows of the corpus, ``features (U, D)`` their frozen vectors, ``group (U,)`` the groups that the
    training pairs form, ``triplets (T, 3)`` anchor, duplicate and non-duplicate among 0..U-1, if there are any.
    """

    n_id: Tensor
    features: Tensor
    group: Tensor
    triplets: Tensor | None

    @property
    def labels(self) -> StepLabels:
        """The labels, as losses read them; duplicate pairs follow from the groups."""
        no_pairs = self.n_id.new_empty((2, 0))
        return StepLabels(self.group, no_pairs, no_pairs[0], self.triplets)


class QuestionDataset(Dataset[QuestionBatch]):
    """A data set whose keys are the indices of whole batches.

    Args:
        features: ``(N, D)`` frozen vectors.
        group: ``(N,)`` groups that the training pairs form.
    """

    def __init__(self, features: Tensor, group: np.ndarray) -> None:
        self.features = features
        self.group = torch.from_numpy(group)

    def __getitem__(self, step: BatchIndices) -> QuestionBatch:
        """The batch of some rows."""
        rows = torch.from_numpy(step.rows)
        triplets = None
        if step.negatives is not None:
            named = np.column_stack([step.pairs, step.negatives])
            # Rows are sorted, so a row's place among them is its new number: rows 4, 7, 9; (9, 4, 7) -> (2, 0, 1).
            triplets = torch.from_numpy(np.searchsorted(step.rows, named))
        return QuestionBatch(rows, self.features[rows], self.group[rows], triplets)


class TripletBatchSampler(BatchSampler):
    """Duplicate pairs in random order, ``batch_size`` at a time, each with a non-duplicate of its anchor.

    The processes share each step; if the last step is short, it repeats pairs of the first.

    Args:
        pairs: ``(P, 2)`` anchor and duplicate.
        draw: Draws the non-duplicates of an epoch.
        batch_size: Pairs of a step of one process.
        seed: See ``BatchSampler``.
        rank: See ``BatchSampler``.
        world_size: See ``BatchSampler``.
    """

    def __init__(
        self, pairs: np.ndarray, draw: Draw, batch_size: int, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        pairs_each = -(-len(pairs) // world_size)
        super().__init__(seed, rank, world_size, num_batches=-(-pairs_each // batch_size))
        self.pairs = pairs
        self.draw = draw
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        negatives = self.draw(rng)
        order = rng.permutation(len(self.pairs))
        # np.resize repeats from the start: 5 pairs for 2 processes become 0 1 2 3 4 0.
        order = np.resize(order, -(-len(order) // self.world_size) * self.world_size)
        together = self.batch_size * self.world_size
        for start in range(0, len(order), together):
            chosen = order[start : start + together][self.rank :: self.world_size]
            pairs = self.pairs[chosen]
            own = None if negatives is None else negatives[chosen]
            rows = np.unique(pairs if own is None else np.column_stack([pairs, own]))
            yield BatchIndices(rows, pairs, np.ones(len(pairs), dtype=np.int64), own)
