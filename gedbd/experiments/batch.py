"""Batches of distinct reports, as models and losses take them."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from gedbd.losses.loss import StepLabels
from gedbd.sampling.batches import BatchIndices
from gedbd.text.tokens import TokenTable


class Batch(NamedTuple):
    """U distinct reports and the P pairs between them.

    ``n_id (U,)`` rows of the corpus, ``input_ids`` and ``attention_mask (U, L)``, ``group (U,)`` the
    groups that training observes, ``edge_label_index (2, P)`` pairs renumbered to 0..U-1, ``edge_label (P,)`` 1 for a
    duplicate pair, 0 for another.
    """

    n_id: Tensor
    input_ids: Tensor
    attention_mask: Tensor
    group: Tensor
    edge_label_index: Tensor
    edge_label: Tensor

    @property
    def labels(self) -> StepLabels:
        """The labels, as losses read them."""
        return StepLabels(self.group, self.edge_label_index, self.edge_label)


class BatchDataset(Dataset[Batch]):
    """A data set whose keys are the indices of whole batches.

    Args:
        tokens: Token numbers of N reports.
        group: ``(N,)`` groups that training observes.
    """

    def __init__(self, tokens: TokenTable, group: np.ndarray) -> None:
        self.tokens = tokens
        self.group = group

    def __getitem__(self, step: BatchIndices) -> Batch:
        """The batch of some rows."""
        input_ids, attention_mask = self.tokens.batch(step.rows)
        return Batch(
            n_id=torch.from_numpy(step.rows),
            input_ids=input_ids,
            attention_mask=attention_mask,
            group=torch.from_numpy(self.group[step.rows]),
            # Rows are sorted, so a row's place among them is its new number: rows 4, 7, 9; pair (4, 9) -> (0, 2).
            edge_label_index=torch.from_numpy(np.searchsorted(step.rows, step.pairs.T)),
            edge_label=torch.from_numpy(step.label),
        )
