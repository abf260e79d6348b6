"""The second start of a training: seconds from the command to the first step, and memory of some steps."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from measure import Row, repeated
from prepared_data import options

STEPS = 10
FIRST_STEP = Path(__file__).parent / "first_step.py"


def main() -> list[Row]:
    """Starts once to fill the caches, then three times for the median; then trains some steps."""
    _run("steps=1")
    starts = [_run("steps=1")["seconds"] for _ in range(3)]
    rows = [repeated("training", "second start to first step", starts, "s", note="caches warm, 3 starts")]
    for more in (["pairs=sampled"], ["pairs=grouped"], ["pairs=grouped", "chunk_tokens=8192"]):
        peak = _run(f"steps={STEPS}", *more)["peak_mb"]
        note = f"at most {STEPS} steps, the graph included"
        rows.append(Row("training", f"peak memory, {' '.join(more)}", peak, "MB", note=note))
    return rows


def _run(steps: str, *more: str) -> dict[str, float]:
    with TemporaryDirectory() as folder:
        command = [sys.executable, str(FIRST_STEP), steps, *options(*more, f"hydra.run.dir={folder}")]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ)
    last = done.stdout.strip().splitlines()[-1]
    return dict(zip(("seconds", "peak_mb"), map(float, last.split()), strict=True))
