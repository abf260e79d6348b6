"""The server under load: an index on a small disk of its own, and the process that serves it."""

import http.client
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from proxied import free_port, proxied
from small_github import ISSUES, REPOSITORY, SmallGitHub

TOKEN = "a-token-for-the-soak-test"
SECRET = "a-secret-for-the-soak-test"
# The backtest of the small tracker meets the target, so there are comments.
OPTIONS = ["webhook.suggest=comment", "webhook.target_precision=0.6"]
MAX_START_S = 120.0
MAX_STOP_S = 60.0


class Server:
    """``gedbd serve`` over an index, as a process that can be killed, stopped and started again.

    Args:
        index: Folder of the index.
        work: Where logs and caches go.
        github_url: The API of GitHub.
        options: Further options of the command.
    """

    def __init__(self, index: Path, work: Path, github_url: str, options: Sequence[str] = OPTIONS) -> None:
        self.index = index
        self.work = work
        self.github_url = github_url
        self.options = options
        self.service_port = free_port()
        self.proxy_program = shutil.which("nginx") or shutil.which("caddy")
        self.port = self.service_port if self.proxy_program is None else free_port()  # what clients connect to
        self.log = work / "server.log"
        self.clock = work / "clock"
        self.set_clock(0)
        self.clock_library = _clock_library(work)
        self.process: subprocess.Popen[bytes] | None = None

    def proxy(self) -> AbstractContextManager[None]:
        """Runs nginx or Caddy in front of the process, if one is installed."""
        if self.proxy_program is None:
            return nullcontext()
        return proxied(self.proxy_program, self.work / "proxy", self.service_port, self.port)

    def set_clock(self, offset_s: int) -> None:
        """Lets the clock of the process, if it was started with the library for it, differ from the right time."""
        content = struct.pack("q", offset_s)
        with self.clock.open("r+b" if self.clock.exists() else "wb") as file:
            file.write(content)  # in place: the process has mapped this file

    def start(self) -> None:
        """Starts the process and waits until it answers."""
        command = self._command(self.service_port)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, cwd=self.work, env=self.environment(), stdout=log, stderr=log)
        deadline = time.monotonic() + MAX_START_S
        while self.health(timeout_s=1.0) is None:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: see {self.log}")
            time.sleep(0.05)

    def start_second(self, lasting_s: float) -> str:
        """Starts a second process over the same folder; gives why it has ended, empty if it still ran after a while."""
        command = self._command(free_port())
        with subprocess.Popen(
            command, cwd=self.work, env=self.environment(), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as second:
            try:
                return second.communicate(timeout=lasting_s)[0] or f"status {second.returncode}"
            except subprocess.TimeoutExpired:
                second.kill()
                return ""

    def kill(self) -> None:
        """Ends the process without notice."""
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def terminate(self) -> float:
        """Asks the process to end; gives how long that took, in seconds."""
        assert self.process is not None
        begun = time.monotonic()
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(MAX_STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()
        return time.monotonic() - begun

    def health(self, timeout_s: float) -> dict[str, object] | None:
        """What ``/api/health`` answers; None if it does not within some seconds."""
        connection = http.client.HTTPConnection("localhost", self.port, timeout=timeout_s)
        try:
            connection.request("GET", "/api/health")
            answer = connection.getresponse()
            answer_json: dict[str, object] = json.loads(answer.read())
            return answer_json if answer.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def memory_mb(self) -> float:
        """Resident memory of the process, in MB."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) / 1024

    def _command(self, port: int) -> list[str]:
        return [sys.executable, "-m", "gedbd", "serve", f"index={self.index}", f"port={port}", *self.options]

    def environment(self) -> dict[str, str]:
        """The variables of a process that works on the index."""
        values = os.environ | {
            "GEDBD_CACHE": str(self.work / "cache"),
            "GEDBD_TOKEN": TOKEN,
            "GITHUB_WEBHOOK_SECRET": SECRET,
            "GITHUB_TOKEN": "t0ken",
            "GITHUB_API_URL": self.github_url,
            "GITHUB_REPOSITORY": REPOSITORY,
        }
        if self.clock_library is not None:
            values |= {"LD_PRELOAD": str(self.clock_library), "CLOCK_OFFSET_FILE": str(self.clock)}
        return values


def build_index(work: Path, out: Path, hub: SmallGitHub) -> None:
    """Builds an index of a small tracker whose backtest meets the target of 60%."""
    notes = hub.lists[f"{ISSUES}/comments"]
    exported = []
    for issue in hub.lists[ISSUES]:
        comments = [note for note in notes if note["id"] == issue["number"]]
        exported.append(issue | {"comments": comments})
    (work / "issues.json").write_text(json.dumps(exported))
    environment = os.environ | {"GEDBD_CACHE": str(work / "cache")}
    backtest = [
        "backtest",
        "dataset=github",
        "dataset.path=issues.json",
        "encoder=tiny",
        "hydra.run.dir=backtest",
    ]
    for words in (backtest, ["index", "run=backtest", f"out={out}"]):
        subprocess.run(
            [sys.executable, "-m", "gedbd", *words], cwd=work, env=environment, check=True, stdout=subprocess.DEVNULL
        )


def _clock_library(work: Path) -> Path | None:
    """Builds the library that changes the clock; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = work / "clock.so"
    source = Path(__file__).parent / "clock.c"
    subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
    return library
