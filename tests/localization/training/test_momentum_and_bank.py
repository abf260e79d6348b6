import math

import numpy as np
import pytest
import torch
from torch import nn

from gedbd.localization.training.hmcbl_network import (
    EMPTY,
    BankKeys,
    MemoryBank,
    MomentumTwin,
    bank_loss,
    pair_loss,
)
from gedbd.localization.training.tower import HmcblSettings, TokenFeatures

T = 0.07


def naive(anchor, positive, negatives):
    """InfoNCE of one anchor, from cosines."""
    rows = [positive, *negatives]
    near, *others = (math.exp(float(nn.functional.cosine_similarity(anchor, row, 0)) / T) for row in rows)
    return -math.log(near / (near + sum(others)))


def test_pair_loss_is_the_mean_of_both_directions():
    report, change, other_report, other_change = torch.randn(4, 3, 6)
    expected = [
        *(naive(report[i], change[i], [other_change[i]]) for i in range(3)),
        *(naive(change[i], report[i], [other_report[i]]) for i in range(3)),
    ]
    loss = pair_loss(torch.cat([report, other_report]), torch.cat([change, other_change]), T)
    assert float(loss) == pytest.approx(np.mean(expected), rel=1e-4)
    loss = pair_loss(torch.cat([report, other_report]), torch.cat([change, other_change]), T, both_directions=False)
    assert float(loss) == pytest.approx(np.mean(expected[:3]), rel=1e-4)


def test_late_interaction_sums_over_the_tokens_of_the_text_that_looks():
    kept = torch.tensor([[True, True], [True, False]])
    # A report of two tokens and another report of one; a change of one token and another change of two.
    reports = TokenFeatures(torch.tensor([[[1.0, 0], [0, 1]], [[0, 1], [9, 9]]]), kept)
    changes = TokenFeatures(torch.tensor([[[0.6, 0.8], [0, 1]], [[0.8, 0.6], [1, 0]]]), kept.flip(0))
    # The report: .6 + .8 with its change, 1 + .6 with the other. The change: .8 with its report, .8 with the other.
    to_changes = np.log(1 + np.exp((1.6 - 1.4) / T))
    to_reports = np.log(2)
    assert float(pair_loss(reports, changes, T, both_directions=False)) == pytest.approx(to_changes, rel=1e-4)
    assert float(pair_loss(reports, changes, T)) == pytest.approx((to_changes + to_reports) / 2, rel=1e-4)


def test_bank_loss_takes_momentum_keys_and_leaves_masked_ones_out():
    report, change, change_key, report_key = torch.randn(4, 2, 6)
    banks = torch.randn(2, 5, 6)
    masked = torch.tensor([[True, False, False, True, False], [False, False, False, False, True]])
    expected = []
    for anchor, key, bank in ((report, change_key, banks[0]), (change, report_key, banks[1])):
        for i in range(2):
            kept = [row for row, gone in zip(bank, masked[i].tolist(), strict=True) if not gone]
            expected.append(naive(anchor[i], key[i], kept))
    changes = BankKeys(change_key, banks[0], masked)
    reports = BankKeys(report_key, banks[1], masked)
    assert float(bank_loss(report, change, changes, reports, T)) == pytest.approx(np.mean(expected), rel=1e-4)


def test_bank_is_first_in_first_out():
    bank = MemoryBank(5, 1)
    assert bank.rows.tolist() == [EMPTY] * 5
    bank.add(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([11, 12, 13]))
    assert bank.rows.tolist() == [11, 12, 13, EMPTY, EMPTY]
    bank.add(torch.tensor([[4.0], [5.0], [6.0], [7.0]]), torch.tensor([14, 15, 16, 17]))
    assert bank.rows.tolist() == [16, 17, 13, 14, 15]
    assert bank.keys[:, 0].tolist() == [6, 7, 3, 4, 5]
    assert int(bank.place) == 2
    bank.add(torch.arange(10.0, 17)[:, None], torch.arange(20, 27))
    assert sorted(bank.rows.tolist()) == [22, 23, 24, 25, 26]


@pytest.mark.parametrize("momentum", [0.999, 0.0])  # with 0 the twin is the module itself
def test_twin_moves_by_the_momentum_and_copies_buffers(momentum):
    followed = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    nn.init.constant_(followed[0].weight, 1.0)
    twin = MomentumTwin(followed, momentum)
    with torch.no_grad():
        followed[0].weight.fill_(3.0)
    followed(torch.randn(8, 1))
    for steps in range(1, 4):
        twin.follow(followed)
        # 1 = 3 - 2: after n steps 2 * 0.999^n is left of the distance.
        assert float(twin.module[0].weight) == pytest.approx(3 - 2 * momentum**steps, abs=1e-6)
    assert torch.equal(twin.module[1].running_mean, followed[1].running_mean)
    assert int(twin.module[1].num_batches_tracked) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"pooling": "max"}, "pooling=max is unknown"),
        ({"similarity": "dot"}, "similarity=dot is unknown: choose cosine or max_sim"),
        ({"similarity": "max_sim", "pooling": "cls"}, "set pooling=mean and train_encoders=true"),
        ({"similarity": "max_sim", "train_encoders": False}, "set pooling=mean and train_encoders=true"),
        ({"feature_level": 0, "model_level": 0, "bank_level": 0}, "must be above 0"),
        ({"train_encoders": False, "model_level": 0, "bank_level": 0}, "one of task.model.settings.model_level and"),
    ],
)
def test_mistakes_are_told(options, message):
    with pytest.raises(ValueError, match=message):
        HmcblSettings(**options)
