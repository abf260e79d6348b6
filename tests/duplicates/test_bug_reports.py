"""Batches of distinct reports, the tables one can look at, and reports that evaluation reads once by length."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.bug_reports import Batch, BugReports
from gedbd.duplicates.graph.adjacency import SparseAdjacency
from gedbd.duplicates.graph.title_graph import TitleGraph
from gedbd.experiments.prepare import PreparedData
from gedbd.retrieval.ranking_tasks import EarlierReports, ReportPool
from gedbd.sampling.batches import PairBatches
from gedbd.sampling.group_batches import GroupBatches
from gedbd.text.tokens import CPU_TOKENS, TokenTable

PAIRS = pd.DataFrame(
    [
        (0, 1, 1, "positive", "train"),
        (0, 2, 0, "anchor", "train"),
        (1, 2, 0, "anchor", "train"),
        (2, 3, 1, "positive", "val"),
    ],
    columns=["earlier", "later", "label", "kind", "part"],
)


def made(corpus, tokens, parts, pairs, batches, graph=None, observed=None, queries=None) -> BugReports:
    """Data whose tokens and graph are given."""
    observed = corpus.group if observed is None else observed
    data = BugReports(PreparedData(corpus, parts, observed, pairs, queries or {}), batches=batches)
    data.tokens = tokens
    data.title_graph = TitleGraph(graph) if graph is not None else None
    return data


@pytest.fixture
def data() -> BugReports:
    reports = pd.DataFrame({"id": list("abcd"), "title": ["one", "two", "three", "four"], "description": ""})
    tokens = TokenTable(np.array([5, 6, 6, 7, 7, 7, 8], dtype=np.int32), np.array([0, 1, 3, 6, 7]), pad_id=0)
    corpus = Corpus.of_table("toy", reports, np.array([0, 0, 2, 2]))
    graph = SparseAdjacency(torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]]), torch.tensor([0.9, 0.9, 0.4, 0.4]), 4)
    parts = np.array([0, 0, 0, 1], dtype=np.int8)
    return made(corpus, tokens, parts, PAIRS, PairBatches(3, seed=0), graph)


def test_a_report_is_in_a_batch_once(data):
    batch = next(iter(data.train_dataloader()))
    assert batch.n_id.tolist() == [0, 1, 2]
    assert batch.input_ids.tolist() == [[5, 0, 0], [6, 6, 0], [7, 7, 7]]
    assert batch.attention_mask.tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert batch.group.tolist() == [0, 0, 2]
    pairs = {
        (*batch.n_id[index].tolist(), int(label))
        for index, label in zip(batch.edge_label_index.T, batch.edge_label, strict=True)
    }
    assert pairs == {(0, 1, 1), (0, 2, 0), (1, 2, 0)}


def test_batches_hold_observed_groups_only(data):
    observed = np.array([0, 1, 2, 2])
    pairs = PAIRS.drop(index=0)
    some = made(data.corpus, data.tokens, data.parts, pairs, PairBatches(3, seed=0), observed=observed)
    assert next(iter(some.train_dataloader())).group.tolist() == [0, 1, 2]


def test_evaluation_reads_reports_of_pairs_and_what_is_ranked_in_the_last_part(data):
    assert data.needed("val").tolist() == [2, 3]
    data.queries = {"val": {"earlier": EarlierReports(np.array([3]), np.array([0]), data.corpus.group)}}
    assert data.needed("val").tolist() == [0, 1, 2, 3]  # all that came before
    data.queries = {"test": {"test_pool": ReportPool(np.array([3]), np.array([1, 3]), data.corpus.group)}}
    assert data.needed("test").tolist() == [1, 3]  # the pool alone
    assert data.needed("val", "test").tolist() == [1, 2, 3]


def test_tables_name_the_reports(data):
    pairs = data.pair_table()
    assert pairs.loc[0, ["id_1", "title_1", "id_2", "title_2"]].tolist() == ["a", "one", "b", "two"]
    edges = data.edge_table(np.array([1]), top_k=2)
    assert edges[["id_1", "id_2"]].to_numpy().tolist() == [["b", "a"], ["b", "c"]]
    assert edges["weight"].tolist() == pytest.approx([0.9, 0.4])
    data.title_graph = None
    with pytest.raises(ValueError, match="there is no graph: choose graph=dense"):
        data.edge_table(np.array([0]))


def test_graph_as_pyg_data(data):
    graph = data.graph
    graph.validate()
    assert graph.num_nodes == 4
    assert graph.y.tolist() == [0, 0, 2, 2]
    assert graph.edge_index.shape == (2, 8)


COUNT, LONG = 301, 3000


def module(make_corpus, batches: PairBatches | GroupBatches | None = None) -> BugReports:
    """Reports of 1 to 99 tokens and one that no batch may hold beside another; validation needs the first 251."""
    lengths = np.random.default_rng(0).integers(1, 100, size=COUNT)
    lengths[17] = LONG
    starts = np.concatenate([[0], lengths.cumsum()])
    tokens = TokenTable(np.arange(starts[-1], dtype=np.int32), starts, pad_id=0)
    corpus = make_corpus(np.arange(COUNT) // 2)
    pairs = pd.DataFrame([(0, 250, 0, "anchor", "val")], columns=["earlier", "later", "label", "kind", "part"])
    queries = {"val": {"earlier": EarlierReports(np.array([250]), np.array([0]), corpus.group)}}
    parts = (np.arange(COUNT) >= 200).astype(np.int8)
    return made(corpus, tokens, parts, pairs, batches or PairBatches(8, 0), queries=queries)


def check(batches: list[Batch], lengths: np.ndarray) -> list[int]:
    """Rows in the order in which they are read, each with its own tokens."""
    assert len(batches) > 3
    for batch in batches:
        assert batch.input_ids.numel() <= CPU_TOKENS or len(batch.n_id) == 1
        assert batch.edge_label_index.shape == (2, 0)
        assert batch.edge_label.shape == (0,)
    read = [row for batch in batches for row in batch.n_id.tolist()]
    real = [length for batch in batches for length in batch.attention_mask.sum(1).tolist()]
    assert real == lengths[read].tolist() == sorted(real)
    return read


def test_reports_are_read_once_by_length_and_within_the_budget(make_corpus):
    data = module(make_corpus)
    batches = list(data.val_dataloader())
    assert sorted(check(batches, data.tokens.lengths)) == list(range(251))
    assert [batch.n_id.tolist() for batch in batches if batch.input_ids.shape[1] == LONG] == [[17]]
    assert sum(batch.input_ids.numel() for batch in batches) < 1.2 * data.tokens.lengths[:251].sum()


def share(data: BugReports, rank: int, world_size: int) -> BugReports:
    """The data of one of several processes."""
    device = SimpleNamespace(root_device=torch.device("cpu"))
    data.trainer = SimpleNamespace(world_size=world_size, global_rank=rank, strategy=device)
    return data


def test_two_processes_read_every_report_between_them(make_corpus):
    shares = [share(module(make_corpus), rank, 2) for rank in range(2)]
    read = [check(list(data.val_dataloader()), data.tokens.lengths) for data in shares]
    assert len(read[0]) == len(read[1]) == 126
    assert set(read[0]) | set(read[1]) == set(range(251))
    assert set(read[0]) & set(read[1]) == {17}  # the longest, read twice for 251 is odd


@pytest.mark.parametrize("world", [2, 3])
def test_processes_read_equally_many_batches(make_corpus, world):
    """Where weights are sharded, a batch more in one process would wait for the others for ever."""
    shares = [share(module(make_corpus), rank, world) for rank in range(world)]
    for seed in range(20):
        lengths = np.random.default_rng(seed).integers(1, 2 * CPU_TOKENS // 3, size=COUNT)
        starts = np.concatenate([[0], lengths.cumsum()])
        for data in shares:
            data.tokens = TokenTable(np.zeros(starts[-1], dtype=np.int32), starts, pad_id=0)
        assert len({len(data.val_dataloader()) for data in shares}) == 1


def grouped(hard: float) -> GroupBatches:
    return GroupBatches(16, 0, singletons=0.25, negatives_per_positive=1.0, hard=hard, neighbours=3)


def test_vectors_of_an_interrupted_run_are_taken_up(make_corpus):
    first, second = module(make_corpus, grouped(0.5)), module(make_corpus, grouped(0.5))
    vectors = np.random.default_rng(0).normal(size=(COUNT, 4)).astype(np.float32)
    first.remember(np.arange(COUNT), vectors)
    first.remember(np.array([3, 8]), 2 * vectors[[3, 8]])
    second.remember(np.arange(COUNT), np.zeros_like(vectors))
    held = second.train_dataloader().sampler.inputs.vectors
    second.load_state_dict(first.state_dict())
    expected = vectors.copy()
    expected[[3, 8]] *= 2
    assert (second.vectors == expected).all()
    assert held is second.vectors  # what the steps draw by
