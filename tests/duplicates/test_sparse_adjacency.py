from collections.abc import Callable

import numpy as np
import pytest
import torch
from small_graphs import edges_of, everyone, sparse_matrix, unit_rows
from torch import Tensor
from torch_geometric.nn import GCNConv

from gedbd.duplicates.adjacency import BLOCK_ROWS, SparseAdjacency, knn, threshold


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


def test_power_sharpens_the_weights():
    vectors, inside = unit_rows(50), everyone(50)
    once, thrice = edges_of(knn(vectors, inside, 4)), edges_of(knn(vectors, inside, 4, power=3))
    assert thrice == pytest.approx({edge: weight**3 for edge, weight in once.items()})


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
