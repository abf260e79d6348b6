"""Timing of contestants that take turns, and what one row of the table is."""

import resource
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """One line of the table. ``ratio`` is how many times better than ``reference``, measured in the same process."""

    section: str
    what: str
    value: float
    unit: str
    reference: str = ""
    ratio: float | None = None
    note: str = ""


def seconds(call: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def medians(contestants: Mapping[str, Callable[[], object]], repeats: int) -> dict[str, float]:
    """Median seconds of each, after one call to warm up. They take turns, so that all meet the same noise."""
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(repeats + 1):
        for name, call in contestants.items():
            spent = seconds(call)
            if turn:
                taken[name].append(spent)
    return {name: statistics.median(values) for name, values in taken.items()}


def peak_mb() -> float:
    """Largest size of this process so far."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage also counts the process that this one was started from
        peak_kb = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(peak_kb.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
