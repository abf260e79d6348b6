"""Data of hierarchical momentum contrast: batches of pairs, and the reports that validation ranks changes for."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset
from torch.utils.data import Sampler as KeySampler

from gedbd.corpora.changes import ChangeCorpus, Granularity
from gedbd.experiments.training_system import WholeBatchData
from gedbd.localization.code_encoder.code_inputs import CodeBatch, collate
from gedbd.localization.training.change_inputs import ChangeInputs, ReportInputs
from gedbd.localization.training.inducing_pairs import InducingPairs
from gedbd.localization.training.validation_ranking import RankedReports, choose_candidates


class PairBatch(NamedTuple):
    """B pairs, each with a negative report and a negative change.

    Attributes:
        reports: 2B reports: those of the pairs, then the negative ones.
        changes: 2B changes likewise.
        report_rows: ``(2B,)`` rows of the reports.
        commit_rows: ``(2B,)`` rows of the commits of the changes.
    """

    reports: CodeBatch
    changes: CodeBatch
    report_rows: Tensor
    commit_rows: Tensor

    @property
    def n_id(self) -> Tensor:
        """``(2B,)`` rows of the reports."""
        return self.report_rows


class PairKey(NamedTuple):
    """Numbers of pairs, and the epoch, None for validation."""

    numbers: np.ndarray
    epoch: int | None


class PairDataset(Dataset[PairBatch]):
    """A data set whose keys are whole batches."""

    def __init__(self, pairs: InducingPairs, reports: ReportInputs, changes: ChangeInputs) -> None:
        self.pairs = pairs
        self.reports = reports
        self.changes = changes

    def __getitem__(self, key: PairKey) -> PairBatch:
        """The batch of some pairs."""
        draws = [self.pairs.draw(number, key.epoch) for number in key.numbers.tolist()]
        reports = np.array([draw.report for draw in draws] + [draw.other_report for draw in draws])
        changes = np.array([draw.change for draw in draws] + [draw.other_change for draw in draws])
        return PairBatch(
            collate([self.reports[row] for row in reports.tolist()], reports),
            collate([self.changes[row] for row in changes.tolist()], changes),
            torch.from_numpy(reports),
            torch.from_numpy(self.pairs.commit_of[changes]),
        )


class PairKeys(KeySampler[PairKey]):
    """The steps of an epoch, of about equally many pairs each.

    The processes share the pairs of a step: of 2 processes, the first has its first half. Where the pairs divide evenly
    into steps, those of one process with twice the batch size are the same. If the pairs cannot be shared evenly, some
    of the epoch are repeated.

    Args:
        count: Number of pairs.
        batch_size: Largest number of pairs of a process in a step.
        seed: With the epoch, determines the order; None keeps it, for validation.
        rank: Number of this process.
        world_size: Number of processes.
    """

    def __init__(self, count: int, batch_size: int, seed: int | None, rank: int = 0, world_size: int = 1) -> None:
        self.count = count
        self.batch_size = batch_size
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
        self.epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Called by Lightning at the start of each epoch."""
        self.epoch = epoch

    def __len__(self) -> int:
        return -(-self.count // (self.batch_size * self.world_size))

    def __iter__(self) -> Iterator[PairKey]:
        order = np.arange(self.count)
        if self.seed is not None:
            order = np.random.default_rng([self.seed, self.epoch]).permutation(self.count)
        # np.resize repeats from the start: 5 pairs for 2 processes become 0 1 2 3 4 0, in rows 01 23 40.
        shares = np.resize(order, -(-self.count // self.world_size) * self.world_size).reshape(-1, self.world_size)
        for step in np.array_split(shares, len(self)):
            own = step.reshape(self.world_size, -1)[self.rank]
            yield PairKey(own, None if self.seed is None else self.epoch)


class LocalizationDataModule(WholeBatchData):
    """Pairs for training and validation.

    The last reports of the training half are for validation: they are later than all that the model is trained on.
    Lightning's test ranks the validation reports again, by the best weights.

    Args:
        corpus: Reports, changes and links.
        reports: Inputs of all reports.
        changes: Inputs of all changes of the granularity.
        granularity: Of the changes.
        training: Rows of the reports of the training half that have inducing commits before them.
        val_share: Share of them that is for validation.
        batch_size: Pairs of a step of one process.
        seed: Of order and draws.
        val_candidates: Commits, besides the inducing ones, that validation ranks; all commits take long.
        hard: See ``InducingPairs``.

    Raises:
        ValueError: If an option is out of range, or a part has too few reports.
    """

    def __init__(
        self,
        corpus: ChangeCorpus,
        reports: ReportInputs,
        changes: ChangeInputs,
        granularity: Granularity,
        training: np.ndarray,
        val_share: float = 0.2,
        batch_size: int = 16,
        seed: int = 0,
        val_candidates: int = 400,
        hard: float = 0.0,
    ) -> None:
        super().__init__()
        self.fit_rows, self.val_rows = split_by_time(training, val_share)
        self.reports = reports
        self.changes = changes
        self.batch_size = batch_size
        self.seed = seed
        self.train_pairs = InducingPairs(corpus, granularity, self.fit_rows, seed, hard)
        self.val_pairs = InducingPairs(corpus, granularity, self.val_rows, seed)
        self.ranked: RankedReports = choose_candidates(self.val_pairs, val_candidates)

    def train_dataloader(self) -> DataLoader[PairBatch]:
        """Batches of training pairs."""
        return self._load(self.train_pairs, self.seed)

    def val_dataloader(self) -> DataLoader[PairBatch]:
        """Batches of validation pairs."""
        return self._load(self.val_pairs, None)

    def test_dataloader(self) -> DataLoader[PairBatch]:
        """The batches of validation."""
        return self._load(self.val_pairs, None)

    def _load(self, pairs: InducingPairs, seed: int | None) -> DataLoader[PairBatch]:
        keys = PairKeys(len(pairs), self.batch_size, seed, self.rank, self.world_size)
        return self.load(PairDataset(pairs, self.reports, self.changes), keys)


def split_by_time(rows: np.ndarray, val_share: float) -> tuple[np.ndarray, np.ndarray]:
    """Rows of reports, in chronological order, for training and, the last ones, for validation.

    Raises:
        ValueError: If one of the two has fewer than two reports.
    """
    rows = np.unique(rows)
    count = round(len(rows) * val_share)
    if min(count, len(rows) - count) < 2:
        raise ValueError(
            f"{len(rows)} reports with inducing commits before them are too few to train on and to validate by:"
            " both take two or more; give more reports, or change task.val_share"
        )
    return rows[: len(rows) - count], rows[len(rows) - count :]
