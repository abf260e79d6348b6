"""Two convolutions of the rows that a step reads, against PyG's on the edges of the whole matrix and plain autograd."""

import pytest
import torch
from small_graphs import dense_matrix, sparse_matrix, unit_rows
from torch import Tensor
from torch.autograd import gradcheck
from torch_geometric.nn import GCNConv

from gedbd.duplicates import adjacency
from gedbd.duplicates.adjacency import DenseAdjacency, SparseAdjacency, knn, threshold

N = 60
VECTORS = unit_rows(N)
SCOPES = {"all": torch.ones(N, dtype=torch.bool), "train": torch.arange(N) % 3 > 0}
ROWS = {"some": torch.tensor([41, 3, 0, 58, 17]), "one": torch.tensor([0]), "all": torch.arange(N)}


def check(adjacency: DenseAdjacency | SparseAdjacency, matrix: Tensor, n_id: Tensor) -> None:
    """Output and all gradients, of rows that are asked for in any order."""
    target, source = matrix.nonzero(as_tuple=True)
    edges = torch.stack([source, target]), matrix[target, source].float()
    conv1, conv2 = GCNConv(6, 5, normalize=False), GCNConv(5, 3, normalize=False)
    for conv in (conv1, conv2):
        torch.nn.init.normal_(conv.bias)
    x, z = torch.randn(len(matrix), 6, requires_grad=True), torch.randn(len(n_id), 6, requires_grad=True)
    expected = conv2(conv1(x.index_put((n_id,), z), *edges).relu(), *edges)[n_id]
    found = adjacency.convolve(x, n_id, z, conv1, conv2)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    weight, wanted = torch.randn_like(expected), [x, z, *conv1.parameters(), *conv2.parameters()]
    mine, theirs = (torch.autograd.grad((out * weight).sum(), wanted) for out in (found, expected))
    for gradient, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(gradient, other, atol=1e-5, rtol=1e-5)
    assert all(gradient.abs().sum() > 0 for gradient in mine[1:])


@pytest.mark.parametrize("block", [7, 2048])
@pytest.mark.parametrize("n_id", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("scope", SCOPES)
def test_the_dense_graph_is_its_matrix(monkeypatch, scope, power, n_id, block):
    monkeypatch.setattr(adjacency, "BLOCK_ROWS", block)
    inside = SCOPES[scope]
    check(DenseAdjacency(VECTORS, inside, power), dense_matrix(VECTORS, inside, power), n_id)


@pytest.mark.parametrize("n_id", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("rule", ["knn", "threshold"])
def test_a_sparse_graph_is_its_matrix(rule, scope, n_id):
    inside = SCOPES[scope]
    adjacency = knn(VECTORS, inside, 3) if rule == "knn" else threshold(VECTORS, inside, 0.9)
    check(adjacency, sparse_matrix(adjacency, N), n_id)


@pytest.mark.parametrize("rows", [[3], [0], [3, 0, 1], [0, 1, 2, 3]])
def test_a_report_without_an_edge_and_one_that_only_receives(rows):
    adjacency = SparseAdjacency(torch.tensor([[0, 1, 1], [1, 0, 2]]), torch.tensor([0.5, 0.5, 0.8]), num_nodes=4)
    check(adjacency, sparse_matrix(adjacency, 4), torch.tensor(rows))


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("rule", ["dense", "knn"])
def test_dropout_before_each_layer_and_no_bias(rule, scope):
    inside, n_id, dropout = SCOPES[scope], torch.arange(N), 0.3
    adjacency = DenseAdjacency(VECTORS, inside, 1) if rule == "dense" else knn(VECTORS, inside, 3)
    matrix = (dense_matrix(VECTORS, inside, 1) if rule == "dense" else sparse_matrix(adjacency, N)).float()
    conv1, conv2 = (GCNConv(*sizes, normalize=False, bias=False) for sizes in ((6, 5), (5, 3)))
    z = torch.randn(N, 6)
    torch.manual_seed(1)
    found = adjacency.convolve(torch.zeros(N, 6), n_id, z, conv1, conv2, dropout)
    torch.manual_seed(1)
    kept = torch.nn.functional.dropout(z, dropout)
    hidden = torch.nn.functional.dropout((matrix @ kept @ conv1.lin.weight.T).relu(), dropout)
    torch.testing.assert_close(found, matrix @ hidden @ conv2.lin.weight.T, atol=1e-5, rtol=1e-5)
    whole = matrix @ (matrix @ z @ conv1.lin.weight.T).relu() @ conv2.lin.weight.T
    torch.testing.assert_close(adjacency.convolve(z, n_id, z, conv1, conv2), whole, atol=1e-5, rtol=1e-5)


def test_the_sum_of_hidden_rows_has_its_gradient_over_several_blocks(monkeypatch):
    monkeypatch.setattr(adjacency, "BLOCK_ROWS", 4)
    send = torch.randn(10, 3, dtype=torch.float64)
    mixed, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 2), (2,)))
    expected = send.T @ (send @ mixed + bias).relu()
    torch.testing.assert_close(adjacency._HiddenSum.apply(send, mixed, bias), expected)
    assert gradcheck(lambda *inputs: adjacency._HiddenSum.apply(send, *inputs), (mixed, bias))
