"""Dense and sparse graphs against whole matrices, and two convolutions of the rows of a batch against PyG's."""

from collections.abc import Callable
from math import comb

import numpy as np
import pytest
import torch
from small_duplicates import dense_matrix, edges_of, everyone, sparse_matrix, unit_rows
from torch import Tensor
from torch_geometric.nn import GCNConv

from gedbd.duplicates.graph import adjacency
from gedbd.duplicates.graph.adjacency import (
    BLOCK_ROWS,
    DenseAdjacency,
    SparseAdjacency,
    kernel,
    kernel_factor,
    knn,
    threshold,
)


def test_kernel_by_hand():
    cosine = torch.tensor([1.0, 0.0, -1.0, 0.6, 1.0000002])
    assert kernel(cosine, 1).tolist() == pytest.approx([1, 0.5, 0, 0.8, 1])
    assert kernel(cosine, 1).max() == 1  # not above it for a cosine that is, by rounding
    assert kernel(cosine, 2).tolist() == pytest.approx([1, 0.25, 0, 0.64, 1])


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("dim", [1, 4, 10])
def test_the_factor_has_the_rank_it_should_and_gives_the_kernel(power, dim):
    vectors = unit_rows(300, dim).double()
    factor = kernel_factor(vectors, power)
    assert factor.shape == (300, comb(dim + power, power))
    torch.testing.assert_close(factor @ factor.T, ((1 + vectors @ vectors.T) / 2) ** power)


TITLES = unit_rows(300)
WITHOUT_DIRECTION = torch.cat([unit_rows(20), torch.zeros(2, 4)])


@pytest.mark.parametrize(
    ("vectors", "num_inside", "power"),
    [
        *((TITLES, num_inside, power) for num_inside in (300, 180) for power in (0, 1, 2, 3)),
        (unit_rows(2000, 10), 2000, 1),
        (WITHOUT_DIRECTION, 22, 1),  # half similar to all
    ],
)
def test_equals_the_materialised_matrix(vectors, num_inside, power):
    inside, x = torch.arange(len(vectors)) < num_inside, torch.randn(len(vectors), 7)
    expected = dense_matrix(vectors, inside, power) @ x.double()
    torch.testing.assert_close(DenseAdjacency(vectors, inside, power)(x).double(), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("vectors", "inside", "expected"),
    [
        ([[1.0, 0.0], [0.0, 1.0]], [True, True], [(3 + 0.5 * 6) / 1.5, (0.5 * 3 + 6) / 1.5]),
        ([[1.0, 0.0], [0.0, 1.0]], [True, False], [3, 0.5 * 3 / 1.5**0.5 + 6 / 1.5]),  # the second only receives
        ([[1.0, 0.0], [-1.0, 0.0]], [True, True], [3, 6]),  # opposite titles
    ],
)
def test_two_reports_by_hand(vectors, inside, expected):
    out = DenseAdjacency(torch.tensor(vectors), torch.tensor(inside))(torch.tensor([[3.0], [6.0]]))
    assert out.flatten().tolist() == pytest.approx(expected, abs=1e-5)


def test_neighbours_are_the_strongest_senders_but_not_oneself():
    vectors = unit_rows(60)
    rows = torch.tensor([3, 50])
    index, weight = DenseAdjacency(vectors, torch.arange(60) < 40, power=3).neighbours(rows, 4)
    cosine = vectors @ vectors.T
    for place, row in enumerate(rows.tolist()):
        senders = [other for other in range(40) if other != row]
        expected = sorted(senders, key=lambda other: -float(cosine[row, other]))[:4]
        assert index[place].tolist() == expected
        assert weight[place].tolist() == pytest.approx([float((1 + cosine[row, e]) / 2) ** 3 for e in expected], 1e-4)


def brute_force(vectors: Tensor, inside: Tensor, chosen: Callable[[np.ndarray], np.ndarray]) -> dict:
    """Edges by a loop over reports; ``chosen`` picks senders from a row of cosines (-inf: not to be chosen)."""
    cosine = vectors.numpy().astype(np.float64) @ vectors.numpy().astype(np.float64).T
    edges: dict[tuple[int, int], float] = {}
    for target in range(len(vectors)):
        row = np.where(inside.numpy(), cosine[target], -np.inf)
        row[target] = -np.inf
        for source in chosen(row).tolist():
            edges[source, target] = (1 + cosine[target, source]) / 2
            if inside[target]:
                edges[target, source] = edges[source, target]
    return edges


