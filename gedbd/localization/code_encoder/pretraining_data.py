"""Data of pre-training: masked methods in batches of similar length."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import Sampler as KeySampler
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.corpus import PARTS
from gedbd.experiments.training_task import batch_loader, process_of
from gedbd.io.console import track
from gedbd.localization.code_encoder.code_inputs import (
    CODE_TOKENS,
    CodeBatch,
    CodeInput,
    InputLimits,
    InputParts,
    collate,
    make_input,
)
from gedbd.localization.code_encoder.masking import MLM, Sample, Sampler, Shares, TokenVocabulary, find_priors
from gedbd.localization.flow_graph.parse import method_graph
from gedbd.sampling.batches import LengthBatchSampler

NO_ROWS = np.zeros(0, dtype=np.int64)
EVALUATION_SEED = 0  # of the masks of validation and test, the same in every epoch and run


def read_inputs(
    table: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, limits: InputLimits, parts: InputParts
) -> tuple[list[CodeInput], tuple[str, ...]]:
    """Parses and tokenizes N methods with the columns ``description`` (code) and ``comment``; also returns warnings."""
    inputs = []
    num_without_graph = 0
    num_approximate = 0
    pairs = zip(table["description"], table["comment"], strict=True)
    for code, comment in track(pairs, "parse methods", len(table)):
        graph = None
        if parts.nodes:
            try:
                graph = method_graph(code, parts)
                num_approximate += graph.is_approximate
            except ValueError:
                num_without_graph += 1
        inputs.append(make_input(tokenizer, code, comment, graph, limits, parts))
    warnings = []
    if num_without_graph:
        warnings.append(f"{num_without_graph:,} of {len(inputs):,} texts have no method and so no flow graph")
    cut = np.array([method.num_cut for method in inputs]).reshape(-1, 3)
    for name, numbers in zip(("comment_tokens", "code_tokens", "nodes"), cut.T, strict=True):
        if numbers.any():
            limit = f"task.limits.{name}={getattr(limits, name)}"
            fraction = np.mean(numbers > 0)
            warnings.append(f"{fraction:.1%} of the methods are longer than {limit}: {numbers.sum():,} are cut off")
    if num_approximate:
        warnings.append(f"{num_approximate:,} of {len(inputs):,} methods are so large that edges are left out")
    return inputs, tuple(warnings)


def find_vocabulary(tokenizer: PreTrainedTokenizerBase) -> TokenVocabulary:
    """Token ids for sampling. Raises ValueError if the tokenizer has no [MASK]."""
    if tokenizer.mask_token_id is None:
        raise ValueError("the encoder's tokenizer has no mask token, which a masked language model needs")
    ids = tokenizer.get_vocab()
    special = {*tokenizer.all_special_ids, *(ids[token] for token in CODE_TOKENS)}
    ordinary = [number for number in range(len(tokenizer)) if number not in special]
    return TokenVocabulary(int(tokenizer.mask_token_id), np.array(ordinary))


class BatchRows(NamedTuple):
    """The rows ``(B,)`` of a batch, its epoch (None for evaluation), and other rows of the same optimizer step."""

    rows: np.ndarray
    epoch: int | None
    accumulated: np.ndarray = NO_ROWS


class TrainingKeys(KeySampler[BatchRows]):
    """Keys of the training set for an epoch; the gradients of a batch of each sampler are accumulated."""

    def __init__(self, batches: Sequence[LengthBatchSampler]) -> None:
        self.batches = batches

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning at the start of each epoch."""
        for batches in self.batches:
            batches.set_epoch(epoch)

    def __len__(self) -> int:
        return sum(map(len, self.batches))

    def __iter__(self) -> Iterator[BatchRows]:
        for accumulated in zip(*self.batches, strict=True):
            rows = [indices.rows for indices in accumulated]
            for number, batch in enumerate(rows):
                rest = np.concatenate([NO_ROWS, *rows[:number], *rows[number + 1 :]])
                yield BatchRows(batch, self.batches[0].epoch, rest)


class PretrainingBatch(NamedTuple):
    """A batch of B methods."""

    n_id: Tensor  # ``(B,)`` rows of the corpus
    code: CodeBatch  # the visible tokens and edges
    tokens: Tensor  # ``(3, M)`` row of the batch, position and true id of the tokens to predict
    # ``(4, P)`` row of the batch, two positions and label of the edges to predict, by objective
    pairs: dict[str, Tensor]
    # ``()`` number of predictions of each objective in all accumulated batches
    totals: dict[str, Tensor]


