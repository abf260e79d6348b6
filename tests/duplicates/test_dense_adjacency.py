from math import comb

import pytest
import torch
from small_graphs import dense_matrix, everyone, unit_rows

from gedbd.duplicates.adjacency import DenseAdjacency, kernel, kernel_factor


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


def test_power_zero_ties_every_two_reports_alike():
    x = torch.randn(60, 3)
    out = DenseAdjacency(unit_rows(60), everyone(60), power=0)(x)
    torch.testing.assert_close(out, x.mean(dim=0).expand(60, 3), atol=1e-6, rtol=1e-5)


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
