"""Data of pre-training: methods in batches of similar length, with what is to be predicted of each."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import Sampler as KeySampler

from gedbd.corpora.splits import PARTS
from gedbd.experiments.training_system import WholeBatchData
from gedbd.localization.code_encoder.code_inputs import CodeBatch, CodeInput, collate
from gedbd.localization.pretraining.masking import MLM, Sample, Sampler, Shares, TokenVocabulary
from gedbd.localization.pretraining.non_edges import find_priors
from gedbd.sampling.batches import LengthBatchSampler

NO_ROWS = np.zeros(0, dtype=np.int64)
EVALUATION_SEED = 0  # of what is predicted on validation and test: the same in every epoch and every run


class BatchRows(NamedTuple):
    """The methods of a batch.

    Attributes:
        rows: ``(B,)`` rows of the corpus.
        epoch: The epoch, None for evaluation.
        others: Rows of the other batches whose gradients make one step with this one's.
    """

    rows: np.ndarray
    epoch: int | None
    others: np.ndarray = NO_ROWS


class TrainingKeys(KeySampler[BatchRows]):
    """The keys of a data set of methods for an epoch of training.

    Args:
        batches: Draw the rows; one batch of each makes a step together with those of the others.
    """

    def __init__(self, batches: Sequence[LengthBatchSampler]) -> None:
        self.batches = batches

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning at the start of each epoch."""
        for batches in self.batches:
            batches.set_epoch(epoch)

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def __iter__(self) -> Iterator[BatchRows]:
        for step in zip(*self.batches, strict=True):
            rows = [indices.rows for indices in step]
            for number, own in enumerate(rows):
                others = np.concatenate([NO_ROWS, *rows[:number], *rows[number + 1 :]])
                yield BatchRows(own, self.batches[0].epoch, others)


class PretrainingBatch(NamedTuple):
    """B methods.

    Attributes:
        code: The visible tokens and edges.
        tokens: ``(3, M)`` row of the batch, position and true number of the tokens to predict.
        pairs: ``(4, P)`` row of the batch, two positions and label of the edges to predict, by objective.
        totals: ``()`` number of predictions of each objective in all batches that make one step.
    """

    code: CodeBatch
    tokens: Tensor
    pairs: dict[str, Tensor]
    totals: dict[str, Tensor]

    @property
    def n_id(self) -> Tensor:
        """``(B,)`` rows of the corpus."""
        return self.code.n_id


class PretrainingDataModule(WholeBatchData):
    """Methods for training, validation and test.

    Args:
        inputs: N methods.
        parts: ``(N,)`` part of each: 0 train, 1 val, 2 test.
        objectives: Which objectives there are.
        shares: How much of a method is predicted.
        vocabulary: Token numbers.
        batch_size: Methods of a batch of one process.
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
        vocabulary: TokenVocabulary,
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
        """Batches of the training methods.

        Batches whose gradients are accumulated are shared out like those of processes: 2 processes that accumulate 3
        batches each draw as 6 processes.
        """
        rows = self.rows["train"]
        count = self.trainer.accumulate_grad_batches if self.trainer else 1
        batches = [
            LengthBatchSampler(rows, self.lengths[rows], self.batch_size, self.seed, number, self.world_size * count)
            for number in range(self.rank * count, (self.rank + 1) * count)
        ]
        return self.load(self.dataset, TrainingKeys(batches))

    def val_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the validation methods."""
        return self.load(self.dataset, self._keys_of("val"))

    def test_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the test methods."""
        return self.load(self.dataset, self._keys_of("test"))

    def _keys_of(self, part: str) -> list[BatchRows]:
        """This process's share of a part, sorted by length; each method is in one process."""
        rows = self.rows[part]
        rows = rows[np.argsort(self.lengths[rows], kind="stable")][self.rank :: self.world_size]
        return [
            BatchRows(rows[start : start + self.batch_size], None) for start in range(0, len(rows), self.batch_size)
        ]


class MethodDataset(Dataset[PretrainingBatch]):
    """A data set whose keys are whole batches.

    What is drawn from a method depends on the seed, the epoch and its row alone, in whatever batch it is.

    Args:
        inputs: N methods.
        sampler: Draws what is predicted.
        seed: With epoch and row, determines what is drawn for training.
    """

    def __init__(self, inputs: list[CodeInput], sampler: Sampler, seed: int) -> None:
        self.inputs = inputs
        self.sampler = sampler
        self.seed = seed

    def __getitem__(self, key: BatchRows) -> PretrainingBatch:
        """The batch of some rows."""
        samples = [self.sample(int(row), key.epoch) for row in key.rows]
        others = [self.sample(int(row), key.epoch) for row in key.others]
        return batch_of(samples, key.rows, others)

    def sample(self, row: int, epoch: int | None = None) -> Sample:
        """What is drawn from one method in an epoch, or for evaluation."""
        numbers = [EVALUATION_SEED, row] if epoch is None else [self.seed, epoch, row]
        return self.sampler.sample(self.inputs[row], np.random.default_rng(numbers))


def batch_of(samples: list[Sample], rows: np.ndarray, others: list[Sample]) -> PretrainingBatch:
    """One batch of the samples of some rows; ``others`` are those of the other batches of its step."""
    tokens = [np.stack([sample.places, sample.targets]) for sample in samples]
    pairs = {
        name: _numbered([np.vstack([sample.pairs[name].ends, sample.pairs[name].label]) for sample in samples])
        for name in samples[0].pairs
    }
    together = [*samples, *others]
    totals = {MLM: torch.tensor(sum(len(sample.places) for sample in together))}
    totals |= {name: torch.tensor(sum(len(sample.pairs[name].label) for sample in together)) for name in pairs}
    return PretrainingBatch(collate([sample.visible for sample in samples], rows), _numbered(tokens), pairs, totals)


def _numbered(tables: list[np.ndarray]) -> Tensor:
    """Tables of B methods side by side, with the row of the batch above: of 2 and 1 columns, the rows are 0 0 1."""
    row = np.repeat(np.arange(len(tables)), [table.shape[1] for table in tables])
    return torch.from_numpy(np.vstack([row, np.concatenate(tables, axis=1)]).astype(np.int64))
