from math import comb

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch_geometric.nn import GCNConv

from gedbd.tasks.duplicates.graph.dense import DenseAdjacency, kernel, kernel_factor


def unit_rows(count: int, dim: int = 4, seed: int = 0) -> Tensor:
    return normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(seed)), dim=1)


def materialised(vectors: Tensor, inside: Tensor, power: int) -> Tensor:
    """The matrix itself, entry by entry as it is defined: who sends to whom, then D^-1/2 K D^-1/2."""
    double = vectors.double()
    weight = ((1 + double @ double.T) / 2) ** power
    weight[:, ~inside] = 0
    weight[~inside, ~inside] = 1
    scale = weight.sum(dim=1).rsqrt()
    return scale[:, None] * weight * scale[None, :]


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


@pytest.mark.parametrize("power", [1, 2, 3])
@pytest.mark.parametrize("scope", ["all", "train"])
def test_equals_the_materialised_matrix(power, scope):
    vectors, x = unit_rows(300), torch.randn(300, 7)
    inside = torch.ones(300, dtype=torch.bool) if scope == "all" else torch.arange(300) < 180
    expected = materialised(vectors, inside, power) @ x.double()
    torch.testing.assert_close(DenseAdjacency(vectors, inside, power)(x).double(), expected, atol=1e-6, rtol=1e-5)


def test_equals_the_materialised_matrix_of_two_thousand_reports():
    vectors, x = unit_rows(2000, 10), torch.randn(2000, 16)
    inside = torch.ones(2000, dtype=torch.bool)
    difference = DenseAdjacency(vectors, inside)(x) - materialised(vectors, inside, 1) @ x.double()
    assert difference.abs().max() < 1e-5


def test_two_reports_by_hand():
    vectors = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    adjacency = DenseAdjacency(vectors, torch.tensor([True, True]))
    out = adjacency(torch.tensor([[3.0], [6.0]]))
    assert out.flatten().tolist() == pytest.approx([(3 + 0.5 * 6) / 1.5, (0.5 * 3 + 6) / 1.5])
    alone = DenseAdjacency(vectors, torch.tensor([True, False]))
    out = alone(torch.tensor([[3.0], [6.0]]))
    assert out.flatten().tolist() == pytest.approx([3, 0.5 * 3 / 1.5**0.5 + 6 / 1.5])


def test_outside_rows_receive_and_never_send():
    vectors, x = unit_rows(50), torch.randn(50, 3)
    inside = torch.arange(50) < 30
    adjacency = DenseAdjacency(vectors, inside, power=2)
    before, changed = adjacency(x), x.clone()
    changed[40] += 5
    after = adjacency(changed)
    others = torch.arange(50) != 40
    assert torch.equal(after[others], before[others])
    assert (after[40] - before[40]).abs().min() > 0.1
    inner = DenseAdjacency(vectors[:30], inside[:30], power=2)(x[:30])
    torch.testing.assert_close(before[:30], inner)
    changed = x.clone()
    changed[5] += 5
    assert ((adjacency(changed) - before).abs().sum(dim=1) > 0).all()


def test_a_title_without_direction_is_half_similar_to_all():
    vectors = torch.cat([unit_rows(20), torch.zeros(2, 4)])
    inside, x = torch.ones(22, dtype=torch.bool), torch.randn(22, 3)
    adjacency = DenseAdjacency(vectors, inside)
    out = adjacency(x)
    assert out.isfinite().all()
    torch.testing.assert_close(out.double(), materialised(vectors, inside, 1) @ x.double(), atol=1e-6, rtol=1e-5)


def test_opposite_titles_do_not_break_the_degrees():
    vectors = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    out = DenseAdjacency(vectors, torch.tensor([True, True]))(torch.tensor([[3.0], [6.0]]))
    assert out.flatten().tolist() == pytest.approx([3, 6], abs=1e-5)


def test_convolution_is_that_of_pyg_on_the_whole_edge_list():
    vectors, x = unit_rows(40), torch.randn(40, 6)
    inside = torch.ones(40, dtype=torch.bool)
    weight = materialised(vectors, inside, 1).float()
    edge_index = torch.cartesian_prod(torch.arange(40), torch.arange(40)).T
    first, second = GCNConv(6, 5, normalize=False), GCNConv(5, 3, normalize=False)
    expected = x
    for conv in (first, second):
        torch.nn.init.normal_(conv.bias)
        expected = conv(expected, edge_index, weight[edge_index[1], edge_index[0]])
        expected = expected.relu() if conv is first else expected
    found = DenseAdjacency(vectors, inside).convolve(torch.zeros(40, 6), torch.arange(40), x, first, second)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
