"""Batches of documents of similar length, which need little padding."""

from collections.abc import Iterator

import numpy as np

from gedbd.sampling.batches import BatchIndices, BatchSampler

NO_PAIRS = np.zeros((0, 2), dtype=np.int64)
NO_LABEL = np.zeros(0, dtype=np.int64)


class LengthBatchSampler(BatchSampler):
    """Documents in random order, sorted by length within pools of ``pool_batches`` batches; batches in random order.

    In an epoch, each document is drawn once. The processes share each step and get documents of about the same length;
    if the last step is short, it is filled with documents of the same epoch.

    Args:
        rows: ``(N,)`` documents to draw.
        lengths: ``(N,)`` their numbers of tokens.
        batch_size: Documents of a step of one process.
        seed: See ``BatchSampler``.
        rank: See ``BatchSampler``.
        world_size: See ``BatchSampler``.
        pool_batches: Batches of a pool: more of them pad less, fewer of them mix lengths more.

    Raises:
        ValueError: If there is no document, or ``batch_size`` is below 1.
    """

    def __init__(
        self,
        rows: np.ndarray,
        lengths: np.ndarray,
        batch_size: int,
        seed: int,
        rank: int = 0,
        world_size: int = 1,
        pool_batches: int = 50,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be 1 or more")
        if len(rows) == 0:
            raise ValueError("there is no document to draw batches from: the training part is empty")
        super().__init__(seed, rank, world_size, num_batches=-(-len(rows) // (batch_size * world_size)))
        self.rows = rows
        self.lengths = lengths
        self.batch_size = batch_size
        self.pool_batches = pool_batches

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        # np.resize repeats from the start: 5 documents for 2 processes become 0 1 2 3 4 0.
        order = rng.permutation(len(self.rows))
        order = np.resize(order, -(-len(order) // self.world_size) * self.world_size)
        together = self.batch_size * self.world_size
        steps: list[np.ndarray] = []
        for start in range(0, len(order), together * self.pool_batches):
            pool = order[start : start + together * self.pool_batches]
            pool = pool[np.argsort(self.lengths[pool], kind="stable")]
            steps += [pool[first : first + together] for first in range(0, len(pool), together)]
        for number in rng.permutation(len(steps)):
            chosen = steps[number][self.rank :: self.world_size]
            yield BatchIndices(np.unique(self.rows[chosen]), NO_PAIRS, NO_LABEL)
