"""Batches of P duplicate groups with K reports of each, for contrastive losses."""

from dataclasses import dataclass

import numpy as np

from gedbd.sampling.batches import BatchSampler, SamplerInputs
from gedbd.sampling.group_batches import GroupBatches, GroupBatchSampler
from gedbd.sampling.hard_negatives import nearest_groups


class PKBatchSampler(GroupBatchSampler):
    """P groups in a batch, with K reports drawn from each in each epoch; every group is in a batch once an epoch.

    So a group of twenty weighs no more than one of two. A group with fewer than K observed reports contributes all of
    them. If the last batch is short, it is filled with groups that occurred before. For the arguments see
    ``PKBatches``.
    """

    settings: "PKBatches"

    def _total_batches(self) -> int:
        """Batches of an epoch, of all processes."""
        return -(-len(self.groups) // self.settings.groups_per_batch)

    def _grouped_rows(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The rows of groups in each batch of all processes."""
        num_groups = min(self.settings.groups_per_batch, len(self.groups))
        batches = []
        for numbers in self._arrange(num_groups, self.num_batches * self.world_size, rng):
            drawn = [rng.permutation(self.groups[number])[: self.settings.per_group] for number in numbers]
            batches.append(np.concatenate(drawn))
        return batches

    def _arrange(self, num_groups: int, num_batches: int, rng: np.random.Generator) -> list[list[int]]:
        """The groups of each batch: random ones, then the fraction ``hard`` from among their nearest."""
        hard = round(self.settings.hard * num_groups)
        nearest = None
        if hard and self.inputs.vectors is not None:
            nearest = nearest_groups(self.inputs.vectors, self.groups, self.settings.neighbours)
        # A dict serves as an ordered set: groups that wait, in random order, with fast removal.
        waiting = dict.fromkeys(rng.permutation(len(self.groups)).tolist())
        arranged = []
        for _ in range(num_batches):
            batch: list[int] = []
            self._take(list(waiting), num_groups - hard, batch, waiting)
            if nearest is not None:
                # Transposed: the nearest of each group in the batch first, then the second nearest of each, ...
                self._take(nearest[batch].T.flatten().tolist(), num_groups, batch, waiting)
            self._take(list(waiting), num_groups, batch, waiting)
            if len(batch) < num_groups:
                again = rng.permutation(np.setdiff1d(np.arange(len(self.groups)), batch)).tolist()
                waiting = dict.fromkeys(again)
                self._take(again, num_groups, batch, waiting)
            arranged.append(batch)
        return arranged

    @staticmethod
    def _take(candidates: list[int], max_groups: int, batch: list[int], waiting: dict[int, None]) -> None:
        """Moves the candidates that wait into the batch, until it has ``max_groups``."""
        for number in candidates:
            if len(batch) >= max_groups:
                return
            if number in waiting:
                del waiting[number]
                batch.append(number)


@dataclass(frozen=True)
class PKBatches(GroupBatches):
    """P x K batches: see ``PKBatchSampler``. P is ``capacity`` divided by K.

    Args:
        batch_size: Reports of a batch, on each device.
        seed: Determines all draws.
        singletons: Fraction of ``batch_size`` without an observed duplicate: further negatives.
        negatives_per_positive: Pairs across groups for each pair inside one; a loss that reads groups only logs them.
        hard: Fraction of a batch's groups that are the nearest of its other groups, and of its singletons.
        neighbours: Groups and singletons are hard if they are among so many nearest ones.
        per_group: K.
    """

    per_group: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_group < 2 or self.groups_per_batch < 2:
            raise ValueError(
                f"batches.per_group={self.per_group} must be 2 or more, and fit twice into the {self.capacity} reports"
                " of a batch that belong to groups (batch_size, batches.singletons)"
            )

    @property
    def groups_per_batch(self) -> int:
        """P."""
        return self.capacity // self.per_group

    def __call__(self, inputs: SamplerInputs, rank: int = 0, world_size: int = 1) -> BatchSampler:
        """The batches of one process of ``world_size``, in every epoch."""
        return PKBatchSampler(inputs, self, rank, world_size)
