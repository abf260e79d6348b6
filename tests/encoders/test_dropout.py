"""Dropout and attention of training give PyTorch's numbers, gradients and random numbers, and store less."""

import pytest
import torch
from small_models import random_model
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.nn.functional import scaled_dot_product_attention

from gedbd.encoders.text_encoder import Dropout, TextEncoder, attention_with_dropout

RATE = 0.1


def stored(run) -> tuple[list[Tensor], int]:
    """Result, gradients and the next random number of a computation, and the bytes that its gradient needs."""
    sizes: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        sizes[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    torch.manual_seed(1)
    with saved_tensors_hooks(note, lambda tensor: tensor):
        result, inputs = run()
    random = torch.rand(1)
    gradients = torch.autograd.grad(result, inputs, torch.cos(torch.arange(result.numel())).view_as(result))
    return [result, *gradients, random], sum(sizes.values())


@pytest.mark.parametrize("lengths", [[3, 17, 33], [33, 33]])
def test_attention_is_pytorchs_to_the_bit(lengths):
    inputs = [torch.randn(len(lengths), 33, 4, 8).transpose(1, 2).requires_grad_() for _ in range(3)]
    mask = (torch.arange(33) < torch.tensor(lengths)[:, None])[:, None, None]

    def expected():
        return scaled_dot_product_attention(*inputs, attn_mask=mask, dropout_p=RATE, scale=8**-0.5), inputs

    theirs, their_bytes = stored(expected)
    mine, my_bytes = stored(lambda: (attention_with_dropout(*inputs, mask, RATE, 8**-0.5), inputs))
    assert all(map(torch.equal, mine, theirs))
    assert my_bytes < 0.7 * their_bytes


def test_dropout_is_pytorchs_to_the_bit():
    rows = torch.randn(1, 50, 16, requires_grad=True)
    theirs, their_bytes = stored(lambda: (nn.Dropout(RATE)(rows), [rows]))
    mine, my_bytes = stored(lambda: (Dropout(RATE)(rows), [rows]))
    assert all(map(torch.equal, mine, theirs))
    assert 4 * my_bytes <= their_bytes
    assert torch.equal(Dropout(RATE).eval()(rows), rows)


def test_every_dropout_of_a_backbone_is_replaced():
    encoder = TextEncoder(random_model("bert", 40, positions=22, dropout=RATE), "mean", dim=4)
    kinds = {type(module) for module in encoder.modules() if isinstance(module, nn.Dropout)}
    assert kinds == {Dropout}