class PretrainingDataModule(pl.LightningDataModule):
    """Methods for training, validation and test.

    ``parts`` is ``(N,)``: 0 train, 1 val, 2 test. The seed is that of order and masks. Raises ValueError if a split has
    no method.
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
        self.rows = {split: np.flatnonzero(parts == number) for number, split in enumerate(PARTS)}
        empty = [split for split in PARTS if not len(self.rows[split])]
        if empty:
            raise ValueError(f"the split {empty[0]} has no method: change the shares of split=, or give more sources")
        self.lengths = np.array([len(method) for method in inputs])
        priors = find_priors(inputs[row] for row in self.rows["train"])
        self.dataset = MethodDataset(inputs, Sampler(objectives, shares, priors, vocabulary), seed)
        self.batch_size = batch_size
        self.seed = seed

    def train_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the training methods.

        Accumulated batches are distributed as over processes: 2 processes that accumulate 3 batches sample as 6
        processes.
        """
        rows = self.rows["train"]
        count = self.trainer.accumulate_grad_batches if self.trainer else 1
        rank, processes = process_of(self)
        batches = [
            LengthBatchSampler(rows, self.lengths[rows], self.batch_size, self.seed, number, processes * count)
            for number in range(rank * count, (rank + 1) * count)
        ]
        return batch_loader(self, self.dataset, TrainingKeys(batches))

    def val_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the validation methods."""
        return batch_loader(self, self.dataset, self._keys_of("val"))

    def test_dataloader(self) -> DataLoader[PretrainingBatch]:
        """Batches of the test methods."""
        return batch_loader(self, self.dataset, self._keys_of("test"))

    def _keys_of(self, split: str) -> list[BatchRows]:
        """The batches of this process, sorted by length."""
        rows = self.rows[split]
        rank, processes = process_of(self)
        rows = rows[np.argsort(self.lengths[rows], kind="stable")][rank::processes]
        return [
            BatchRows(rows[start : start + self.batch_size], None) for start in range(0, len(rows), self.batch_size)
        ]


class MethodDataset(Dataset[PretrainingBatch]):
    """A dataset with batches as keys; the masks of a method depend only on seed, epoch and row."""

    def __init__(self, inputs: list[CodeInput], sampler: Sampler, seed: int) -> None:
        self.inputs = inputs
        self.sampler = sampler
        self.seed = seed

    def __getitem__(self, key: BatchRows) -> PretrainingBatch:
        """Samples the batch of a key."""
        samples = [self.sample(int(row), key.epoch) for row in key.rows]
        accumulated = [self.sample(int(row), key.epoch) for row in key.accumulated]
        return batch_of(samples, key.rows, accumulated)

    def sample(self, row: int, epoch: int | None = None) -> Sample:
        """Masks a method in an epoch, or for evaluation."""
        seed = [EVALUATION_SEED, row] if epoch is None else [self.seed, epoch, row]
        return self.sampler.sample(self.inputs[row], np.random.default_rng(seed))


def batch_of(samples: list[Sample], rows: np.ndarray, accumulated: list[Sample]) -> PretrainingBatch:
    """Collates samples of rows; ``accumulated`` are the samples of the other accumulated batches."""
    tokens = [np.stack([sample.positions, sample.targets]) for sample in samples]
    pairs = {
        name: _numbered([np.vstack([sample.pairs[name].ends, sample.pairs[name].label]) for sample in samples])
        for name in samples[0].pairs
    }
    all_samples = [*samples, *accumulated]
    totals = {MLM: torch.tensor(sum(len(sample.positions) for sample in all_samples))}
    totals |= {name: torch.tensor(sum(len(sample.pairs[name].label) for sample in all_samples)) for name in pairs}
    code = collate([sample.visible for sample in samples])
    return PretrainingBatch(torch.from_numpy(rows), code, _numbered(tokens), pairs, totals)


def _numbered(tables: list[np.ndarray]) -> Tensor:
    """Concatenates tables of B methods below their batch rows: tables of 2 and 1 columns have the rows 0 0 1."""
    row = np.repeat(np.arange(len(tables)), [table.shape[1] for table in tables])
    return torch.from_numpy(np.vstack([row, np.concatenate(tables, axis=1)]).astype(np.int64))
