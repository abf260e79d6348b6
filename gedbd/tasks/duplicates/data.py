"""Serves the corpus to a training task: batches of distinct reports, the pairs between them, and the graph over all."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch_geometric.data import Data

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TRAIN
from gedbd.retrieval.tasks import Queries
from gedbd.sampling.batches import Batches, BatchIndices, SamplerInputs
from gedbd.tasks.duplicates.graph.sparse import SparseAdjacency
from gedbd.text.tokens import TokenTable, split_by_tokens, token_budget


class Batch(NamedTuple):
    """Distinct reports and the pairs between them.

    ``n_id (U,)`` rows of the corpus, ``input_ids`` and ``attention_mask (U, L)``, ``group (U,)`` as far as it is known,
    ``edge_label_index (2, P)`` pairs renumbered to 0..U-1, ``edge_label (P,)`` 1 duplicate, 0 not.
    """

    n_id: Tensor
    input_ids: Tensor
    attention_mask: Tensor
    group: Tensor
    edge_label_index: Tensor
    edge_label: Tensor


class DuplicateDataModule(pl.LightningDataModule):
    """Pairs for training, reports for evaluation, and the graph.

    A training batch is drawn from the pairs of the part ``train``; each of its reports is in it once, however many
    pairs name it. The order of an epoch depends on the seed and the epoch alone. Evaluation needs no pairs in its
    batches: every report of the wanted pairs is encoded once, with others of its length, and scores are read off
    afterwards.

    Args:
        corpus: The reports.
        tokens: Their texts as token numbers.
        parts: ``(N,)`` 0 train, 1 val, 2 test.
        pairs: The table that ``PairSampler.sample`` makes.
        graph: The graph over all reports, or None.
        batches: How training pairs are dealt into batches.
        queries: What is ranked in each part, by protocol; the other parts have pairs only.
        known: ``(N,)`` groups that training may know, if not all.

    Attributes:
        evaluated: Parts that a test scores; the last one is reported.
        frozen: Rows and unit vectors of the reports that the untrained encoder has read, if any.
        title_cosines: Cosines of some pairs of titles, raw and reduced, if there is a graph.
        vectors: ``(N, D)`` unit text vectors of reports as they were last read, if ``batches`` draws hard negatives.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokens: TokenTable,
        parts: np.ndarray,
        pairs: pd.DataFrame,
        graph: nn.Module | None,
        batches: Batches,
        queries: Mapping[str, Mapping[str, RankingTask]] | None = None,
        known: np.ndarray | None = None,
    ) -> None:
        super().__init__()
        self.corpus, self.tokens, self.parts, self.graph = corpus, tokens, parts, graph
        self.pairs = pairs
        self.batches = batches
        self.queries = {part: dict(found) for part, found in (queries or {}).items()}
        self.known = corpus.group if known is None else known
        self.frozen: tuple[np.ndarray, np.ndarray] | None = None
        self.title_cosines: tuple[np.ndarray, np.ndarray] | None = None
        self.vectors: np.ndarray | None = None
        self.evaluated: tuple[str, ...] = ("val", "test")

    def pairs_of(self, part: str) -> pd.DataFrame:
        """The pairs of one part: train, val or test."""
        return self.pairs[self.pairs["part"] == part]

    def pair_table(self) -> pd.DataFrame:
        """All pairs with ids and titles, to look at."""
        return name_reports(self.pairs, self.corpus, "earlier", "later")

    def edge_table(self, rows: np.ndarray, top_k: int = 5) -> pd.DataFrame:
        """The strongest edges into some reports, with their weight before normalisation, ids and titles."""
        if self.graph is None:
            raise ValueError("there is no graph: choose graph=dense, knn or threshold")
        index, weight = self.graph.neighbours(torch.from_numpy(rows), top_k)  # type: ignore[operator]
        target = np.repeat(rows, index.shape[1])
        edges = pd.DataFrame({"to": target, "from": index.flatten().numpy(), "weight": weight.flatten().numpy()})
        return name_reports(edges[edges["weight"] > 0], self.corpus, "to", "from")

    def graph_data(self) -> Data:
        """The graph as PyG knows it: ``y`` the groups, ``part``, and the normalised edges where they are a list."""
        data = Data(y=torch.from_numpy(self.corpus.group), part=torch.from_numpy(self.parts))
        data.num_nodes = len(self.corpus)
        if isinstance(self.graph, SparseAdjacency):
            data.edge_index, data.edge_weight = self.graph.edge_index, self.graph.edge_weight
        return data

    def remember(self, n_id: np.ndarray, z: np.ndarray) -> None:
        """Keeps reports' unit vectors, ``(U,), (U, D)``, for the next epoch's draw of hard negatives."""
        if self.batches.hard:
            if self.vectors is None:
                self.vectors = np.zeros((len(self.corpus), z.shape[1]), dtype=np.float32)
            self.vectors[n_id] = z

    def state_dict(self) -> dict[str, Any]:
        """The vectors, so that a resumed run draws what an uninterrupted one would."""
        return {} if self.vectors is None else {"vectors": torch.from_numpy(self.vectors)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes up the vectors of the run that is resumed."""
        self.remember(np.arange(len(self.corpus)), state_dict["vectors"].numpy())

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of the training pairs; with several processes each gets its share."""
        inputs = SamplerInputs(self.pairs_of("train"), self.known, self.parts == TRAIN, self.vectors)
        world_size, rank = self._world()
        return self._load(self.batches(inputs, rank, world_size))

    def val_dataloader(self) -> DataLoader[Batch]:
        """Batches of the reports that validation needs."""
        return self._rows_of("val")

    def test_dataloader(self) -> DataLoader[Batch]:
        """Batches of the reports that the parts ``evaluated`` need."""
        return self._rows_of(*self.evaluated)

    def needed(self, *parts: str) -> np.ndarray:
        """Rows that some parts' evaluation reads: reports of their pairs, their queries and all candidates."""
        named = self.pairs.loc[self.pairs["part"].isin(parts), ["earlier", "later"]].to_numpy()
        ranked = [queries.needed for part in parts for queries in self.queries.get(part, {}).values()]
        return np.unique(np.concatenate([named.flatten(), *ranked]))

    def _rows_of(self, *parts: str) -> DataLoader[Batch]:
        """Batches of reports of like length.

        Each of several processes gets as many reports, repeating some if need be, in as many batches: where weights are
        sharded, processes that encode exchange them.
        """
        rows = self.needed(*parts)
        world, rank = self._world()
        rows = rows[np.argsort(self.tokens.lengths[rows], kind="stable")]
        shares = np.pad(rows, (0, -len(rows) % world), mode="edge").reshape(-1, world)
        longest = self.tokens.lengths[shares].max(axis=1)
        device = self.trainer.strategy.root_device if self.trainer else torch.device("cpu")
        runs = split_by_tokens(longest.tolist(), token_budget(device))
        nothing = np.empty((0, 2), dtype=np.int64), np.empty(0, dtype=np.int64)
        return self._load([BatchIndices(shares[first:last, rank], *nothing) for first, last in runs])

    def _world(self) -> tuple[int, int]:
        return (self.trainer.world_size, self.trainer.global_rank) if self.trainer else (1, 0)

    def _load(self, steps: Iterable[BatchIndices]) -> DataLoader[Batch]:
        return DataLoader(_Collated(self.tokens, self.known), batch_size=None, sampler=steps)


class _Collated(Dataset[Batch]):
    """Turns a step into a batch, as a data set whose keys are steps."""

    def __init__(self, tokens: TokenTable, group: np.ndarray) -> None:
        self.tokens, self.group = tokens, group

    def __getitem__(self, step: BatchIndices) -> Batch:
        return Batch(
            torch.from_numpy(step.rows),
            *self.tokens.batch(step.rows),
            torch.from_numpy(self.group[step.rows]),
            torch.from_numpy(np.searchsorted(step.rows, step.pairs.T)),
            torch.from_numpy(step.label),
        )


def name_reports(table: pd.DataFrame, corpus: Corpus, first: str, second: str) -> pd.DataFrame:
    """Adds ids and titles of the reports that two columns of row numbers name."""
    named = table.reset_index(drop=True)
    for number, column in enumerate((first, second), start=1):
        chosen = corpus.reports.iloc[named[column]]
        named[f"id_{number}"] = chosen["id"].to_numpy()
        named[f"title_{number}"] = chosen["title"].to_numpy()
    return named
