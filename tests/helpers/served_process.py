"""The service as a process of its own, over the small index, with the command that users give."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from raw_http import until

import gedbd.commands.serve

ROOT = Path(gedbd.__file__).parent.parent


class Served:
    """A running service: its port, its process, and what it has logged."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process, self.port, self.log = process, port, log

    def logged(self) -> str:
        return self.log.read_text(errors="replace")

    def memory_bytes(self, name: str) -> int:
        """``VmRSS`` (now) or ``VmHWM`` (the most so far)."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split(f"{name}:")[1].split()[0]) * 1024

    def descriptors(self) -> int:
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def end(self, number: int = signal.SIGTERM) -> None:
        """Sends the process a signal and waits until it has ended."""
        self.process.send_signal(number)
        self.process.wait(timeout=60)


@contextmanager
def served(folder: Path, *options: str) -> Iterator[Served]:
    """Serves the small index in a folder until the block ends."""
    small = f"index={folder}", "opened._target_=small_index.open_small", "port=0"
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "helpers")])
    environment = os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"}
    log = folder / "log"
    with log.open("wb") as lines:
        command = [sys.executable, "-m", "gedbd", "serve", *small, *options]
        process = subprocess.Popen(command, cwd=folder, env=environment, stderr=lines, stdout=lines)
    try:
        until(lambda: process.poll() is not None or "running on" in log.read_text(), 60)
        assert process.poll() is None, log.read_text()
        yield Served(process, int(re.findall(r"running on http://127.0.0.1:(\d+)", log.read_text())[0]), log)
    finally:
        process.kill()
        process.wait()
