from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.nn import GCNConv

from gedbd.tasks.duplicates.gcn import GraphBranch
from gedbd.tasks.duplicates.graph.sparse import BLOCK_ROWS, SparseAdjacency, knn, threshold

RULES: list[Callable[..., SparseAdjacency]] = [
    lambda vectors, inside: knn(vectors, inside, k=5),
    lambda vectors, inside: threshold(vectors, inside, cosine=0.6),
]


def unit_rows(count: int, dim: int = 4) -> Tensor:
    return normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(0)), dim=1)


def everyone(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool)


def everywhere(adjacency: SparseAdjacency, x: Tensor, *convs: GCNConv) -> Tensor:
    """Two convolutions, of which all rows are asked for."""
    return adjacency.convolve(x, torch.arange(len(x)), x, *convs)


def as_dict(adjacency: SparseAdjacency) -> dict[tuple[int, int], float]:
    """Raw edges as {(source, target): weight}; fails if an edge occurs twice."""
    edges = dict(zip(zip(*adjacency.raw_index.tolist(), strict=True), adjacency.raw_weight.tolist(), strict=True))
    assert len(edges) == adjacency.raw_index.shape[1]
    return edges


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


@pytest.mark.parametrize("k", [1, 5, 20])
@pytest.mark.parametrize("senders", [100, 60])
def test_knn_finds_what_brute_force_finds(k, senders):
    vectors, inside = unit_rows(100), torch.arange(100) < senders
    expected = brute_force(vectors, inside, lambda row: np.argsort(-row)[:k])
    found = as_dict(knn(vectors, inside, k))
    assert set(found) == set(expected)
    assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("senders", [100, 60])
def test_threshold_finds_what_brute_force_finds(senders):
    vectors, inside = unit_rows(100), torch.arange(100) < senders
    expected = brute_force(vectors, inside, lambda row: np.flatnonzero(row >= 0.7))
    found = as_dict(threshold(vectors, inside, cosine=0.7))
    assert len(found) > 100
    assert set(found) == set(expected)
    assert found == pytest.approx(expected, abs=1e-6)


def test_threshold_across_blocks_of_rows():
    vectors = unit_rows(BLOCK_ROWS + 200, dim=8)
    found = threshold(vectors, everyone(len(vectors)), cosine=0.9)
    cosine = vectors @ vectors.T
    expected = (cosine >= 0.9).fill_diagonal_(False).nonzero()
    mine = found.raw_index[:, (found.raw_index[0] * 10_000 + found.raw_index[1]).argsort()]
    assert torch.equal(mine.T, expected)


def test_power_sharpens_the_weights():
    vectors, inside = unit_rows(50), everyone(50)
    once, thrice = as_dict(knn(vectors, inside, 4)), as_dict(knn(vectors, inside, 4, power=3))
    assert thrice == pytest.approx({edge: weight**3 for edge, weight in once.items()})


def explicit(adjacency: SparseAdjacency, count: int) -> Tensor:
    """D^-1/2 (A + I) D^-1/2 from the raw edges; row is target."""
    matrix = torch.eye(count, dtype=torch.float64)
    for (source, target), weight in as_dict(adjacency).items():
        matrix[target, source] += weight
    scale = matrix.sum(dim=1).rsqrt()
    return scale[:, None] * matrix * scale[None, :]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("senders", [80, 50])
def test_edges_are_normalised_once(rule, senders):
    adjacency = rule(unit_rows(80), torch.arange(80) < senders)
    matrix = torch.zeros(80, 80, dtype=torch.float64)
    matrix[adjacency.edge_index[1], adjacency.edge_index[0]] = adjacency.edge_weight.double()
    torch.testing.assert_close(matrix, explicit(adjacency, 80), atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("senders", [80, 50])
def test_the_graph_branch_is_two_layers_of_pyg(rule, senders):
    adjacency, z_text, n_id = (
        rule(unit_rows(80), torch.arange(80) < senders),
        torch.randn(3, 6),
        torch.tensor([7, 2, 70]),
    )
    branch = GraphBranch(adjacency, num_nodes=80, dim=6, features="learnable")
    x = branch.node_features.x.detach().clone()
    x[n_id] = z_text
    for mine in (branch.conv1, branch.conv2):
        torch.nn.init.normal_(mine.bias)
        theirs = GCNConv(6, 6, normalize=True)
        theirs.load_state_dict(mine.state_dict())
        x = theirs(x, adjacency.raw_index, adjacency.raw_weight)
        x = x.relu() if mine is branch.conv1 else x
    torch.testing.assert_close(branch(n_id, z_text), x[n_id], atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("rule", RULES)
def test_outside_rows_receive_and_never_send(rule):
    vectors, x = unit_rows(80), torch.randn(80, 3)
    inside = torch.arange(80) < 50
    adjacency, convs = rule(vectors, inside), [GCNConv(3, 3, normalize=False) for _ in range(2)]
    assert adjacency.raw_index[0].max() < 50
    assert adjacency.raw_index[1].max() >= 50
    before, changed = everywhere(adjacency, x, *convs), x.clone()
    changed[60] += 5
    after = everywhere(adjacency, changed, *convs)
    others = torch.arange(80) != 60
    assert torch.equal(after[others], before[others])
    assert not torch.equal(after[60], before[60])
    inner = everywhere(rule(vectors[:50], inside[:50]), x[:50], *convs)
    torch.testing.assert_close(before[:50], inner)


def test_equal_titles_have_k_neighbours_and_all_pass_the_threshold():
    vectors = torch.tensor([[0.6, 0.8]]).repeat(30, 1)
    nearest, similar = knn(vectors, everyone(30), 4), threshold(vectors, everyone(30), 0.9)
    received = torch.bincount(nearest.raw_index[1], minlength=30)
    assert received.min() >= 4
    assert not (nearest.raw_index[0] == nearest.raw_index[1]).any()
    assert len(as_dict(similar)) == 30 * 29
    assert similar.raw_weight.tolist() == pytest.approx([1.0] * 30 * 29)
    assert nearest.edge_weight.isfinite().all()


def test_titles_without_direction_and_reports_without_an_edge_stand_alone():
    vectors = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.0, -1.0]])
    adjacency = threshold(vectors, everyone(4), 0.5)
    assert as_dict(adjacency) == {(0, 1): 1.0, (1, 0): 1.0}
    convs = [GCNConv(1, 1, normalize=False) for _ in range(2)]
    for conv in convs:
        torch.nn.init.ones_(conv.lin.weight)
    out = everywhere(adjacency, torch.tensor([[2.0], [4.0], [5.0], [7.0]]), *convs)
    assert out.flatten().tolist() == pytest.approx([3, 3, 5, 7])
    isolated = knn(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), everyone(2), 1)  # opposite titles weigh nothing
    assert isolated.raw_index.shape == (2, 0)


@pytest.mark.parametrize("k", [0, 29, 50, -1])
def test_a_number_of_neighbours_that_there_cannot_be_is_refused(k):
    with pytest.raises(ValueError, match=f"graph.rule.k={k} must lie between 1 and 28, one less than the reports"):
        knn(unit_rows(50), torch.arange(50) < 29, k)


def test_more_edges_than_fit_are_refused():
    vectors = torch.tensor([[0.6, 0.8]]).repeat(30, 1)
    with pytest.raises(ValueError, match=r"graph.rule.cosine=0.9 gives more than 800 edges: raise it"):
        threshold(vectors, everyone(30), 0.9, max_edges=800)
    threshold(vectors, everyone(30), 0.9, max_edges=870)