@pytest.mark.parametrize("senders", [100, 60])  # the others receive and never send
@pytest.mark.parametrize(
    ("rule", "chosen"),
    [
        *((lambda *ends, k=k: knn(*ends, k), lambda row, k=k: np.argsort(-row)[:k]) for k in (1, 5, 20)),
        (lambda *ends: threshold(*ends, cosine=0.7), lambda row: np.flatnonzero(row >= 0.7)),
    ],
)
def test_edges_are_those_of_brute_force_and_are_normalised_once(rule, chosen, senders):
    vectors, inside = unit_rows(100), torch.arange(100) < senders
    adjacency = rule(vectors, inside)
    expected = brute_force(vectors, inside, chosen)
    assert len(expected) >= 100
    assert set(edges_of(adjacency)) == set(expected)
    assert edges_of(adjacency) == pytest.approx(expected, abs=1e-6)
    matrix = torch.zeros(100, 100, dtype=torch.float64)
    matrix[adjacency.edge_index[1], adjacency.edge_index[0]] = adjacency.edge_weight.double()
    torch.testing.assert_close(matrix, sparse_matrix(adjacency, 100), atol=1e-6, rtol=1e-5)


def test_threshold_across_blocks_of_rows():
    vectors = unit_rows(BLOCK_ROWS + 200, dim=8)
    found = threshold(vectors, everyone(len(vectors)), cosine=0.9)
    expected = (vectors @ vectors.T >= 0.9).fill_diagonal_(False).nonzero()
    mine = found.raw_index[:, (found.raw_index[0] * 10_000 + found.raw_index[1]).argsort()]
    assert torch.equal(mine.T, expected)


def test_equal_titles_have_k_neighbours_and_all_pass_the_threshold():
    vectors = torch.tensor([[0.6, 0.8]]).repeat(30, 1)
    nearest, similar = knn(vectors, everyone(30), 4), threshold(vectors, everyone(30), 0.9)
    received = torch.bincount(nearest.raw_index[1], minlength=30)
    assert received.min() >= 4
    assert not (nearest.raw_index[0] == nearest.raw_index[1]).any()
    assert list(edges_of(similar).values()) == pytest.approx([1.0] * 30 * 29)
    assert nearest.edge_weight.isfinite().all()


def test_titles_without_direction_and_reports_without_an_edge_stand_alone():
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, -1.0]])
    adjacency = threshold(vectors, everyone(4), 0.5)
    assert edges_of(adjacency) == {(0, 1): 1.0, (1, 0): 1.0}
    convs = [GCNConv(1, 1, normalize=False) for _ in range(2)]
    for conv in convs:
        torch.nn.init.ones_(conv.lin.weight)
    x = torch.tensor([[2.0], [4.0], [5.0], [7.0]])
    assert adjacency.convolve(x, torch.arange(4), x, *convs).flatten().tolist() == pytest.approx([3, 3, 5, 7])
    isolated = knn(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), everyone(2), 1)  # opposite titles weigh nothing
    assert isolated.raw_index.shape == (2, 0)


@pytest.mark.parametrize("k", [0, 29, 50, -1])
def test_a_number_of_neighbours_that_there_cannot_be_is_refused(k):
    with pytest.raises(ValueError, match=f"graph.rule.k={k} must lie between 1 and 28"):
        knn(unit_rows(50), torch.arange(50) < 29, k)


def test_more_edges_than_fit_are_refused():
    vectors = torch.tensor([[0.6, 0.8]]).repeat(30, 1)
    with pytest.raises(ValueError, match=r"graph.rule.cosine=0.9 gives more than 800 edges: raise it"):
        threshold(vectors, everyone(30), 0.9, max_edges=800)
    threshold(vectors, everyone(30), 0.9, max_edges=870)


def test_neighbours_by_hand():
    edge_index = torch.tensor([[1, 2, 3, 0, 0], [0, 0, 0, 1, 2]])
    adjacency = SparseAdjacency(edge_index, torch.tensor([0.5, 0.9, 0.7, 0.5, 0.9]), num_nodes=4)
    index, weight = adjacency.neighbours(torch.tensor([0, 1, 3]), top_k=2)
    assert index.tolist() == [[2, 3], [0, -1], [-1, -1]]
    assert weight.flatten().tolist() == pytest.approx([0.9, 0.7, 0.5, 0, 0, 0])


N = 60
UNIT = unit_rows(N)
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
    check(DenseAdjacency(UNIT, inside, power), dense_matrix(UNIT, inside, power), n_id)


@pytest.mark.parametrize("n_id", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("rule", ["knn", "threshold"])
def test_a_sparse_graph_is_its_matrix(rule, scope, n_id):
    inside = SCOPES[scope]
    adjacency = knn(UNIT, inside, 3) if rule == "knn" else threshold(UNIT, inside, 0.9)
    check(adjacency, sparse_matrix(adjacency, N), n_id)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("rule", ["dense", "knn"])
def test_dropout_before_each_layer_and_no_bias(rule, scope):
    inside, n_id, dropout = SCOPES[scope], torch.arange(N), 0.3
    adjacency = DenseAdjacency(UNIT, inside, 1) if rule == "dense" else knn(UNIT, inside, 3)
    matrix = (dense_matrix(UNIT, inside, 1) if rule == "dense" else sparse_matrix(adjacency, N)).float()
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
