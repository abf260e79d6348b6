"""Two layers by hand, and the rows that a batch replaces."""

import pytest
import torch
from small_duplicates import everyone, unit_rows

from gedbd.duplicates.graph.adjacency import DenseAdjacency, SparseAdjacency
from gedbd.duplicates.graph.gcn import GraphBranch, NodeFeatures

N_ID = torch.tensor([5, 0, 9])


def test_two_layers_by_hand():
    branch = GraphBranch(SparseAdjacency(torch.tensor([[0, 1], [1, 0]]), torch.ones(2), 2), 2, 1, "text")
    for conv, weight, bias in ((branch.conv1, 2.0, -1.0), (branch.conv2, 3.0, 0.5)):
        torch.nn.init.constant_(conv.lin.weight, weight)
        torch.nn.init.constant_(conv.bias, bias)
    branch.node_features.write(torch.tensor([1]), torch.tensor([[4.0]]))
    # both nodes: mean(2 * 2, 2 * 4) - 1 = 5, then 3 * 5 + 0.5
    assert branch(torch.tensor([0]), torch.tensor([[2.0]])).item() == pytest.approx(15.5)
    # mean(2 * -20, 2 * 4) - 1 is negative: nothing passes the first layer
    assert branch(torch.tensor([0]), torch.tensor([[-20.0]])).item() == pytest.approx(0.5)


def test_the_graph_is_not_in_the_checkpoint_and_half_precision_is_not_its():
    branch = GraphBranch(DenseAdjacency(unit_rows(12), everyone(12)), 12, 4, "text")
    assert [name for name in branch.state_dict() if name.startswith("adjacency")] == []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert branch(N_ID, torch.randn(3, 4, dtype=torch.bfloat16)).dtype == torch.float32


ROWS = torch.tensor([4, 1])


def branch(features: str) -> GraphBranch:
    """Six reports in pairs (0, 1), (2, 3), (4, 5), which hand on the mean of the two; relu passes what is positive."""
    edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 0, 3, 2, 5, 4]])
    made = GraphBranch(SparseAdjacency(edges, torch.ones(6), 6), 6, 3, features)
    for conv in (made.conv1, made.conv2):
        torch.nn.init.eye_(conv.lin.weight)
    made.node_features.write(torch.arange(6), torch.arange(1.0, 19).reshape(6, 3))
    with torch.no_grad():
        made.node_features.x.abs_()
    return made


@pytest.mark.parametrize("features", ["learnable", "text", "written"])
def test_the_rows_of_the_batch_are_replaced_and_carry_gradient(features):
    graph = branch(features)
    before = graph.node_features.x.detach().clone()
    z_text = torch.rand(2, 3, requires_grad=True)
    out = graph(ROWS, z_text)
    # the mean of a pair, twice, is the mean: of the new row 4 with 5, of 0 with the new row 1
    torch.testing.assert_close(out, (z_text + before[[5, 0]]).detach() / 2)
    (out * torch.tensor([[4.0], [1.0]])).sum().backward()
    torch.testing.assert_close(z_text.grad, torch.tensor([[2.0] * 3, [0.5] * 3]))
    assert torch.equal(graph.node_features.x.detach(), before)


def test_learnable_rows_get_gradient_where_they_are_not_replaced():
    graph = branch("learnable")
    (graph(ROWS, torch.rand(2, 3)) * torch.tensor([[4.0], [1.0]])).sum().backward()
    expected = torch.tensor([0.5, 0, 0, 0, 0, 2])[:, None].expand(6, 3)
    torch.testing.assert_close(graph.node_features.x.grad, expected)


@pytest.mark.parametrize(
    ("features", "is_written", "is_parameter"),
    [("text", True, False), ("learnable", False, True), ("written", True, True)],
)
def test_writing_keeps_text_vectors_without_their_gradient(features, is_written, is_parameter):
    rows = NodeFeatures(6, 3, features)
    before = rows.x.detach().clone()
    assert is_parameter or torch.equal(before, torch.zeros(6, 3))
    z_text = torch.randn(2, 3, requires_grad=True)
    rows.write(ROWS, z_text * 2)
    assert torch.equal(rows.x[ROWS], 2 * z_text if is_written else before[ROWS])
    assert torch.equal(rows.x[[0, 2, 3, 5]], before[[0, 2, 3, 5]])
    assert [name for name, _ in rows.named_parameters()] == (["x"] if is_parameter else [])
    assert rows.x.grad_fn is None
    assert "x" in rows.state_dict()


def test_detached_rows_are_written_before_the_step_and_get_the_gradient_themselves():
    graph, z_text = branch("written_detached"), torch.rand(2, 3, requires_grad=True)
    before = graph.node_features.x.detach().clone()
    out = graph(ROWS, z_text)
    torch.testing.assert_close(out, (z_text.detach() + before[[5, 0]]) / 2)  # the means of two, as above
    assert torch.equal(graph.node_features.x[ROWS], z_text)
    (out * torch.tensor([[4.0], [1.0]])).sum().backward()
    assert z_text.grad is None
    expected = torch.tensor([0.5, 0.5, 0, 0, 2, 2])[:, None].expand(6, 3)
    torch.testing.assert_close(graph.node_features.x.grad, expected)


@pytest.mark.parametrize("features", ["written", "written_detached"])
def test_evaluation_writes_no_rows(features):
    graph = branch(features).eval()
    before = graph.node_features.x.detach().clone()
    graph(ROWS, torch.rand(2, 3))
    assert torch.equal(graph.node_features.x, before)


def test_unknown_features_are_refused():
    with pytest.raises(
        ValueError, match=r"graph.features=onehot is unknown: choose text, learnable, .* or written_detached"
    ):
        NodeFeatures(6, 3, "onehot")
