"""Data of duplicate questions: training pairs, each with a non-duplicate, and the questions for evaluation."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from gedbd.corpora.corpus import TRAIN
from gedbd.encoders.node2vec import TagEncoder
from gedbd.experiments.retrieval_module import RetrievalDataModule
from gedbd.experiments.training_task import batch_loader, process_of
from gedbd.losses import StepLabels
from gedbd.questions.question_negatives import Negatives, bucket_negatives, mined_negatives
from gedbd.questions.question_vectors import Questions
from gedbd.retrieval.ranking_tasks import RankingTask
from gedbd.retrieval.scorers.scorer_contract import linked_groups
from gedbd.sampling.batches import NO_LABEL, NO_PAIRS, BatchIndices, BatchSampler

Draw = Callable[[np.random.Generator], np.ndarray | None]
"""Draws a non-duplicate of each training pair's anchor at the start of an epoch, or returns None."""


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


class QuestionsDataModule(RetrievalDataModule):
    """Pairs of questions for training, and the questions that evaluation needs in one batch.

    Args:
        questions: N questions.
        pairs: Pairs with ``earlier``, ``later``, ``label`` and ``part``; the later question is the anchor.
        group: ``(N,)`` duplicate group of each question, for evaluation.
        parts: ``(N,)`` part of each question.
        negatives: Which non-duplicates training compares with.
        batch_size: Pairs of a step.
        seed: Of the order and of drawn non-duplicates.
        queries: What is ranked in each part, by protocol.
        evaluated: Parts that a test scores.
        tag_vectors: The fitted encoder of the questions' tags, if they are read; its network is drawn in the result.
    """

    def __init__(
        self,
        questions: Questions,
        pairs: pd.DataFrame,
        group: np.ndarray,
        parts: np.ndarray,
        negatives: Negatives,
        batch_size: int,
        seed: int,
        queries: Mapping[str, Mapping[str, RankingTask]] | None = None,
        evaluated: tuple[str, ...] = ("val", "test"),
        tag_vectors: TagEncoder | None = None,
    ) -> None:
        super().__init__(evaluated)
        self.hold(pairs, group, parts, queries)
        self.questions = questions
        self.features = torch.from_numpy(questions.features)
        self.frozen = questions.frozen  # ``(N, 2H)`` unit rows: the text vectors before training
        self.negatives = negatives
        self.batch_size = batch_size
        self.seed = seed
        self.tag_vectors = tag_vectors
        train = self.pairs_of("train").rename(columns={"later": "query", "earlier": "document"})
        # Groups of the training pairs alone: those of the corpus would reveal duplicates of the other splits.
        self.train_group = linked_groups(train, len(group))
        self.train_pairs = train.loc[train["label"] == 1, ["query", "document"]].to_numpy(dtype=np.int64)
        self.warnings = questions.warnings  # warnings for the user
        self._bucket_negatives: np.ndarray | None = None
        if negatives.kind == "buckets":
            self._bucket_negatives = self._find_bucket_negatives()

    def train_dataloader(self) -> DataLoader[QuestionBatch]:
        """Batches of the training pairs."""
        keys = TripletBatchSampler(self.train_pairs, self._draw, self.batch_size, self.seed, *process_of(self))
        return batch_loader(self, QuestionDataset(self.features, self.train_group), keys)

    def needed(self, *parts: str) -> np.ndarray:
        """Rows that the evaluation of some splits reads: questions of their pairs, their queries and candidates."""
        needed = [self.paired_rows(*parts)]
        for part in parts:
            needed += [queries.needed for queries in self.queries.get(part, {}).values()]
        return np.unique(np.concatenate(needed))

    def _find_bucket_negatives(self) -> np.ndarray:
        """The non-duplicates of the training pairs by the paper's algorithm; a warning counts the fallbacks."""
        rows, num_fallbacks = bucket_negatives(
            self.train_pairs[:, 0],
            self.train_group,
            self.questions.features,
            self.questions.tags,
            self.questions.answered,
            self.parts == TRAIN,
            self.negatives.alpha,
        )
        if num_fallbacks:
            self.warnings += (
                f"{num_fallbacks:,} of {len(rows):,} training pairs have no answered question in a bucket"
                f" more similar than task.alpha={self.negatives.alpha}: they get the nearest non-duplicate",
            )
        return rows

    def _draw(self, rng: np.random.Generator) -> np.ndarray | None:
        if self.negatives.kind != "mined":
            return self._bucket_negatives
        assert self.trainer is not None
        vectors = self.trainer.lightning_module.project(self.features)  # type: ignore[operator]
        return mined_negatives(
            self.train_pairs[:, 0], self.train_group, vectors, self.parts == TRAIN, self.negatives.neighbours, rng
        )

    def load_rows(self, *parts: str) -> DataLoader[QuestionBatch]:
        """All questions that the evaluation of some splits needs, as one batch."""
        rows = self.shares(self.needed(*parts))[:, process_of(self)[0]]
        dataset = QuestionDataset(self.features, self.train_group)
        return batch_loader(self, dataset, [BatchIndices(rows, NO_PAIRS, NO_LABEL)])


class QuestionDataset(Dataset[QuestionBatch]):
    """A data set whose keys are the indices of whole batches."""

    def __init__(self, features: Tensor, group: np.ndarray) -> None:
        self.features = features
        self.group = torch.from_numpy(group)

    def __getitem__(self, indices: BatchIndices) -> QuestionBatch:
        """The batch of some rows."""
        rows = torch.from_numpy(indices.rows)
        triplets = None
        if indices.negatives is not None:
            triplet_rows = np.column_stack([indices.pairs, indices.negatives])
            # Rows are sorted, so a row's position among them is its new number: rows 4, 7, 9; (9, 4, 7) -> (2, 0, 1).
            triplets = torch.from_numpy(np.searchsorted(indices.rows, triplet_rows))
        return QuestionBatch(rows, self.features[rows], self.group[rows], triplets)


class TripletBatchSampler(BatchSampler[BatchIndices]):
    """Duplicate pairs in random order, ``batch_size`` at a time, each with a non-duplicate of its anchor.

    The processes share each batch; if the last batch is short, it repeats pairs of the first.
    """

    def __init__(
        self, pairs: np.ndarray, draw: Draw, batch_size: int, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        pairs_per_process = -(-len(pairs) // world_size)
        super().__init__(seed, rank, world_size, num_batches=-(-pairs_per_process // batch_size))
        self.pairs = pairs
        self.draw = draw
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[BatchIndices]:
        rng = self.rng()
        negatives = self.draw(rng)
        order = rng.permutation(len(self.pairs))
        # np.resize repeats from the start: 5 pairs for 2 processes become 0 1 2 3 4 0.
        order = np.resize(order, -(-len(order) // self.world_size) * self.world_size)
        global_batch_size = self.batch_size * self.world_size
        for start in range(0, len(order), global_batch_size):
            chosen = order[start : start + global_batch_size][self.rank :: self.world_size]
            pairs = self.pairs[chosen]
            drawn = None if negatives is None else negatives[chosen]
            rows = np.unique(pairs if drawn is None else np.column_stack([pairs, drawn]))
            yield BatchIndices(rows, pairs, np.ones(len(pairs), dtype=np.int64), drawn)
