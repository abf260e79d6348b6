"""Hierarchical momentum contrast: settings, the towers with momentum twins and memory banks, and the losses."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn

from gedbd.corpora.corpus import ChangeCorpus
from gedbd.localization.code_encoder.code_inputs import CodeBatch
from gedbd.localization.training.change_inputs import Side
from gedbd.localization.training.localization_data import PairBatch, num_before
from gedbd.localization.training.tower import HmcblSettings, TokenFeatures, Tower
from gedbd.losses import info_nce, info_nce_of_scores, max_sim

EMPTY = -1
Gather = Callable[[Tensor], Tensor]
"""Returns the rows of all processes, in their order."""


class MomentumTwin(nn.Module):
    """A copy of a module with an exponential moving average of its weights: new = m * old + (1 - m) * current.

    He et al., "Momentum Contrast", 2020. The twin has no gradients, and stays in evaluation mode, so that a key depends
    on its text alone. Buffers, such as the statistics of batch normalization, are copied: they are running means
    already.
    """

    def __init__(self, source: nn.Module, momentum: float) -> None:
        super().__init__()
        self.module = copy.deepcopy(source).requires_grad_(False)
        self.momentum = momentum
        self.train(False)

    def train(self, mode: bool = True) -> Self:
        """Stays in evaluation mode."""
        return super().train(False)

    @torch.no_grad()
    def follow(self, source: nn.Module) -> None:
        """Moves the weights towards those of a module, and copies its buffers."""
        for weight, target in zip(self.module.parameters(), source.parameters(), strict=True):
            weight.lerp_(target.to(weight), 1 - self.momentum)
        for buffer, target_buffer in zip(self.module.buffers(), source.buffers(), strict=True):
            buffer.copy_(target_buffer)


class MemoryBank(nn.Module):
    """A queue of the last keys of a momentum twin. He et al., "Momentum Contrast", 2020."""

    keys: Tensor  # ``(K, D)`` unit rows
    rows: Tensor  # ``(K,)`` rows of the keys in the corpus; ``EMPTY`` without a key
    place: Tensor  # ``()`` position of the next key

    def __init__(self, size: int, dim: int) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(size, dim))
        self.register_buffer("rows", torch.full((size,), EMPTY))
        self.register_buffer("place", torch.zeros((), dtype=torch.int64))

    @torch.no_grad()
    def add(self, keys: Tensor, rows: Tensor) -> None:
        """Replaces the oldest keys by ``(M, D)`` keys, the last K of them, and their rows in the corpus, ``(M,)``."""
        size = len(self.keys)
        keys = keys[-size:]
        # A bank of size 5 with place 3 takes 4 keys at 3 4 0 1.
        positions = (self.place + torch.arange(len(keys), device=keys.device)) % size
        self.keys[positions] = keys.to(self.keys.dtype)
        self.rows[positions] = rows[-size:]
        self.place.copy_((self.place + len(keys)) % size)


class CandidateLinks(nn.Module):
    """Determines negatives: commits before a report that did not introduce its bug.

    All inducing commits of a report are positives, at any granularity of training. Commits after the report are neither
    positives nor negatives: the fix, which resembles the inducing commit, is among them.

    ``num_before (R,)`` are the numbers of commits before each report, with commits in chronological order; ``pairs
    (2, L)`` are rows of reports and of their inducing commits.
    """

    num_before: Tensor
    codes: Tensor

    def __init__(self, num_before: np.ndarray, pairs: np.ndarray, num_commits: int) -> None:
        super().__init__()
        self.num_commits = num_commits
        # Report 2 and commit 3 of 10 commits are number 23.
        codes = np.unique(pairs[0] * num_commits + pairs[1])
        self.register_buffer("num_before", torch.from_numpy(num_before.astype(np.int64)), persistent=False)
        self.register_buffer("codes", torch.from_numpy(codes.astype(np.int64)), persistent=False)

    @classmethod
    def of_corpus(cls, corpus: ChangeCorpus) -> "CandidateLinks":
        """The links of a corpus with reports and inducing commits."""
        return cls(num_before(corpus, "commit"), corpus.inducing["commit"].pairs, len(corpus.commits))

    def are_linked(self, reports: Tensor, commits: Tensor) -> Tensor:
        """Whether commits introduced the bugs of reports; two int64 tensors that broadcast."""
        codes = reports * self.num_commits + commits
        if not len(self.codes):
            return torch.zeros_like(codes, dtype=torch.bool)
        positions = torch.searchsorted(self.codes, codes).clamp(max=len(self.codes) - 1)
        return self.codes[positions] == codes

    def are_negatives(self, reports: Tensor, commits: Tensor) -> Tensor:
        """Whether reports and commits are negatives of each other; never for ``EMPTY``."""
        present = (reports != EMPTY) & (commits != EMPTY)
        before = commits < self.num_before[reports.clamp(min=0)]
        return present & before & ~self.are_linked(reports, commits)


class BankKeys(NamedTuple):
    """Keys of one side."""

    positives: Tensor  # ``(B, D)`` momentum keys of the positives
    bank: Tensor  # ``(K, D)`` keys of a memory bank
    masked: Tensor  # ``(B, K)`` bool, keys of the bank that are not negatives of an anchor


def pair_loss(
    reports: Tensor | TokenFeatures, changes: Tensor | TokenFeatures, temperature: float, both_directions: bool = True
) -> Tensor:
    """The loss of the feature level or of the model level, a scalar.

    InfoNCE with one negative, from reports to changes and optionally from changes to reports; the mean of both. Vectors
    are compared by cosine, tokens by late interaction, see ``max_sim``; ``temperature`` divides the cosines or their
    sums. ``reports`` are ``(2B, D)`` vectors or the tokens of the reports of B pairs, then of the negatives, and
    ``changes`` likewise.
    """
    loss: Callable[..., Tensor] = _token_losses if isinstance(reports, TokenFeatures) else info_nce
    report, other_report = reports.chunk(2)
    change, other_change = changes.chunk(2)
    losses = [loss(report, change, other_change, temperature)]
    if both_directions:
        losses.append(loss(change, report, other_report, temperature))
    return torch.cat(losses).mean()


def _token_losses(
    anchor: TokenFeatures, positive: TokenFeatures, negative: TokenFeatures, temperature: float
) -> Tensor:
    """InfoNCE of each anchor with its negative, ``(B,)``."""
    towards_positive = max_sim(anchor.tokens, positive.tokens, anchor.is_text, positive.is_text) / temperature
    towards_negative = max_sim(anchor.tokens, negative.tokens, anchor.is_text, negative.is_text) / temperature
    return info_nce_of_scores(towards_positive[:, None], towards_negative[:, None])


def bank_loss(report: Tensor, change: Tensor, changes: BankKeys, reports: BankKeys, temperature: float) -> Tensor:
    """The loss of the bank level, a scalar.

    InfoNCE of ``(B, D)`` projected reports and positives with the momentum key of the positive; the negatives are the
    keys of the memory bank of the other side. The talk prints the numerator exp(s_b+ / t) + exp(s_m- / t), by which the
    loss would decrease with nearer negatives and could become negative: we assume a misprint of exp(s_b+ / t), as in
    MoCo.
    """
    to_changes = info_nce(report, changes.positives, changes.bank[None], temperature, changes.masked)
    to_reports = info_nce(change, reports.positives, reports.bank[None], temperature, reports.masked)
    return torch.cat([to_changes, to_reports]).mean()


class Contrast(nn.Module):
    """One side: its tower and, for the bank level, momentum twin and memory bank."""

    def __init__(self, side: Side, settings: HmcblSettings) -> None:
        super().__init__()
        self.tower = Tower(side, settings)
        self.has_bank = settings.bank_level > 0
        if not settings.projects:
            self.tower.projector.requires_grad_(False)
        if self.has_bank:
            self.twin = MomentumTwin(self.tower, settings.momentum)
            self.bank = MemoryBank(settings.bank_size, settings.dim)

    @torch.no_grad()
    def keys(self, batch: CodeBatch) -> Tensor:
        """The momentum keys of a batch, ``(2B, dim)`` unit rows."""
        twin = self.twin.module
        assert isinstance(twin, Tower)
        # A frozen encoder is its own twin; its features are cached.
        keys = twin.embed(batch) if self.tower.settings.train_encoders else twin.projector(self.tower(batch))
        return nn.functional.normalize(keys, dim=1)


class HmcblNetwork(nn.Module):
    """Hierarchical momentum contrast of reports and changes.

    Source: a talk on "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization", 2023.
    Raises ValueError if the feature level compares features of different sizes.
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
        """The loss of each level of B pairs, a scalar.

        The banks are read before ``fill_banks`` adds the keys of the batch. Every process adds the keys of all, in the
        same order, so that the banks stay equal.
        """
        settings = self.settings
        by_tokens = settings.by_tokens
        towers = self.reports.tower, self.changes.tower
        batches = batch.reports, batch.changes
        sides: list[Any] = [
            tower.read(texts) if by_tokens else tower(texts) for tower, texts in zip(towers, batches, strict=True)
        ]
        losses = {}
        if "feature" in settings.weights:
            losses["feature"] = pair_loss(sides[0], sides[1], settings.temperature, settings.both_directions)
        if settings.projects:
            sides = [
                tower.project_tokens(side) if by_tokens else tower.projector(side)
                for tower, side in zip(towers, sides, strict=True)
            ]
        if settings.model_level > 0:
            losses["model"] = pair_loss(sides[0], sides[1], settings.temperature, settings.both_directions)
        if settings.bank_level > 0:
            if by_tokens:
                sides = [tower.pool(side) for tower, side in zip(towers, sides, strict=True)]
            losses["bank"] = self._bank_loss(batch, sides[0], sides[1], gather, fill_banks)
        return losses

    def _bank_loss(
        self, batch: PairBatch, reports: Tensor, changes: Tensor, gather: Gather, fill_banks: bool
    ) -> Tensor:
        """The loss of the bank level; ``fill_banks`` then adds the keys of the batch."""
        count = len(batch.n_id) // 2
        report_keys = self.reports.keys(batch.reports)
        change_keys = self.changes.keys(batch.changes)
        report_bank, change_bank = self.reports.bank, self.changes.bank
        are_changes = self.links.are_negatives(batch.n_id[:count, None], change_bank.rows)
        are_reports = self.links.are_negatives(report_bank.rows, batch.commit_rows[:count, None])
        # The banks are filled in place, but the gradient needs the old keys.
        to_changes = BankKeys(change_keys[:count], change_bank.keys.clone(), ~are_changes)
        to_reports = BankKeys(report_keys[:count], report_bank.keys.clone(), ~are_reports)
        if fill_banks:
            self._fill(report_bank, report_keys, batch.n_id, gather)
            self._fill(change_bank, change_keys, batch.commit_rows, gather)
        return bank_loss(reports[:count], changes[:count], to_changes, to_reports, self.settings.temperature)

    def _fill(self, bank: MemoryBank, keys: Tensor, rows: Tensor, gather: Gather) -> None:
        """Adds the keys of positives (if ``bank_positives``), then of negatives, of all processes to a bank."""
        count = len(keys) // 2
        positives, negatives = slice(count), slice(count, None)
        for half in (positives, negatives) if self.settings.bank_positives else (negatives,):
            bank.add(gather(keys[half]), gather(rows[half]))

    def follow(self) -> None:
        """Updates both momentum twins after an optimizer step."""
        for side in (self.reports, self.changes):
            if side.has_bank:
                side.twin.follow(side.tower)
