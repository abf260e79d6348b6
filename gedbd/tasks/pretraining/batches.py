"""Batches of methods with what is to be predicted."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from gedbd.encoders.code.batches import CodeBatch, collate
from gedbd.encoders.code.inputs import CodeInput
from gedbd.tasks.pretraining.objectives import MLM
from gedbd.tasks.pretraining.sampling import Sample, Sampler

NO_ROWS = np.zeros(0, dtype=np.int64)
EVALUATION_SEED = 0  # of what is predicted on validation and test: the same in every epoch and every run


class Rows(NamedTuple):
    """The methods of a batch.

    Attributes:
        rows: ``(B,)`` rows of the corpus.
        epoch: The epoch, None for evaluation.
        others: Rows of the other batches whose gradients make one step with this one's.
    """

    rows: np.ndarray
    epoch: int | None
    others: np.ndarray = NO_ROWS


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

    def __getitem__(self, key: Rows) -> PretrainingBatch:
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
