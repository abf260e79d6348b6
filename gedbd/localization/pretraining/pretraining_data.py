"""Data of pre-training: methods in batches of similar length, with what is to be predicted of each."""

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import Sampler as KeySampler
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import PARTS
from gedbd.experiments.training_task import WholeBatchData
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
from gedbd.localization.flow_graph.parse import method_graph
from gedbd.localization.pretraining.masking import MLM, Sample, Sampler, Shares, TokenVocabulary, find_priors
from gedbd.sampling.batches import LengthBatchSampler

MIN_PROGRESS_METHODS = 200
NO_ROWS = np.zeros(0, dtype=np.int64)
EVALUATION_SEED = 0  # of what is predicted on validation and test: the same in every epoch and every run


def check_methods(corpus: Corpus) -> None:
    """Raises ValueError if a corpus holds no methods with comments."""
    if "comment" not in corpus.reports or "path" not in corpus.reports:
        raise ValueError(
            f"{corpus.name} holds no methods: choose dataset=java_sources dataset.path=<folder of sources>"
        )


def read_inputs(
    table: pd.DataFrame, tokenizer: PreTrainedTokenizerBase, limits: InputLimits, parts: InputParts
) -> tuple[list[CodeInput], tuple[str, ...]]:
    """Parses and tokenizes N methods with ``description``, their code, and ``comment``; returns inputs and warnings."""
    inputs = []
    num_without_graph = 0
    num_approximate = 0
    pairs = zip(table["description"], table["comment"], strict=True)
    quiet = len(table) < MIN_PROGRESS_METHODS
    for code, comment in track(pairs, "parse methods", total=len(table), transient=True, disable=quiet):
        graph = None
        if parts.nodes:
            try:
                graph = method_graph(code, parts.rules)
                num_approximate += graph.is_approximate
            except ValueError:
                num_without_graph += 1
        inputs.append(make_input(tokenizer, code, comment, graph, limits, parts))
    warnings = []
    if num_without_graph:
        warnings.append(
            f"{num_without_graph:,} of {len(inputs):,} texts hold no method, so that they have no flow graph"
        )
    cut = np.array([method.num_cut for method in inputs]).reshape(-1, 3)
    for name, numbers in zip(("comment_tokens", "code_tokens", "nodes"), cut.T, strict=True):
        if numbers.any():
            limit = f"task.limits.{name}={getattr(limits, name)}"
            share = np.mean(numbers > 0)
            warnings.append(f"{share:.1%} of the methods are longer than {limit}: {numbers.sum():,} are cut off")
    if num_approximate:
        warnings.append(f"{num_approximate:,} of {len(inputs):,} methods are so large that edges are left out")
    return inputs, tuple(warnings)


def find_vocabulary(tokenizer: PreTrainedTokenizerBase) -> TokenVocabulary:
    """Token numbers for sampling. Raises ValueError if the tokenizer has no [MASK]."""
    if tokenizer.mask_token_id is None:
        raise ValueError("the encoder's tokenizer has no mask token, which a masked language model needs")
    numbers = tokenizer.get_vocab()
    special = {*tokenizer.all_special_ids, *(numbers[token] for token in CODE_TOKENS)}
    ordinary = [number for number in range(len(tokenizer)) if number not in special]
    return TokenVocabulary(int(tokenizer.mask_token_id), np.array(ordinary))


class BatchRows(NamedTuple):
    """The rows ``(B,)`` of a batch, its epoch (None for evaluation), and the rows it is accumulated with."""

    rows: np.ndarray
    epoch: int | None
    accumulated: np.ndarray = NO_ROWS


