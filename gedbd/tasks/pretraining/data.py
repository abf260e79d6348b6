"""Data of pre-training: methods in batches of similar length, with what is to be predicted of each."""

from collections.abc import Collection, Iterable, Iterator

import numpy as np
import pytorch_lightning as pl
from torch.utils.data import DataLoader
from torch.utils.data import Sampler as KeySampler

from gedbd.corpora.splits import PARTS
from gedbd.encoders.code.inputs import CodeInput
from gedbd.sampling.length_batches import LengthBatchSampler
from gedbd.tasks.pretraining.batches import MethodDataset, PretrainingBatch, Rows
from gedbd.tasks.pretraining.negatives import find_priors
from gedbd.tasks.pretraining.sampling import Sampler, Shares, Vocabulary


class TrainingKeys(KeySampler[Rows]):
    """The keys of a data set of methods for an epoch of training.

    Args:
        batches: Draws the rows.
    """

    def __init__(self, batches: LengthBatchSampler) -> None:
        self.batches = batches

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning at the start of each epoch."""
        self.batches.set_epoch(epoch)

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Rows]:
        for indices in self.batches:
            yield Rows(indices.rows, self.batches.epoch)


class PretrainingDataModule(pl.LightningDataModule):
    """Methods for training, validation and test.

    Args:
        inputs: N methods.
        parts: ``(N,)`` part of each: 0 train, 1 val, 2 test.
        objectives: Which objectives there are.
        shares: How much of a method is predicted.
        vocabulary: Token numbers.
        batch_size: Methods of a step of one process.
        seed: Of order and draws.

    Raises:
        ValueError: If a part has no method.
    """

    def __init__(
        self,
        inputs: list[CodeInput],
        parts: np.ndarray,
        objectives: Collection[str],
        shares: Shares,
        vocabulary: Vocabulary,
        batch_size: int,
        seed: int,
    ) -> None:
        super().__init__()
        self.rows = {part: np.flatnonzero(parts == number) for number, part in enumerate(PARTS)}
        empty = [part for part in PARTS if not len(self.rows[part])]
        if empty:
            raise ValueError(f"the part {empty[0]} has no method: change the shares of split=, or give more sources")
        self.lengths = np.array([len(one) for one in inputs])
        priors = find_priors(inputs[row] for row in self.rows["train"])
        self.dataset = MethodDataset(inputs, Sampler(objectives, shares, priors, vocabulary), seed)
        self.batch_size = batch_size
        self.seed = seed

    def train_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the training methods."""
        world_size, rank = self._world_and_rank()
        rows = self.rows["train"]
        batches = LengthBatchSampler(rows, self.lengths[rows], self.batch_size, self.seed, rank, world_size)
        return self._load(TrainingKeys(batches))

    def val_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the validation methods."""
        return self._load(self._keys_of("val"))

    def test_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the test methods."""
        return self._load(self._keys_of("test"))

    def _keys_of(self, part: str) -> list[Rows]:
        """This process's share of a part, sorted by length; each method is in one process."""
        world_size, rank = self._world_and_rank()
        rows = self.rows[part]
        rows = rows[np.argsort(self.lengths[rows], kind="stable")][rank::world_size]
        return [Rows(rows[start : start + self.batch_size], None) for start in range(0, len(rows), self.batch_size)]

    def _world_and_rank(self) -> tuple[int, int]:
        return (self.trainer.world_size, self.trainer.global_rank) if self.trainer else (1, 0)

    def _load(self, keys: Iterable[Rows]) -> DataLoader[PretrainingBatch]:
        # A key of the data set is a whole batch, so the loader itself must not batch.
        return DataLoader(self.dataset, batch_size=None, sampler=keys)
