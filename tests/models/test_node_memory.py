import pytest
import torch

from gedbd.models.node_memory import NodeMemory

N_ID = torch.tensor([4, 1])


@pytest.mark.parametrize("features", ["learnable", "text"])
def test_the_rows_of_the_batch_are_replaced_and_carry_gradient(features):
    memory = NodeMemory(6, 3, features)
    memory.write(torch.arange(6), torch.arange(18.0).reshape(6, 3))
    before = memory.x.detach().clone()
    z_text = torch.randn(2, 3, requires_grad=True)
    x = memory(N_ID, z_text)
    expected = before.clone()
    expected[4], expected[1] = z_text.detach()
    assert torch.equal(x, expected)
    (x * torch.arange(6.0)[:, None]).sum().backward()
    assert z_text.grad.tolist() == [[4.0] * 3, [1.0] * 3]
    assert torch.equal(memory.x.detach(), before)


def test_learnable_rows_get_gradient_where_they_are_not_replaced():
    memory = NodeMemory(6, 3, "learnable")
    (memory(N_ID, torch.randn(2, 3)) * torch.arange(1.0, 7)[:, None]).sum().backward()
    assert memory.x.grad.tolist() == [[g] * 3 for g in (1.0, 0.0, 3.0, 4.0, 0.0, 6.0)]


def test_text_rows_start_at_zero_are_no_parameters_and_are_saved():
    memory = NodeMemory(6, 3, "text")
    assert list(memory.parameters()) == []
    assert memory.state_dict()["x"].tolist() == [[0.0] * 3] * 6


def test_writing_keeps_text_vectors_without_their_gradient():
    memory = NodeMemory(6, 3, "text")
    z_text = torch.randn(2, 3, requires_grad=True)
    memory.write(N_ID, z_text * 2)
    assert torch.equal(memory.x[N_ID], 2 * z_text)
    assert memory.x[[0, 2, 3, 5]].abs().sum() == 0
    assert not memory.x.requires_grad


def test_writing_after_a_forward_does_not_disturb_its_gradient():
    memory = NodeMemory(6, 3, "text")
    z_text = torch.randn(2, 3, requires_grad=True)
    loss = memory(N_ID, z_text).square().sum()
    memory.write(N_ID, z_text)
    loss.backward()
    torch.testing.assert_close(z_text.grad, 2 * z_text.detach())


def test_learnable_rows_are_left_to_the_optimizer():
    memory = NodeMemory(6, 3, "learnable")
    before = memory.x.detach().clone()
    memory.write(N_ID, torch.ones(2, 3))
    assert torch.equal(memory.x, before)


def test_half_precision_text_vectors_find_their_place():
    memory = NodeMemory(6, 3, "text")
    memory.write(N_ID, torch.ones(2, 3, dtype=torch.bfloat16))
    assert memory(N_ID, torch.full((2, 3), 2.0, dtype=torch.bfloat16)).dtype == torch.float32
    assert memory.x[N_ID].tolist() == [[1.0] * 3] * 2


def test_unknown_features_are_refused():
    with pytest.raises(ValueError, match=r"graph.features=onehot is unknown: choose learnable or text"):
        NodeMemory(6, 3, "onehot")
