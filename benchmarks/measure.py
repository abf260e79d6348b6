"""Timing of contestants that take turns, and what one row of the table is."""

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np


@dataclass(frozen=True)
class Row:
    """One line of the table.

    Attributes:
        section: Heading.
        what: What was measured.
        value: Median of the repeats, or the only measurement.
        unit: Less is better, unless it is a rate such as ``reports/s``.
        reference: What ``ratio`` refers to.
        ratio: How many times better than ``reference``, measured in the same process: the median over the turns.
        note: Sizes, conditions.
        spread: The smallest and the largest of the repeats; None for a single measurement.
        ratio_spread: Likewise of the ratios of the turns.
    """

    section: str
    what: str
    value: float
    unit: str
    reference: str = ""
    ratio: float | None = None
    note: str = ""
    spread: tuple[float, float] | None = None
    ratio_spread: tuple[float, float] | None = None

    @property
    def is_rate(self) -> bool:
        """Whether more is better."""
        return self.unit.endswith("/s")


def repeated(
    section: str,
    what: str,
    values: Sequence[float] | np.ndarray,
    unit: str,
    reference: tuple[str, np.ndarray] | None = None,
    note: str = "",
) -> Row:
    """The row of measurements ``(R,)``; ``reference`` is another contestant and its measurements in the same turns."""
    values = np.asarray(values)
    row = Row(section, what, float(np.median(values)), unit, note=note, spread=_spread(values))
    if reference is None:
        return row
    name, others = reference
    ratios = values / others if row.is_rate else others / values
    return replace(row, reference=name, ratio=float(np.median(ratios)), ratio_spread=_spread(ratios))


def _spread(values: np.ndarray) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def take_turns(contestants: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, np.ndarray]:
    """``(repeats,)`` seconds of each, after one call to warm up. They take turns, so that all meet the same noise."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(repeats + 1):
        for name, call in contestants.items():
            taken[name].append(seconds(call))
    return {name: np.array(values[1:]) for name, values in taken.items()}


def peak_mb() -> float:
    """Largest size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage also counts the process that this one was started from
        peak_kb = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak_kb.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
