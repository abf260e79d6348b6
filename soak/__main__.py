"""``make soak``: eight clients work while faults are injected; then every acknowledged write must be there.

make soak MINUTES=10 OVERLAP=1
make soak SYNC=1: gedbd sync beside the webhook instead, see ``following``
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from pathlib import Path
from typing import Any

from check import answers, lost, settled_answers
from clients import Client, pause, resume
from faults import Faults
from figures import figures_of, show_figures
from following import follow
from github import FaultyGitHub
from ledger import Ledger, now
from rich.console import Console
from rich.progress import Progress
from server import Server, build_index
from small_github import FAULTS, NOUNS, PLACES
from small_github import ISSUES as ISSUES_PATH

CLIENTS = 8
ISSUES = 400
DISK_MB = 64
PAUSE_S = 4.0
PROBE_S = 0.25
RESTARTS_UNTIL = 0.7  # of the time; then one process lives to the end, and its memory is compared
SEARCHES = 40


def main() -> None:
    """Runs the load and the faults, checks, and writes the figures."""
    parser = argparse.ArgumentParser(prog="make soak")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--overlap", action="store_true", help="start a second server over the folder every now and then"
    )
    parser.add_argument("--sync", action="store_true", help="run gedbd sync beside the webhook instead")
    parser.add_argument("--out", type=Path, default=Path("outputs/soak"))
    chosen = parser.parse_args()
    console = Console()
    if chosen.sync:
        figures = follow(chosen.minutes, chosen.seed, chosen.out, console)
        console.print_json(json.dumps(figures))
        sys.exit(1 if figures["broken"] else 0)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        disk = work / "disk"
        disk.mkdir()
        is_small = _mount(disk)
        try:
            figures = run(work, disk, is_small, chosen.minutes, chosen.seed, chosen.overlap, console)
        finally:
            log = work / "server.log"
            chosen.out.mkdir(parents=True, exist_ok=True)
            if log.is_file():
                (chosen.out / "server.log").write_bytes(log.read_bytes())
            if is_small:
                subprocess.run(["umount", "--lazy", str(disk)], check=True)
    (chosen.out / "soak.json").write_text(json.dumps(figures, indent=2) + "\n")
    show_figures(figures, console)
    sys.exit(1 if figures["broken"] else 0)


def run(
    work: Path, disk: Path, is_small: bool, minutes: float, seed: int, overlap: bool, console: Console
) -> dict[str, object]:
    """The whole test over a new index; gives its figures."""
    hub = FaultyGitHub(ISSUES)
    threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    console.print("building the index ...")
    build_index(work, disk / "index", hub)
    server, ledger = Server(disk / "index", work, hub.url), Ledger()
    with server.proxy():
        return run_test(server, ledger, hub, disk if is_small else None, minutes, seed, overlap, console)


def run_test(
    server: Server,
    ledger: Ledger,
    hub: FaultyGitHub,
    disk: Path | None,
    minutes: float,
    seed: int,
    overlap: bool,
    console: Console,
) -> dict[str, object]:
    """Load, faults and checks over a built index; gives the figures."""
    faults = Faults(server, hub, disk, ledger, seed)
    faults.start()
    known = [str(issue["title"]) for issue in hub.lists[ISSUES_PATH]]
    clients = [Client(number, server, ledger, seed, known) for number in range(CLIENTS)]
    prober = Prober(server, ledger)
    for thread in (*clients, prober):
        thread.start()
    injected, differing = inject(faults, clients, minutes, seed, overlap, console)
    pause(clients)
    prober.ended.set()
    prober.join()
    titles = questions(seed + 1)
    settled = settled_answers(server, titles)
    missing = lost(server, ledger)
    ends_mb = server.memory_mb()
    faults.stops.append(("the end", server.terminate()))
    begins_mb = faults.began_mb
    faults.start()
    differing += count_differing(settled, answers(server, titles))
    missing_after = lost(server, ledger)
    faults.stops.append(("no load", server.terminate()))
    for client in clients:
        client.ended.set()
        client.go.set()
    hub.shutdown()
    memory = {"last process, started": begins_mb, "last process, ended": ends_mb}
    return figures_of(ledger, faults, injected, differing, [*missing, *missing_after], memory, minutes, seed)


def inject(
    faults: Faults, clients: list[Client], minutes: float, seed: int, overlap: bool, console: Console
) -> tuple[Counter[str], int]:
    """Injects one fault after the other; gives how many of each, and how many answers a restart changed."""
    choices = random.Random(seed)
    begun, total_s = now(), 60 * minutes
    injected: Counter[str] = Counter()
    differing = 0
    waiting: list[str] = []
    with Progress(console=console) as progress:
        bar = progress.add_task("load and faults", total=total_s)
        while now() - begun < total_s:
            restarts = now() - begun < RESTARTS_UNTIL * total_s
            known = faults.others() | (faults.restarts() | {"restart, compared": None} if restarts else {})
            if overlap:
                faults.overlap()
                injected["second server"] += 1
            waiting = [name for name in waiting if name in known] or choices.sample(list(known), len(known))
            name = waiting.pop()
            progress.update(bar, completed=now() - begun, description=name)
            fault = known[name]
            if fault is None:
                differing += compare_restart(faults, clients, choices.randrange(1 << 30))
            else:
                fault()
            injected[name] += 1
            threading.Event().wait(PAUSE_S)
        progress.update(bar, completed=total_s)
    return injected, differing


def compare_restart(faults: Faults, clients: list[Client], seed: int) -> int:
    """How many answers differ before and after a restart, while nobody writes."""
    pause(clients)
    titles = questions(seed)
    before = settled_answers(faults.server, titles)
    faults.terminate("nothing else")
    after = answers(faults.server, titles)
    resume(clients)
    return count_differing(before, after)


def count_differing(before: list[Any], after: list[Any]) -> int:
    """How many answers are not the same."""
    return sum(first != second for first, second in zip(before, after, strict=True))


def questions(seed: int) -> list[str]:
    """Titles to search for."""
    choices = random.Random(seed)
    return [" ".join(choices.choice(words) for words in (NOUNS, FAULTS, PLACES)) for _ in range(SEARCHES)]


class Prober(threading.Thread):
    """Asks for the health of the server all the time."""

    def __init__(self, server: Server, ledger: Ledger) -> None:
        super().__init__(name="prober", daemon=True)
        self.server, self.ledger = server, ledger
        self.ended = threading.Event()

    def run(self) -> None:
        """Measures how long each answer takes."""
        while not self.ended.wait(PROBE_S):
            begun = now()
            answer = self.server.health(timeout_s=10.0)
            self.ledger.probes.append((begun, None if answer is None else now() - begun))


def _mount(folder: Path) -> bool:
    """Mounts a small disk in memory; whether that is allowed."""
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
