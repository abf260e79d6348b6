"""The losses of hierarchical momentum contrast, from vectors alone."""

from typing import NamedTuple

import torch
from torch import Tensor

from gedbd.losses.info_nce import info_nce


class Vectors(NamedTuple):
    """Vectors of B anchors, their positives and one negative of each, ``(B, D)``."""

    report: Tensor
    change: Tensor
    other_report: Tensor
    other_change: Tensor


class BankKeys(NamedTuple):
    """Keys of one side.

    Attributes:
        positives: ``(B, D)`` the momentum keys of the positives.
        bank: ``(K, D)`` the keys of a memory bank.
        masked: ``(B, K)`` bool, keys of the bank that are no negatives of an anchor.
    """

    positives: Tensor
    bank: Tensor
    masked: Tensor


def pair_loss(vectors: Vectors, temperature: float) -> Tensor:
    """The loss of the feature level or of the model level, a scalar.

    InfoNCE with one negative, from reports to changes and from changes to reports; the mean of both.
    """
    to_changes = info_nce(vectors.report, vectors.change, vectors.other_change, temperature)
    to_reports = info_nce(vectors.change, vectors.report, vectors.other_report, temperature)
    return torch.cat([to_changes, to_reports]).mean()


def bank_loss(report: Tensor, change: Tensor, changes: BankKeys, reports: BankKeys, temperature: float) -> Tensor:
    """The loss of the bank level, a scalar.

    InfoNCE of a query and the momentum key of its positive; the negatives are the keys of the memory bank. The paper
    prints exp(s_b+ / t) + exp(s_m- / t) as the numerator. With a negative there, the loss would fall as the negative
    comes nearer, and could fall below 0: we take it for a misprint of exp(s_b+ / t), as in MoCo.

    Args:
        report: ``(B, D)`` projected reports.
        change: ``(B, D)`` projected positives.
        changes: Keys of changes, for the reports.
        reports: Keys of reports, for the changes.
        temperature: Divisor of the cosines.
    """
    to_changes = info_nce(report, changes.positives, changes.bank[None], temperature, changes.masked)
    to_reports = info_nce(change, reports.positives, reports.bank[None], temperature, reports.masked)
    return torch.cat([to_changes, to_reports]).mean()
