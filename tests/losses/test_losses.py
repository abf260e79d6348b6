from math import exp, log, nan

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss, SupConLoss
from torch import nn
from torch.nn.functional import normalize

from gedbd.losses.cosine_embedding import CosineEmbeddingLoss
from gedbd.losses.loss import StepLabels, check_labels
from gedbd.losses.multiple_negatives import MultipleNegativesLoss
from gedbd.losses.supervised_contrastive import SupervisedContrastiveLoss

NO_GROUPS = torch.empty(0)
NO_PAIRS = torch.empty(2, 0, dtype=torch.int64), torch.empty(0)
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
    loss = CosineEmbeddingLoss(margin)(Z, StepLabels(NO_GROUPS, torch.tensor(pair)[:, None], torch.tensor([label])))
    assert loss.item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("margin", [5.0, -1.1, nan])
def test_a_margin_that_is_no_cosine_is_refused(margin):
    with pytest.raises(ValueError, match=rf"^loss\.margin={margin} must be from -1 to 1$"):
        CosineEmbeddingLoss(margin)


def test_the_mean_over_pairs():
    index = torch.tensor([[0, 0, 0], [1, 1, 2]])
    loss = CosineEmbeddingLoss(0.5)(Z, StepLabels(NO_GROUPS, index, torch.tensor([1, 0, 0])))
    assert loss.item() == pytest.approx((0.4 + 0.1 + 0.0) / 3, abs=1e-6)


@pytest.mark.parametrize("margin", [-1.0, 0.0, 0.5, 0.9])
def test_agrees_with_torch_in_value_and_gradient(margin):
    generator = torch.Generator().manual_seed(0)
    z = torch.randn(20, 8, generator=generator, requires_grad=True)
    index = torch.randint(20, (2, 50), generator=generator)
    label = torch.randint(2, (50,), generator=generator)
    mine = CosineEmbeddingLoss(margin)(z, StepLabels(NO_GROUPS, index, label))
    theirs = nn.CosineEmbeddingLoss(margin=margin)(z[index[0]], z[index[1]], torch.where(label == 1, 1, -1))
    assert torch.equal(mine, theirs)
    (gradient,) = torch.autograd.grad(mine, z)
    assert torch.equal(gradient, torch.autograd.grad(theirs, z)[0])
    assert gradient.abs().sum() > 0


# ---- losses that read groups


def step(count: int, seed: int, double: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit rows and groups of one to five reports, in random order."""
    generator = torch.Generator().manual_seed(seed)
    z = torch.randn(count, 6, generator=generator, dtype=torch.float64 if double else torch.float32)
    return normalize(z, dim=1).requires_grad_(), torch.randint(count // 2, (count,), generator=generator)


def test_supervised_contrastive_by_hand():
    """Reports 0 and 1 are one group, 2 and 3 stand alone; cosines .6, .8, 0 with the first, .96, .8 with the second."""
    z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [0.0, 1.0]])
    first = -log(exp(0.6 / 0.5) / (exp(0.6 / 0.5) + exp(0.8 / 0.5) + exp(0.0)))
    second = -log(exp(0.6 / 0.5) / (exp(0.6 / 0.5) + exp(0.96 / 0.5) + exp(0.8 / 0.5)))
    group = torch.tensor([4, 4, 7, 9])
    expected = pytest.approx((first + second) / 2, abs=1e-6)
    assert SupervisedContrastiveLoss(0.5)(z, StepLabels(group, *NO_PAIRS)).item() == expected
    assert MultipleNegativesLoss(0.5)(z, StepLabels(group, *NO_PAIRS)).item() == expected  # nothing to mask in a pair


def test_the_rest_of_a_group_is_positive_of_one_loss_and_masked_in_the_other():
    """Three of a group and one alone; cosines with the first .6 and .8, and 0 with the one alone."""
    z = torch.tensor([[1.0, 0.0], [0.6, 0.8], [0.8, 0.6], [0.0, -1.0]])
    group = torch.tensor([1, 1, 1, 2])
    s = z @ z.T
    contrastive, masked = [], []
    for i in range(3):
        every = sum(exp(s[i, a]) for a in range(4) if a != i)
        positives = [p for p in range(3) if p != i]
        contrastive.append(-sum(log(exp(s[i, p]) / every) for p in positives) / 2)
        masked += [-log(exp(s[i, p]) / (exp(s[i, p]) + exp(s[i, 3]))) for p in positives]
    assert SupervisedContrastiveLoss(1.0)(z, StepLabels(group, *NO_PAIRS)).item() == pytest.approx(
        sum(contrastive) / 3, abs=1e-6
    )
    assert MultipleNegativesLoss(1.0)(z, StepLabels(group, *NO_PAIRS)).item() == pytest.approx(
        sum(masked) / 6, abs=1e-6
    )


@pytest.mark.parametrize(
    ("mine", "theirs"), [(SupervisedContrastiveLoss, SupConLoss), (MultipleNegativesLoss, NTXentLoss)]
)
@pytest.mark.parametrize("temperature", [0.07, 0.5])
@pytest.mark.parametrize("count", [8, 64])
def test_agrees_with_pytorch_metric_learning(mine, theirs, temperature, count):
    for seed in range(5):
        z, group = step(count, seed)
        value, expected = mine(temperature)(z, StepLabels(group, *NO_PAIRS)), theirs(temperature=temperature)(z, group)
        assert value.item() == pytest.approx(expected.item(), abs=1e-6)
        gradient, other = (torch.autograd.grad(loss, z)[0] for loss in (value, expected))
        along = (gradient * z).sum(1, keepdim=True) * z  # theirs scales rows to length 1 itself, which takes this away
        torch.testing.assert_close(gradient - along, other, rtol=0, atol=1e-6)


def test_thousands_of_reports_are_taken_in_blocks():
    z, group = step(2500, 0)
    expected = SupConLoss(temperature=0.07)(z, group).item()
    assert SupervisedContrastiveLoss(0.07)(z, StepLabels(group, *NO_PAIRS)).item() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("loss", [SupervisedContrastiveLoss, MultipleNegativesLoss])
def test_steps_without_positives_or_without_negatives_do_no_harm(loss):
    z, _ = step(5, 0, double=False)
    for group in (torch.arange(5), torch.zeros(5, dtype=torch.int64)):
        value = loss(0.07)(z, StepLabels(group, *NO_PAIRS))
        (gradient,) = torch.autograd.grad(value, z)
        assert value.isfinite()
        assert gradient.isfinite().all()
    assert loss(0.07)(z, StepLabels(torch.arange(5), *NO_PAIRS)).item() == 0


@pytest.mark.parametrize("loss", [SupervisedContrastiveLoss, MultipleNegativesLoss])
def test_mixed_precision_does_not_round_the_similarities(loss):
    z, group = step(40, 0, double=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = loss(0.07)(z, StepLabels(group, *NO_PAIRS))
    assert mixed.item() == pytest.approx(loss(0.07)(z, StepLabels(group, *NO_PAIRS)).item(), abs=1e-6)


def test_batches_without_the_labels_of_a_loss_are_refused():
    check_labels(CosineEmbeddingLoss(0.5), frozenset({"pairs", "groups"}))
    with pytest.raises(ValueError, match="SupervisedContrastiveLoss reads groups, but batches: provides pairs only"):
        check_labels(SupervisedContrastiveLoss(0.07), frozenset({"pairs"}))
