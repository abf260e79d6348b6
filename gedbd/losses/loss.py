"""The contract of losses: which labels of a step they read."""

from typing import NamedTuple, Protocol

from torch import Tensor


class StepLabels(NamedTuple):
    """Labels of the U distinct reports of a step.

    ``group (U,)`` the groups that training observes, ``edge_label_index (2, P)`` pairs of rows in 0..U-1, and
    ``edge_label (P,)``, 1 for a duplicate pair, 0 for another. ``triplets (T, 3)`` rows of an anchor, of a duplicate of
    it and of a non-duplicate; None where a sampler provides none.
    """

    group: Tensor
    edge_label_index: Tensor
    edge_label: Tensor
    triplets: Tensor | None = None


class Loss(Protocol):
    """A loss of the vectors of a step.

    Attributes:
        reads: The labels that it reads: ``pairs`` (``edge_label_index`` and ``edge_label``), ``groups`` (``group``) or
            ``triplets``. A loss that reads groups compares all reports of a step, so a larger step has more negatives; of several
            devices, each has its own step.
    """

    reads: frozenset[str]

    def __call__(self, z: Tensor, step: StepLabels) -> Tensor:
        """The loss of rows ``z (U, D)``, a scalar. They have length 1, except for losses of distances (triplets)."""
        ...


def check_labels(loss: Loss, provides: frozenset[str]) -> None:
    """Checks before training that the batches hold the labels of a loss.

    Args:
        loss: The loss.
        provides: The labels of a batch, as its sampler declares them.

    Raises:
        ValueError: If the batches lack a label that the loss reads.
    """
    missing = sorted(loss.reads - provides)
    if missing:
        name = type(loss).__name__
        raise ValueError(
            f"loss: {name} reads {' and '.join(missing)}, but batches: provides {' and '.join(sorted(provides))} only"
        )
