"""The two towers with their momentum twins and memory banks, and the losses of a batch."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gedbd.encoders.code.code_inputs import CodeBatch
from gedbd.tasks.localization.data import PairBatch
from gedbd.tasks.localization.losses import BankKeys, Vectors, bank_loss, pair_loss
from gedbd.tasks.localization.model import Tower
from gedbd.tasks.localization.momentum import MemoryBank, MomentumTwin
from gedbd.tasks.localization.protocol import CandidateLinks
from gedbd.tasks.localization.settings import HmcblSettings
from gedbd.tasks.localization.sides import Side

Gather = Callable[[Tensor], Tensor]
"""Gives the rows of all processes, in the order of the processes."""


class Contrast(nn.Module):
    """One side: its tower and, for the bank level, its momentum twin and the bank of its keys.

    Args:
        side: The encoder.
        settings: See ``HmcblSettings``.
    """

    def __init__(self, side: Side, settings: HmcblSettings) -> None:
        super().__init__()
        self.tower = Tower(side, settings)
        self.has_bank = settings.bank_level > 0
        if not settings.projects:
            self.tower.projector.requires_grad_(False)
        if self.has_bank:
            self.twin = MomentumTwin(self.tower, settings.momentum)
            self.bank = MemoryBank(settings.bank_size, settings.dim)

    def follow(self) -> None:
        """Moves the twin after a step of the optimizer."""
        if self.has_bank:
            self.twin.follow(self.tower)

    @torch.no_grad()
    def keys(self, batch: CodeBatch) -> Tensor:
        """The momentum keys of a batch, ``(2B, dim)`` unit rows."""
        twin = self.twin.module
        assert isinstance(twin, Tower)
        # The twin of an encoder that is not trained is the encoder itself, which need not read the texts again.
        features = twin(batch) if self.tower.is_trained else self.tower(batch)
        return nn.functional.normalize(twin.projector(features), dim=1)


class HmcblNetwork(nn.Module):
    """Hierarchical momentum contrast of reports and changes.

    Source: "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization", 2023.

    Args:
        report_side: The encoder of reports.
        change_side: The encoder of changes.
        settings: See ``HmcblSettings``.
        links: Tells the negatives among the keys of the banks.

    Raises:
        ValueError: If the settings do not fit the encoders.
    """

    def __init__(self, report_side: Side, change_side: Side, settings: HmcblSettings, links: CandidateLinks) -> None:
        super().__init__()
        self.settings = settings
        self.reports = Contrast(report_side, settings)
        self.changes = Contrast(change_side, settings)
        self.links = links
        widths = self.reports.tower.width, self.changes.tower.width
        if "feature" in settings.weights and widths[0] != widths[1]:
            raise ValueError(
                f"the feature level compares features of one size, but those of reports have {widths[0]} numbers and"
                f" those of changes {widths[1]}: set task.model.settings.feature_level=0, or choose encoders of one"
                " width"
            )

    def losses(self, batch: PairBatch, gather: Gather, fill_banks: bool) -> dict[str, Tensor]:
        """The loss of each level, a scalar.

        The banks are read before this batch's keys enter them. All processes put the keys of all into their banks, in
        the same order, so that the banks stay equal.

        Args:
            batch: B pairs.
            gather: See ``Gather``.
            fill_banks: Whether the keys of the batch enter the banks.
        """
        t = self.settings.temperature
        report_features = self.reports.tower(batch.reports)
        change_features = self.changes.tower(batch.changes)
        found = {}
        if "feature" in self.settings.weights:
            found["feature"] = pair_loss(paired(report_features, change_features), t)
        if self.settings.projects:
            reports = self.reports.tower.projector(report_features)
            changes = self.changes.tower.projector(change_features)
        if self.settings.model_level > 0:
            found["model"] = pair_loss(paired(reports, changes), t)
        if self.settings.bank_level > 0:
            found["bank"] = self._bank_loss(batch, reports, changes, gather, fill_banks)
        return found

    def _bank_loss(
        self, batch: PairBatch, reports: Tensor, changes: Tensor, gather: Gather, fill_banks: bool
    ) -> Tensor:
        """The loss of the bank level."""
        count = len(batch.report_rows) // 2
        report_keys = self.reports.keys(batch.reports)
        change_keys = self.changes.keys(batch.changes)
        report_rows = batch.report_rows[:count, None]
        commit_rows = batch.commit_rows[:count, None]
        # The banks are filled in place, and the gradient needs the keys as they were.
        to_changes = BankKeys(
            change_keys[:count],
            self.changes.bank.keys.clone(),
            ~self.links.are_negatives(report_rows, self.changes.bank.rows),
        )
        to_reports = BankKeys(
            report_keys[:count],
            self.reports.bank.keys.clone(),
            ~self.links.are_negatives(self.reports.bank.rows, commit_rows),
        )
        if fill_banks:
            self._fill(self.reports.bank, report_keys, batch.report_rows, gather)
            self._fill(self.changes.bank, change_keys, batch.commit_rows, gather)
        return bank_loss(reports[:count], changes[:count], to_changes, to_reports, self.settings.temperature)

    def _fill(self, bank: MemoryBank, keys: Tensor, rows: Tensor, gather: Gather) -> None:
        """Puts the keys of positives, then those of negatives, of all processes into a bank."""
        count = len(keys) // 2
        for half in (slice(count), slice(count, None)):
            bank.add(gather(keys[half]), gather(rows[half]))

    def follow(self) -> None:
        """Moves both momentum twins."""
        self.reports.follow()
        self.changes.follow()


def paired(reports: Tensor, changes: Tensor) -> Vectors:
    """The vectors of B pairs and of their negatives, which come after them."""
    report, other_report = reports.chunk(2)
    change, other_change = changes.chunk(2)
    return Vectors(report, change, other_report, other_change)
