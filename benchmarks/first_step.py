"""Trains some steps through the command; prints seconds until the first one began, and the peak memory in MB."""

import os
import sys
import time
from pathlib import Path


def main() -> None:
    """Takes ``steps=N`` and the command's options."""
    began = process_start()
    steps = int(sys.argv.pop(1).removeprefix("steps="))
    import gedbd.train
    from gedbd.configuration.command import gc_paused

    sys.path.insert(0, str(Path(__file__).parent))
    from measure import peak_mb

    with gc_paused():  # as the command imports it
        from gedbd.duplicates.duplicate_detector import DuplicateDetector

    whole = DuplicateDetector.training_step
    reached: list[float] = []

    def step(self, batch, batch_idx):  # type: ignore[no-untyped-def]
        reached.append(time.time())
        if len(reached) > steps or steps == 1:
            print(reached[0] - began, peak_mb(), flush=True)
            os._exit(0)
        return whole(self, batch, batch_idx)

    DuplicateDetector.training_step = step  # type: ignore[method-assign]
    gedbd.train.main()
    # A small corpus has fewer steps.
    print(reached[0] - began, peak_mb(), flush=True)


def process_start() -> float:
    """When this process started, in seconds since the epoch."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    booted = time.time() - float(Path("/proc/uptime").read_text().split()[0])
    return booted + ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    main()
