"""Steps of P duplicate groups with K reports of each, as contrastive losses want them."""

from dataclasses import dataclass

import numpy as np

from gedbd.sampling.batches import Groups, GroupSteps, Labelled, Share, Steps
from gedbd.sampling.hard_negatives import nearest_groups


class ClusterSteps(GroupSteps):
    """P groups in a step, K reports of each drawn anew in each epoch; every group is in a step once an epoch.

    So a group of twenty weighs no more than one of two. A group with fewer than K known reports gives all it has. If
    the last step falls short, groups that were dealt already fill it. For the arguments see ``Clusters``.
    """

    settings: "Clusters"

    def _size(self) -> int:
        """Steps of an epoch, of all processes together."""
        return -(-len(self.groups) // self.settings.groups_a_step)

    def _deal(self, rng: np.random.Generator) -> list[np.ndarray]:
        """The rows of all steps of all processes."""
        wanted = min(self.settings.groups_a_step, len(self.groups))
        return [
            np.concatenate([rng.permutation(self.groups[number])[: self.settings.per_group] for number in numbers])
            for numbers in self._arrange(wanted, self.count * self.share.world, rng)
        ]

    def _arrange(self, wanted: int, steps: int, rng: np.random.Generator) -> list[list[int]]:
        """Which groups meet in each step: random ones, then the share ``hard`` from among their nearest."""
        vectors, hard = self.labelled.vectors, round(self.settings.hard * wanted)
        near = nearest_groups(vectors, self.groups, self.settings.neighbours) if hard and vectors is not None else None
        waiting, arranged = dict.fromkeys(rng.permutation(len(self.groups)).tolist()), []
        for _ in range(steps):
            step: list[int] = []
            self._take(list(waiting), wanted - hard, step, waiting)
            if near is not None:
                self._take(near[step].T.flatten().tolist(), wanted, step, waiting)
            self._take(list(waiting), wanted, step, waiting)
            if len(step) < wanted:
                again = rng.permutation(np.setdiff1d(np.arange(len(self.groups)), step)).tolist()
                waiting = dict.fromkeys(again)
                self._take(again, wanted, step, waiting)
            arranged.append(step)
        return arranged

    @staticmethod
    def _take(candidates: list[int], most: int, step: list[int], waiting: dict[int, None]) -> None:
        """Moves those of the candidates that wait into the step, until it has so many."""
        for number in candidates:
            if len(step) >= most:
                return
            if number in waiting:
                del waiting[number]
                step.append(number)


@dataclass(frozen=True)
class Clusters(Groups):
    """Deals P x K steps: see ``ClusterSteps``. P is what of ``batch_size`` is left to groups, over K.

    Args:
        batch_size: Reports of a step, on each device.
        seed: See ``Groups``, as all others.
        singletons: Share of ``batch_size`` that are reports without a known duplicate: further negatives.
        negatives_per_positive: Pairs across groups for each pair inside one; a loss that reads groups only logs them.
        hard: Share of a step's groups that are the nearest of its other ones, and of its single reports.
        neighbours: Groups and single reports are hard if they are among so many nearest ones.
        per_group: K.
    """

    per_group: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.per_group < 2 or self.groups_a_step < 2:
            raise ValueError(
                f"batches.per_group={self.per_group} must be 2 or more, and fit twice into the {self.room} reports of a"
                " step that belong to groups (batch_size, batches.singletons)"
            )

    @property
    def groups_a_step(self) -> int:
        """P."""
        return self.room // self.per_group

    def __call__(self, labelled: Labelled, share: Share) -> Steps:
        """The steps of every epoch."""
        return ClusterSteps(labelled, self, share)
