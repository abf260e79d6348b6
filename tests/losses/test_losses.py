import math
from math import exp, log, nan

import pytest
import torch
from pytorch_metric_learning.losses import NTXentLoss, SupConLoss
from torch import nn
from torch.nn.functional import normalize

from gedbd.losses import (
    MAX_PER_ANCHOR,
    CosineEmbeddingLoss,
    MultipleNegativesLoss,
    StepLabels,
    SupervisedContrastiveLoss,
    TripletLoss,
    check_labels,
    info_nce,
    max_sim,
    pair_triplets,
)

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


def test_many_reports_are_taken_in_blocks(monkeypatch):
    monkeypatch.setattr("gedbd.losses.MAX_BLOCK_ROWS", 7)
    z, group = step(60, 0)
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
    with pytest.raises(ValueError, match="TripletLoss reads triplets, but batches: provides groups and pairs only"):
        check_labels(TripletLoss(), frozenset({"pairs", "groups"}))


def loss_of(loss: TripletLoss, z: torch.Tensor, triplets: list[list[int]]) -> torch.Tensor:
    return loss(z, StepLabels(NO_GROUPS, *NO_PAIRS, torch.tensor(triplets, dtype=torch.int64).reshape(-1, 3)))


def test_triplets_by_hand():
    """Distances from the first row: 5 (3-4-5 triangle), 1 and 2; by the 1-norm 7, 1 and 2."""
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    triplets = [[0, 1, 2], [0, 2, 1]]
    assert loss_of(TripletLoss(), z, triplets).item() == pytest.approx((5 - 1 + 0) / 2, abs=1e-4)
    assert loss_of(TripletLoss(p=1), z, triplets).item() == pytest.approx((7 - 1 + 0) / 2, abs=1e-4)
    assert loss_of(TripletLoss(margin=1.5), z, [[0, 2, 3]]).item() == pytest.approx(1 - 2 + 1.5, abs=1e-4)
    assert loss_of(TripletLoss(), z, []).item() == 0


@pytest.mark.parametrize(
    ("loss", "option", "value"),
    [*((CosineEmbeddingLoss, "margin", no_cosine) for no_cosine in (5.0, -1.1, nan)), (TripletLoss, "p", 0)],
)
def test_numbers_out_of_range_are_refused(loss, option, value):
    with pytest.raises(ValueError, match=rf"^loss\.{option}={value} must be "):
        loss(**{option: value})
    with pytest.raises(ValueError, match=r"^loss\.margin=-1 must be "):
        TripletLoss(margin=-1)


def test_pairs_with_a_report_in_common_form_triplets_of_bounded_number():
    index = torch.tensor([[0, 1, 3, 0], [1, 2, 0, 4]])
    label = torch.tensor([1, 0, 0, 1])
    # Duplicates 0-1 and 0-4, others 1-2 and 3-0: report 1 has duplicate 0, report 0 has duplicates 1 and 4.
    assert sorted(pair_triplets(index, label).tolist()) == [[0, 1, 3], [0, 4, 3], [1, 0, 2]]
    assert pair_triplets(index, torch.ones(4, dtype=torch.int64)).shape == (0, 3)
    # Report 0 is a duplicate of 1 to 8, and not one of 9 to 18.
    index = torch.stack([torch.zeros(18, dtype=torch.int64), torch.arange(1, 19)])
    label = (torch.arange(18) < 8).long()
    assert len(pair_triplets(index, label)) == MAX_PER_ANCHOR**2


T = 0.07


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def naive(anchor, positive, negatives):
    """-log of the share of the positive, one anchor at a time; ``negatives`` lists those of each anchor."""
    losses = []
    for a, p, others in zip(anchor.tolist(), positive.tolist(), negatives, strict=True):
        near = math.exp(cosine(a, p) / T)
        losses.append(-math.log(near / (near + sum(math.exp(cosine(a, n) / T) for n in others))))
    return losses


@pytest.fixture
def vectors():
    return torch.randn(3, 5), torch.randn(3, 5)


def test_shared_negatives_of_which_each_anchor_leaves_some_out(vectors):
    anchor, positive = vectors
    bank = torch.randn(4, 5)
    masked = torch.tensor([[True, False, False, False], [False] * 4, [False, True, True, False]])
    kept = [[row for row, gone in zip(bank.tolist(), gaps, strict=True) if not gone] for gaps in masked.tolist()]
    expected = naive(anchor, positive, kept)
    assert info_nce(anchor, positive, bank[None], T, masked).tolist() == pytest.approx(expected, rel=1e-4)


def test_without_negatives_the_loss_is_zero_and_has_a_gradient(vectors):
    anchor, positive = vectors
    anchor.requires_grad_(True)
    loss = info_nce(anchor, positive, torch.randn(1, 4, 5), T, torch.ones(3, 4, dtype=torch.bool))
    loss.sum().backward()
    assert loss.tolist() == [0.0] * 3
    assert anchor.grad is not None
    assert torch.equal(anchor.grad, torch.zeros(3, 5))


def test_bfloat16_is_computed_in_float32(vectors):
    anchor, positive = vectors
    with torch.autocast("cpu", torch.bfloat16):
        found = info_nce(anchor, positive, anchor.flip(0), T)
    assert torch.equal(found, info_nce(anchor, positive, anchor.flip(0), T))


def test_late_interaction_agrees_with_loops():
    query, document = torch.randn(3, 4, 6), torch.randn(3, 5, 6)
    lengths = [(4, 5), (2, 3), (1, 1)]
    in_query = torch.arange(4) < torch.tensor([[own] for own, _ in lengths])
    in_document = torch.arange(5) < torch.tensor([[own] for _, own in lengths])
    expected = [
        sum(max(cosine(q, d) for d in ds[:num_d]) for q in qs[:num_q])
        for (num_q, num_d), qs, ds in zip(lengths, query.tolist(), document.tolist(), strict=True)
    ]
    assert max_sim(query, document, in_query, in_document).tolist() == pytest.approx(expected, rel=1e-4)
