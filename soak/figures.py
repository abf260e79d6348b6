"""The figures of a soak test, and which of its limits were broken."""

import json
import os
import platform
from collections import Counter
from datetime import date
from pathlib import Path

from check import comment_states
from faults import Faults
from ledger import Ledger
from rich.console import Console
from rich.table import Table

HEALTH_LIMIT_S = 1.0
STOP_LIMIT_S = 10.0
MAX_EXAMPLES = 20


def figures_of(
    ledger: Ledger,
    faults: Faults,
    injected: Counter[str],
    differing: int,
    missing: list[str],
    memory: dict[str, float],
    minutes: float,
    seed: int,
) -> dict[str, object]:
    """All figures, and which of the limits were broken."""
    slow = ledger.slow_probes(HEALTH_LIMIT_S)
    outside, failures = ledger.outside(), ledger.failures()
    stops = max(seconds for _, seconds in faults.stops)
    log = faults.server.log.read_text(errors="replace")
    states = comment_states(faults.server)
    comments = faults.hub.comments()
    twice = [path for path, bodies in comments.items() if len(bodies) > 1]
    cases_of: dict[str, list[object]] = {
        "acknowledged writes lost": list(missing),
        "answers that differ after a restart": ["one"] * differing,
        "5xx or broken connections outside of faults": [answer._asdict() for answer in outside],
        "5xx that are not 503 with Retry-After": list(failures.elements()),
        "health checks over 1 s": list(slow),
        "SIGTERM to exit over 10 s": [stop for stop in faults.stops if stop[1] > STOP_LIMIT_S],
        "tracebacks in the log": ["one"] * log.count("Traceback (most recent call last)"),
        "issues with two comments": list(twice),
        "comments given up": ["one"] * states.get("failed", 0),
        "second servers that were not refused": list(faults.not_refused),
    }
    up = [seconds for _, seconds in ledger.probes if seconds is not None]
    return {
        "minutes": minutes,
        "seed": seed,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}",
        "proxy": Path(faults.server.proxy_program or "none").name,
        "date": date.today().isoformat(),
        "requests": len(ledger.answers),
        "requests by kind": dict(Counter(answer.kind for answer in ledger.answers)),
        "answers by status": {
            str(key): count for key, count in Counter(answer.status for answer in ledger.answers).items()
        },
        "acknowledged writes": ledger.writes,
        "faults": dict(injected),
        "health checks": len(ledger.probes),
        "slowest health check (s)": round(max(up), 3),
        "slowest exit after SIGTERM (s)": round(stops, 2),
        "exits": [f"{name}: {seconds:.2f} s" for name, seconds in faults.stops],
        "memory (MB)": {name: round(value) for name, value in memory.items()},
        "memory of each process, started and ended (MB)": [[round(size) for size in pair] for pair in faults.memory],
        "comments": states,
        "comments created without a clear answer": dict(faults.hub.unclear),
        "must be 0": {name: len(cases) for name, cases in cases_of.items()},
        "broken": {name: cases[:MAX_EXAMPLES] for name, cases in cases_of.items() if cases},
    }


def show_figures(figures: dict[str, object], console: Console) -> None:
    table = Table("figure", "value", title="soak test")
    for name, value in figures.items():
        table.add_row(name, json.dumps(value) if not isinstance(value, str) else value)
    console.print(table)
    if not {"full disk", "clock set back"} <= set(figures["faults"]):  # type: ignore[call-overload]
        console.print("not injected: a full disk needs the right to mount, another clock a C compiler")