class TrainingKeys(KeySampler[BatchRows]):
    """The keys of a data set of methods for an epoch of training.

    Args:
        batches: Draw the rows; the gradients of one batch of each are accumulated.
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
        for accumulated in zip(*self.batches, strict=True):
            rows = [indices.rows for indices in accumulated]
            for number, batch in enumerate(rows):
                rest = np.concatenate([NO_ROWS, *rows[:number], *rows[number + 1 :]])
                yield BatchRows(batch, self.batches[0].epoch, rest)


class PretrainingBatch(NamedTuple):
    """B methods."""

    code: CodeBatch  # the visible tokens and edges
    tokens: Tensor  # ``(3, M)`` row of the batch, position and true number of the tokens to predict
    # ``(4, P)`` row of the batch, two positions and label of the edges to predict, by objective
    pairs: dict[str, Tensor]
    # ``()`` number of predictions of each objective in all batches whose gradients are accumulated
    totals: dict[str, Tensor]

    @property
    def n_id(self) -> Tensor:
        """``(B,)`` rows of the corpus."""
        return self.code.n_id


class PretrainingDataModule(WholeBatchData):
    """Methods for training, validation and test.

    Args:
        inputs: N methods.
        parts: ``(N,)`` split of each: 0 train, 1 val, 2 test.
        objectives: Which objectives there are.
        shares: How much of a method is predicted.
        vocabulary: Token numbers.
        batch_size: Methods of a batch of one process.
        seed: Of order and draws.

    Raises:
        ValueError: If a split has no method.
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

    def _keys_of(self, split: str) -> list[BatchRows]:
        """This process's share of a split, sorted by length; each method is in one process."""
        rows = self.rows[split]
        rows = rows[np.argsort(self.lengths[rows], kind="stable")][self.rank :: self.world_size]
        return [
            BatchRows(rows[start : start + self.batch_size], None) for start in range(0, len(rows), self.batch_size)
        ]


class MethodDataset(Dataset[PretrainingBatch]):
    """A data set whose keys are whole batches.

    What is drawn from a method depends on the seed, the epoch and its row alone, in whatever batch it is.
    """

    def __init__(self, inputs: list[CodeInput], sampler: Sampler, seed: int) -> None:
        self.inputs = inputs
        self.sampler = sampler
        self.seed = seed

    def __getitem__(self, key: BatchRows) -> PretrainingBatch:
        """The batch of some rows."""
        samples = [self.sample(int(row), key.epoch) for row in key.rows]
        accumulated = [self.sample(int(row), key.epoch) for row in key.accumulated]
        return batch_of(samples, key.rows, accumulated)

    def sample(self, row: int, epoch: int | None = None) -> Sample:
        """What is drawn from one method in an epoch, or for evaluation."""
        numbers = [EVALUATION_SEED, row] if epoch is None else [self.seed, epoch, row]
        return self.sampler.sample(self.inputs[row], np.random.default_rng(numbers))


def batch_of(samples: list[Sample], rows: np.ndarray, accumulated: list[Sample]) -> PretrainingBatch:
    """One batch of the samples of some rows; ``accumulated`` are those of the batches it is accumulated with."""
    tokens = [np.stack([sample.positions, sample.targets]) for sample in samples]
    pairs = {
        name: _numbered([np.vstack([sample.pairs[name].ends, sample.pairs[name].label]) for sample in samples])
        for name in samples[0].pairs
    }
    together = [*samples, *accumulated]
    totals = {MLM: torch.tensor(sum(len(sample.positions) for sample in together))}
    totals |= {name: torch.tensor(sum(len(sample.pairs[name].label) for sample in together)) for name in pairs}
    return PretrainingBatch(collate([sample.visible for sample in samples], rows), _numbered(tokens), pairs, totals)


def _numbered(tables: list[np.ndarray]) -> Tensor:
    """Tables of B methods side by side, with the row of the batch above: of 2 and 1 columns, the rows are 0 0 1."""
    row = np.repeat(np.arange(len(tables)), [table.shape[1] for table in tables])
    return torch.from_numpy(np.vstack([row, np.concatenate(tables, axis=1)]).astype(np.int64))
