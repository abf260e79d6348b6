"""How the time and memory of commands grow with the number of reports; the exponent is the slope on log axes.

BENCHMARK_SIZES="1000 4000" make bench SECTIONS=growth

A random encoder with two small layers leaves out what encoding costs, which is proportional to the number of texts.
"""

import math
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from compare import digits
from measure import Row

SIZES = (4_000, 16_000, 64_000)
START = 250  # reports; the time of so few is that of starting, which is subtracted
SECTION = "growth"
WORDS, LENGTH, TITLE = 200_000, 60, 8
DUPLICATES, COPIED, NEAR = 0.08, 0.6, 2_000  # share of duplicates, of their words, and how far back the original is
OPEN = 0.2
COMMANDS = {
    "index": ("index", "dataset=csv", "dataset.path=reports.csv", "encoder=tiny", "out=my-index"),
    "clusters": ("clusters", "index=my-index"),
    "backtest": ("backtest", "dataset=csv", "dataset.path=reports.csv", "encoder=tiny", "hydra.run.dir=tested"),
    "training, one epoch": (
        *("train", "dataset=csv", "dataset.path=reports.csv", "encoder=tiny", "trainer.max_epochs=1"),
        "hydra.run.dir=trained",
    ),
}


def main() -> list[Row]:
    """Each command in a process of its own, with an empty cache, at each size."""
    sizes = [int(size) for size in os.environ.get("BENCHMARK_SIZES", "").split()] or list(SIZES)
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    for count in (START, *sizes):
        with tempfile.TemporaryDirectory() as folder:
            made_up_reports(count).to_csv(Path(folder) / "reports.csv", index=False)
            for name, command in COMMANDS.items():
                taken[name].append(_measured(Path(folder), command))
    return [row for name, costs in taken.items() for row in _rows(name, sizes, costs)]


def _measured(folder: Path, command: tuple[str, ...]) -> tuple[float, float]:
    """Seconds of processor time and the peak memory in MB."""
    environment = os.environ | {"GEDBD_CACHE": str(folder / "cache"), "LOKY_MAX_CPU_COUNT": "1"}
    with (folder / "told").open("w+") as told:
        process = subprocess.Popen(
            [sys.executable, "-m", "gedbd", *command], cwd=folder, env=environment, stdout=told, stderr=told
        )
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            told.seek(0)
            raise RuntimeError(f"gedbd {' '.join(command)}: {told.read()[-2000:]}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def _rows(name: str, sizes: list[int], costs: list[tuple[float, float]]) -> list[Row]:
    (start, least), *grown = costs
    spent = [max(seconds - start, 0.01) for seconds, _ in grown]
    memory = [max(peak - least, 0.01) for _, peak in grown]
    return [
        Row(SECTION, f"{name}, {sizes[-1]:,} reports, {what}", values[-1], unit, note=_growth(sizes, values, unit))
        for what, unit, values in (("processor time", "s", spent), ("peak memory", "MB", memory))
    ]


def _growth(sizes: list[int], values: list[float], unit: str) -> str:
    """The exponent between the two largest sizes, and what was measured at the smaller ones."""
    exponent = math.log(values[-1] / values[-2]) / math.log(sizes[-1] / sizes[-2])
    before = zip(sizes[:-1], values[:-1], strict=True)
    smaller = ", ".join(f"{digits(value)} {unit} at {count:,}" for count, value in before)
    return f"exponent {exponent:.2f}; {smaller}"


def made_up_reports(count: int, seed: int = 0) -> pd.DataFrame:
    """Reports in bughub's columns, of words that are as unevenly common as in a language.

    Some are duplicates of one of the ``NEAR`` reports before them and share most of its words.
    """
    rng = np.random.default_rng(seed)
    drawn = np.minimum(rng.zipf(1.2, size=(count, LENGTH)) - 1, WORDS - 1)
    original = np.full(count, -1)
    for row in np.flatnonzero(rng.random(count) < DUPLICATES).tolist():
        if row:
            original[row] = row - rng.integers(1, min(row, NEAR) + 1)
            copied = rng.random(LENGTH) < COPIED
            drawn[row, copied] = drawn[original[row], copied]
    words = [[f"word{number}" for number in numbers] for numbers in drawn.tolist()]
    is_open = rng.random(count) < OPEN
    return pd.DataFrame(
        {
            "Issue_id": np.arange(1, count + 1),
            "Priority": "P3",
            "Component": [f"part {number}" for number in rng.integers(50, size=count)],
            "Duplicated_issue": [str(row + 1) if row >= 0 else "" for row in original.tolist()],
            "Title": [" ".join(row[:TITLE]) for row in words],
            "Description": [" ".join(row[TITLE:]) for row in words],
            "Status": np.where(is_open, "NEW", "RESOLVED"),
            "Resolution": np.where(is_open, "", "FIXED"),
            "Version": "1.0",
            "Created_time": pd.Timestamp("2010-01-01") + pd.to_timedelta(np.arange(count), unit="h"),
            "Resolved_time": "",
        }
    )
