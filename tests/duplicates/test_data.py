"""Batches of distinct reports, and the tables one can look at."""

import numpy as np
import pandas as pd
import pytest
import torch

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.adjacency import SparseAdjacency
from gedbd.duplicates.duplicate_data import DuplicateDataModule
from gedbd.retrieval.ranking_tasks import EarlierReports, ReportPool
from gedbd.sampling.batches import PairBatches
from gedbd.text.tokens import TokenTable

PAIRS = pd.DataFrame(
    [
        (0, 1, 1, "positive", "train"),
        (0, 2, 0, "anchor", "train"),
        (1, 2, 0, "anchor", "train"),
        (2, 3, 1, "positive", "val"),
    ],
    columns=["earlier", "later", "label", "kind", "part"],
)


@pytest.fixture
def data() -> DuplicateDataModule:
    reports = pd.DataFrame({"id": list("abcd"), "title": ["one", "two", "three", "four"], "description": ""})
    tokens = TokenTable(np.array([5, 6, 6, 7, 7, 7, 8], dtype=np.int32), np.array([0, 1, 3, 6, 7]), pad_id=0)
    corpus = Corpus.of_table("toy", reports, np.array([0, 0, 2, 2]))
    graph = SparseAdjacency(torch.tensor([[0, 1, 2, 1], [1, 0, 1, 2]]), torch.tensor([0.9, 0.9, 0.4, 0.4]), 4)
    parts = np.array([0, 0, 0, 1], dtype=np.int8)
    return DuplicateDataModule(corpus, tokens, parts, PAIRS, PairBatches(3, seed=0), graph=graph)


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
    part = data.parts, PAIRS.drop(index=0)
    some = DuplicateDataModule(data.corpus, data.tokens, *part, PairBatches(3, seed=0), observed_group=observed)
    assert next(iter(some.train_dataloader())).group.tolist() == [0, 1, 2]


def test_evaluation_reads_reports_of_pairs_and_what_is_ranked_in_the_last_part(data):
    assert data.needed("val").tolist() == [2, 3]
    data.queries = {"val": {"earlier": EarlierReports(np.array([3]), np.array([0]), data.corpus.group)}}
    assert data.needed("val").tolist() == [0, 1, 2, 3]  # all that came before
    data.queries = {"test": {"test_pool": ReportPool(np.array([3]), np.array([1, 3]), data.corpus.group)}}
    assert data.needed("test").tolist() == [1, 3]  # the pool alone
    assert data.needed("val", "test").tolist() == [1, 2, 3]


def test_evaluation_reads_each_report_once(data):
    assert [batch.n_id.tolist() for batch in data.val_dataloader()] == [[3, 2]]  # the shorter text first


def test_epochs_are_shuffled_alike_for_one_seed(data):
    loader, again = data.train_dataloader(), data.train_dataloader()
    orders = []
    for epoch in range(4):
        loader.sampler.set_epoch(epoch)
        again.sampler.set_epoch(epoch)
        order = [step.pairs.tolist() for step in loader.sampler]
        assert order == [step.pairs.tolist() for step in again.sampler]
        orders.append(str(order))
    assert len(set(orders)) > 1


def test_tables_name_the_reports(data):
    pairs = data.pair_table()
    assert pairs.loc[0, ["id_1", "title_1", "id_2", "title_2"]].tolist() == ["a", "one", "b", "two"]
    edges = data.edge_table(np.array([1]), top_k=2)
    assert edges[["id_1", "id_2"]].to_numpy().tolist() == [["b", "a"], ["b", "c"]]
    assert edges["weight"].tolist() == pytest.approx([0.9, 0.4])
    data.graph = None
    with pytest.raises(ValueError, match="there is no graph: choose graph=dense"):
        data.edge_table(np.array([0]))


def test_graph_as_pyg_data(data):
    graph = data.graph_data()
    graph.validate()
    assert graph.num_nodes == 4
    assert graph.y.tolist() == [0, 0, 2, 2]
    assert graph.edge_index.shape == (2, 8)
