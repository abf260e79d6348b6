import pytest
import torch
from torch.nn.functional import normalize

from gedbd.duplicates.graph.gcn import Concat, TextOnly, TrainingOnly, WeightedSum

TEXT, GRAPH = torch.tensor([[4.0, 0.0], [1.0, 1.0]]), torch.tensor([[0.0, 3.0], [1.0, -1.0]])


@pytest.mark.parametrize(
    ("lambda_text", "expected"),
    [(1.0, [[1, 0], [0.5**0.5, 0.5**0.5]]), (0.0, [[0, 1], [0.5**0.5, -(0.5**0.5)]]), (0.5, [[0.8, 0.6], [1, 0]])],
)
def test_weighted_sum_by_hand(lambda_text, expected):
    torch.testing.assert_close(WeightedSum(lambda_text)(TEXT, GRAPH), torch.tensor(expected, dtype=torch.float32))


def test_concat_starts_as_the_mean_and_can_learn_something_else():
    concat, z_text, z_graph = Concat(5), torch.randn(7, 5), torch.randn(7, 5)
    torch.testing.assert_close(concat(z_text, z_graph), WeightedSum(0.5)(z_text, z_graph))
    torch.testing.assert_close(concat.linear(torch.cat([z_text, z_graph], dim=1)), (z_text + z_graph) / 2)
    with torch.no_grad():
        concat.linear.weight.copy_(torch.randn(5, 10))
        concat.linear.bias.copy_(torch.randn(5))
    left, right = concat.linear.weight[:, :5], concat.linear.weight[:, 5:]
    expected = normalize(z_text @ left.T + z_graph @ right.T + concat.linear.bias, dim=1)
    torch.testing.assert_close(concat(z_text, z_graph), expected)


def test_the_text_alone_ignores_the_graph_always_or_in_evaluation():
    assert torch.equal(TextOnly()(TEXT), normalize(TEXT, dim=1))
    assert torch.equal(TextOnly()(TEXT, GRAPH), TextOnly()(TEXT))
    assert [fusion.uses_graph for fusion in (TextOnly, WeightedSum, Concat)] == [False, True, True]
    fusion = TrainingOnly(0.3)
    assert torch.equal(fusion(TEXT, GRAPH), WeightedSum(0.3)(TEXT, GRAPH))
    assert torch.equal(fusion.eval()(TEXT, GRAPH), TextOnly()(TEXT))
    assert fusion.uses_graph
