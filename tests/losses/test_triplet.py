import pytest
import torch
from torch import nn

from gedbd.losses.loss import StepLabels, check_labels
from gedbd.losses.triplet import TripletLoss
from gedbd.retrieval.vectors import MAX_PER_ANCHOR, pair_triplets

NONE = torch.empty(0, dtype=torch.int64)
NO_PAIRS = (NONE, torch.empty((2, 0), dtype=torch.int64), NONE)


def loss_of(loss: TripletLoss, z: torch.Tensor, triplets: list[list[int]]) -> torch.Tensor:
    return loss(z, StepLabels(*NO_PAIRS, torch.tensor(triplets, dtype=torch.int64).reshape(-1, 3)))


def test_triplets_by_hand():
    """Distances from the first row: 5 (3-4-5 triangle), 1 and 2; by the 1-norm 7, 1 and 2."""
    z = torch.tensor([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0], [0.0, 2.0]])
    triplets = [[0, 1, 2], [0, 2, 1]]
    assert loss_of(TripletLoss(), z, triplets).item() == pytest.approx((5 - 1 + 0) / 2, abs=1e-4)
    assert loss_of(TripletLoss(p=1), z, triplets).item() == pytest.approx((7 - 1 + 0) / 2, abs=1e-4)
    assert loss_of(TripletLoss(margin=1.5), z, [[0, 2, 3]]).item() == pytest.approx(1 - 2 + 1.5, abs=1e-4)
    assert loss_of(TripletLoss(), z, []).item() == 0


@pytest.mark.parametrize("margin", [0.1, 0.5])
def test_agrees_with_torch(margin):
    z = torch.randn(30, 6, requires_grad=True)
    triplets = torch.randint(30, (40, 3))
    mine = TripletLoss(margin)(z, StepLabels(*NO_PAIRS, triplets))
    theirs = nn.TripletMarginLoss(margin=margin)(*z[triplets.T])
    assert mine.item() == pytest.approx(theirs.item(), abs=1e-6)
    (gradient,) = torch.autograd.grad(mine, z)
    torch.testing.assert_close(gradient, torch.autograd.grad(theirs, z)[0])


@pytest.mark.parametrize(("option", "value"), [("margin", -1), ("p", 0)])
def test_numbers_out_of_range_are_refused(option, value):
    with pytest.raises(ValueError, match=rf"loss\.{option}={value} must be"):
        TripletLoss(**{option: value})


def test_batches_without_triplets_are_refused():
    with pytest.raises(ValueError, match="TripletLoss reads triplets, but batches: provides groups and pairs only"):
        check_labels(TripletLoss(), frozenset({"pairs", "groups"}))


def test_pairs_with_a_report_in_common_form_triplets():
    index = torch.tensor([[0, 1, 3, 0], [1, 2, 0, 4]])
    label = torch.tensor([1, 0, 0, 1])
    # Duplicates 0-1 and 0-4, others 1-2 and 3-0: report 1 has duplicate 0, report 0 has duplicates 1 and 4.
    assert sorted(pair_triplets(index, label).tolist()) == [[0, 1, 3], [0, 4, 3], [1, 0, 2]]
    assert pair_triplets(index, torch.ones(4, dtype=torch.int64)).shape == (0, 3)


def test_a_report_of_a_large_group_gives_a_bounded_number_of_triplets():
    # Report 0 is a duplicate of 1 to 8, and not one of 9 to 18.
    index = torch.stack([torch.zeros(18, dtype=torch.int64), torch.arange(1, 19)])
    label = (torch.arange(18) < 8).long()
    assert len(pair_triplets(index, label)) == MAX_PER_ANCHOR**2
