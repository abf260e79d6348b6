"""Data of duplicate detection: batches of distinct reports, the pairs between them, and the graph over all reports."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset
from torch_geometric.data import Data

from gedbd.corpora.corpus import TRAIN, Corpus
from gedbd.duplicates.graph.adjacency import SparseAdjacency
from gedbd.duplicates.graph.title_graph import TitleGraph
from gedbd.experiments.retrieval_system import RetrievalData
from gedbd.experiments.training_task import name_reports
from gedbd.losses import StepLabels
from gedbd.retrieval.ranking_tasks import RankingTask
from gedbd.sampling.batches import NO_LABEL, NO_PAIRS, Batches, BatchIndices, SamplerInputs
from gedbd.text.tokens import TokenTable, split_by_tokens, token_budget


class Batch(NamedTuple):
    """U distinct reports and the P pairs between them.

    ``n_id (U,)`` rows of the corpus, ``input_ids`` and ``attention_mask (U, L)``, ``group (U,)`` the
    groups that training observes, ``edge_label_index (2, P)`` pairs renumbered to 0..U-1, ``edge_label (P,)`` 1 for a
    duplicate pair, 0 for another.
    """

    n_id: Tensor
    input_ids: Tensor
    attention_mask: Tensor
    group: Tensor
    edge_label_index: Tensor
    edge_label: Tensor

    @property
    def labels(self) -> StepLabels:
        """The labels, as losses read them."""
        return StepLabels(self.group, self.edge_label_index, self.edge_label)


class BatchDataset(Dataset[Batch]):
    """A data set whose keys are the indices of whole batches."""

    def __init__(self, tokens: TokenTable, group: np.ndarray) -> None:
        self.tokens = tokens
        self.group = group

    def __getitem__(self, indices: BatchIndices) -> Batch:
        """The batch of some rows."""
        input_ids, attention_mask = self.tokens.batch(indices.rows)
        return Batch(
            n_id=torch.from_numpy(indices.rows),
            input_ids=input_ids,
            attention_mask=attention_mask,
            group=torch.from_numpy(self.group[indices.rows]),
            # Rows are sorted, so a row's position among them is its new number: rows 4, 7, 9; pair (4, 9) -> (0, 2).
            edge_label_index=torch.from_numpy(np.searchsorted(indices.rows, indices.pairs.T)),
            edge_label=torch.from_numpy(indices.label),
        )


class DuplicateDataModule(RetrievalData):
    """Pairs for training, reports for evaluation, and the graph.

    A training batch is drawn from the pairs of the training set; it contains each of their reports once, however many
    pairs name it. The order of an epoch depends on the seed and the epoch alone. Evaluation batches hold no pairs:
    every report is encoded once, with others of similar length, and pairs are scored afterwards.

    Args:
        corpus: N reports.
        tokens: Their texts as token ids.
        parts: ``(N,)`` 0 train, 1 val, 2 test.
        pairs: The table that ``PairSampler.sample`` makes.
        batches: Samples training batches.
        queries: See ``RetrievalData``.
        observed_group: ``(N,)`` groups that training may see, if not all.
        evaluated: See ``RetrievalData``.

    Attributes:
        frozen: Rows and unit vectors of the reports that the untrained encoder has encoded, if any.
        title_graph: The graph with data for figures, if there is one.
        vectors: ``(N, D)`` unit text vectors as last encoded, if ``batches`` draws hard negatives.
    """

    def __init__(
        self,
        corpus: Corpus,
        tokens: TokenTable,
        parts: np.ndarray,
        pairs: pd.DataFrame,
        batches: Batches,
        queries: Mapping[str, Mapping[str, RankingTask]] | None = None,
        observed_group: np.ndarray | None = None,
        evaluated: tuple[str, ...] = ("val", "test"),
        graph: nn.Module | None = None,
    ) -> None:
        super().__init__(pairs, corpus.group, parts, queries, evaluated)
        self.corpus = corpus
        self.tokens = tokens
        self.graph = graph
        self.batches = batches
        self.observed_group = corpus.group if observed_group is None else observed_group
        self.frozen: tuple[np.ndarray, np.ndarray] | None = None
        self.title_graph: TitleGraph | None = None
        self.vectors: np.ndarray | None = None

    def pair_table(self) -> pd.DataFrame:
        """All pairs with ids and titles, for inspection."""
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
        """The graph as PyG's ``Data``: ``y`` groups, ``part``, and the normalised edges of a sparse graph."""
        data = Data(y=torch.from_numpy(self.corpus.group), part=torch.from_numpy(self.parts))
        data.num_nodes = len(self.corpus)
        if isinstance(self.graph, SparseAdjacency):
            data.edge_index = self.graph.edge_index
            data.edge_weight = self.graph.edge_weight
        return data

    def remember(self, n_id: np.ndarray, z: np.ndarray) -> None:
        """Stores reports' unit vectors, ``(U,), (U, D)``, from which the next epoch draws hard negatives."""
        if self.batches.hard:
            if self.vectors is None:
                self.vectors = np.zeros((len(self.corpus), z.shape[1]), dtype=np.float32)
            self.vectors[n_id] = z

    def state_dict(self) -> dict[str, Any]:
        """The vectors, so that a resumed run samples what an uninterrupted one does."""
        return {} if self.vectors is None else {"vectors": torch.from_numpy(self.vectors)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores the vectors of the run that is resumed."""
        self.remember(np.arange(len(self.corpus)), state_dict["vectors"].numpy())

    def train_dataloader(self) -> DataLoader[Batch]:
        """Batches of the training pairs; each of several processes gets its share of every batch."""
        inputs = SamplerInputs(self.pairs_of("train"), self.observed_group, self.parts == TRAIN, self.vectors)
        return self.load(self._dataset(), self.batches(inputs, self.rank, self.world_size))

    def needed(self, *parts: str) -> np.ndarray:
        """Rows that the evaluation of some splits encodes.

        They are the reports of their pairs, and the queries of the last split, which is ranked, with their candidates.
        """
        needed = [self.paired_rows(*parts)]
        needed += [queries.needed for queries in self.queries.get(parts[-1], {}).values()]
        return np.unique(np.concatenate(needed))

    def load_rows(self, *parts: str) -> DataLoader[Batch]:
        """Batches of reports of similar length.

        Each of several processes gets equally many reports, some repeated if necessary, in equally many batches: where
        weights are sharded, all processes take part in encoding a batch.
        """
        rows = self.needed(*parts)
        rows = rows[np.argsort(self.tokens.lengths[rows], kind="stable")]
        shares = self.shares(rows)
        longest = self.tokens.lengths[shares].max(axis=1)
        device = self.trainer.strategy.root_device if self.trainer else torch.device("cpu")
        runs = split_by_tokens(longest.tolist(), token_budget(device))
        batch_indices = [BatchIndices(shares[first:last, self.rank], NO_PAIRS, NO_LABEL) for first, last in runs]
        return self.load(self._dataset(), batch_indices)

    def _dataset(self) -> BatchDataset:
        return BatchDataset(self.tokens, self.observed_group)
