import pytest
import torch
from torch.nn import CosineEmbeddingLoss

from gedbd.losses import cosine_embedding

Z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.0, 2.0], [-3.0, 0.0]])


@pytest.mark.parametrize(
    ("pair", "label", "margin", "expected"),
    [
        ((0, 1), 1, 0.5, 1 - 0.6),
        ((0, 3), 1, 0.5, 2.0),
        ((0, 1), 0, 0.5, 0.6 - 0.5),
        ((1, 2), 0, 0.5, 0.8 - 0.5),
        ((0, 2), 0, 0.5, 0.0),
        ((0, 2), 0, -0.5, 0.5),
        ((0, 0), 0, 0.0, 1.0),
    ],
)
def test_a_pair_by_hand(pair, label, margin, expected):
    loss = cosine_embedding(Z, torch.tensor(pair)[:, None], torch.tensor([label]), margin)
    assert loss.item() == pytest.approx(expected, abs=1e-6)


def test_the_mean_over_pairs():
    index = torch.tensor([[0, 0, 0], [1, 1, 2]])
    loss = cosine_embedding(Z, index, torch.tensor([1, 0, 0]), margin=0.5)
    assert loss.item() == pytest.approx((0.4 + 0.1 + 0.0) / 3, abs=1e-6)


@pytest.mark.parametrize("margin", [-1.0, 0.0, 0.5, 0.9])
def test_agrees_with_torch_in_value_and_gradient(margin):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(20, 8, generator=generator, requires_grad=True)
    index = torch.randint(20, (2, 50), generator=generator)
    label = torch.randint(2, (50,), generator=generator)
    mine = cosine_embedding(z, index, label, margin)
    theirs = CosineEmbeddingLoss(margin=margin)(z[index[0]], z[index[1]], torch.where(label == 1, 1, -1))
    assert torch.equal(mine, theirs)
    (gradient,) = torch.autograd.grad(mine, z)
    assert torch.equal(gradient, torch.autograd.grad(theirs, z)[0])
    assert gradient.abs().sum() > 0
