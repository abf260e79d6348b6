"""The contract of losses: which labels of a step they read."""

from typing import NamedTuple, Protocol

from torch import Tensor


class StepLabels(NamedTuple):
    """Labels of the U distinct reports of a step.

    ``group (U,)`` the groups that training observes, ``edge_label_index (2, P)`` pairs of rows in 0..U-1, and
    ``edge_label (P,)``, 1 for a duplicate pair, 0 for another.
    """

    group: Tensor
    edge_label_index: Tensor
    edge_label: Tensor


class Loss(Protocol):
    """A loss of the vectors of a step.

    Attributes:
        reads: The labels that it reads: ``pairs`` (``edge_label_index`` and ``edge_label``) or ``groups`` (``group``).
            A loss that reads groups compares all reports of a step, so a larger step has more negatives; of several
            devices, each has its own step.
    """

    reads: frozenset[str]

    def __call__(self, z: Tensor, step: StepLabels) -> Tensor:
        """The loss of unit rows ``z (U, D)``, a scalar."""
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
