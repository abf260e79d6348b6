"""Attention that keeps less for its gradient gives PyTorch's numbers, to the last bit, and draws as PyTorch does."""

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import scaled_dot_product_attention

from gedbd.encoders.dropped_attention import attend_with_dropout, saves_memory

TEXTS, HEADS, LONGEST, SIZE = 3, 2, 20, 8


def inputs() -> list[Tensor]:
    """Query, key and value as heads of tokens that follow one another, and a gradient."""
    generator = torch.Generator().manual_seed(0)
    shape = (4, TEXTS, LONGEST, HEADS, SIZE)
    return list(torch.randn(shape, generator=generator).transpose(2, 3).unbind())


def mask_of(lengths: list[int]) -> Tensor:
    return (torch.arange(LONGEST) < torch.tensor(lengths)[:, None])[:, None, None]


@pytest.mark.parametrize("mask", [None, mask_of([20, 3, 1])], ids=["equal", "padded"])
@pytest.mark.parametrize("scale", [None, 0.3])
@pytest.mark.parametrize("dropout", [0.1, 0.5])
def test_results_gradients_and_draws_are_those_of_pytorch(mask, scale, dropout):
    found = []
    for ours in (True, False):
        query, key, value, grad = inputs()
        sides = [side.requires_grad_() for side in (query, key, value)]
        torch.manual_seed(1)
        if ours:
            out = attend_with_dropout(*sides, mask, scale, dropout)
        else:
            out = scaled_dot_product_attention(*sides, attn_mask=mask, dropout_p=dropout, scale=scale)
        found.append([out.detach(), *torch.autograd.grad(out, sides, grad), torch.rand(3)])
    torch.testing.assert_close(*found, rtol=0, atol=0)


def test_less_is_kept_for_the_gradient():
    held = []
    for attend in (attend_with_dropout, lambda q, k, v, *_: scaled_dot_product_attention(q, k, v, dropout_p=0.1)):
        sizes: dict[int, int] = {}

        def note(tensor: Tensor, sizes: dict[int, int] = sizes) -> Tensor:
            sizes[tensor.data_ptr()] = tensor.untyped_storage().nbytes()
            return tensor

        sides = [side.clone().requires_grad_() for side in inputs()[:3]]
        own = {side.data_ptr() for side in sides}
        with saved_tensors_hooks(note, lambda tensor: tensor):
            attend(*sides, None, None, 0.1)
        held.append(sum(size for place, size in sizes.items() if place not in own))
    weights = TEXTS * HEADS * LONGEST**2
    assert held[0] == 5 * weights
    assert held[1] >= 12 * weights


def test_it_is_for_training_in_single_precision_on_a_cpu():
    query = inputs()[0]
    assert saves_memory(query, 0.1)
    assert not saves_memory(query, 0.0)
    assert not saves_memory(query.bfloat16(), 0.1)
    with torch.no_grad():
        assert not saves_memory(query, 0.1)
    with torch.autocast("cpu"):
        assert not saves_memory(query, 0.1)
