import pytest
import torch
from small_graphs import everyone, unit_rows

from gedbd.duplicates.adjacency import DenseAdjacency, SparseAdjacency, knn
from gedbd.duplicates.gcn import GraphBranch

N_ID = torch.tensor([5, 0, 9])


def build(rule: str, features: str, **options) -> GraphBranch:
    ends = unit_rows(12), everyone(12)
    return GraphBranch(DenseAdjacency(*ends) if rule == "dense" else knn(*ends, 3), 12, 4, features, **options)


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


@pytest.mark.parametrize("rule", ["dense", "knn"])
@pytest.mark.parametrize("features", ["learnable", "text"])
def test_gradient_reaches_all_weights_and_a_forward_changes_no_state_nor_the_order_of_rows(rule, features):
    branch, z_text = build(rule, features), torch.randn(3, 4, requires_grad=True)
    before = {name: value.clone() for name, value in branch.state_dict().items()}
    first = branch(N_ID, z_text)
    first.square().sum().backward()
    assert z_text.grad.abs().sum() > 0
    assert all(value.grad is not None for value in branch.parameters())
    torch.testing.assert_close(branch.eval()(N_ID.flip(0), z_text.flip(0)), first.flip(0))
    assert all(torch.equal(value, before[name]) for name, value in branch.state_dict().items())


@pytest.mark.parametrize("rule", ["dense", "knn"])
def test_dropout_is_of_training_alone(rule):
    branch, z_text = build(rule, "learnable", dropout=0.5, bias=False), torch.randn(3, 4)
    assert not torch.equal(branch(N_ID, z_text), branch(N_ID, z_text))
    branch.eval()
    assert torch.equal(branch(N_ID, z_text), branch(N_ID, z_text))
    assert [name for name, _ in branch.named_parameters() if "bias" in name] == []


def test_the_graph_is_not_in_the_checkpoint_and_half_precision_is_not_its():
    branch = build("dense", "text")
    assert [name for name in branch.state_dict() if name.startswith("adjacency")] == []
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert branch(N_ID, torch.randn(3, 4, dtype=torch.bfloat16)).dtype == torch.float32
