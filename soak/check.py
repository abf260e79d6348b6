"""What must hold in the end: nothing acknowledged is lost, and answers are those of a fresh process."""

import math
import sqlite3
import time
from collections.abc import Sequence
from typing import Any

import requests
from ledger import Ledger
from server import TOKEN, Server

MAX_DRAIN_S = 120.0
HEADERS = {"Authorization": f"Bearer {TOKEN}"}


def lost(server: Server, ledger: Ledger) -> list[str]:
    """Acknowledged writes that the service does not know; issues of the webhook may take a while to arrive."""
    missing = [f"report {report}" for report, title in ledger.reports.items() if stored_title(server, report) != title]
    deadline = time.monotonic() + MAX_DRAIN_S
    waiting = dict(ledger.issues)
    while waiting and time.monotonic() < deadline:
        waiting = {issue: title for issue, title in waiting.items() if stored_title(server, issue) != title}
        time.sleep(0.2)
    missing += [f"issue {issue}" for issue in waiting]
    stored = verdicts(server)
    missing += [f"feedback on {pair}" for pair, verdict in ledger.verdicts.items() if stored.get(pair) != verdict]
    return missing


def stored_title(server: Server, issue_id: str) -> str | None:
    """Title of a stored report; None if there is none."""
    address = f"http://localhost:{server.port}/api/reports/{issue_id}"
    for _ in range(20):
        answer = requests.get(address, headers=HEADERS, timeout=30)
        if answer.status_code == 200:
            return str(answer.json()["title"])
        if answer.status_code == 404:
            return None
        time.sleep(0.5)
    raise RuntimeError(f"{address} answers {answer.status_code}")


def verdicts(server: Server) -> dict[tuple[str, str], str]:
    """What is stored as feedback, by report and candidate."""
    store = sqlite3.connect(f"file:{server.index / 'feedback.sqlite'}?mode=ro", uri=True)
    try:
        rows = store.execute("SELECT issue_id, candidate, verdict FROM events ORDER BY number").fetchall()
    finally:
        store.close()
    return {(str(report), str(candidate)): str(verdict) for report, candidate, verdict in rows}


def answers(server: Server, titles: Sequence[str]) -> list[Any]:
    """What the service finds for some titles."""
    address = f"http://localhost:{server.port}/api/search"
    matches = []
    for title in titles:
        answer = requests.post(address, json={"title": title, "top_k": 20}, headers=HEADERS, timeout=60)
        matches.append(answer.json())
    return matches


def settled_answers(server: Server, titles: Sequence[str]) -> list[Any]:
    """The same once events that wait have been worked through, and two rounds agree."""
    wait_for_deliveries(server)
    deadline = time.monotonic() + MAX_DRAIN_S
    before = answers(server, titles)
    while time.monotonic() < deadline:
        time.sleep(1.0)
        after = answers(server, titles)
        if after == before:
            return after
        before = after
    raise RuntimeError("the answers do not settle")


def wait_for_deliveries(server: Server) -> None:
    """Waits until no delivery of the webhook waits; an error if none was worked through for ``MAX_DRAIN_S``."""
    address = f"http://localhost:{server.port}/metrics"
    fewest = math.inf
    since = time.monotonic()
    while True:
        metrics = requests.get(address, headers=HEADERS, timeout=30).text
        waiting = float(metrics.partition("\ngedbd_webhook_waiting ")[2].split()[0])
        if not waiting:
            return
        if waiting < fewest:
            fewest = waiting
            since = time.monotonic()
        elif time.monotonic() - since > MAX_DRAIN_S:
            raise RuntimeError(f"{waiting:.0f} deliveries wait, and none is worked through")
        time.sleep(1.0)


def comment_states(server: Server) -> dict[str, int]:
    """How many comments are posted, wait, or were given up."""
    store = sqlite3.connect(f"file:{server.index / 'webhook.sqlite'}?mode=ro", uri=True)
    try:
        return dict(
            store.execute("SELECT state, count(*) FROM events WHERE kind = 'comment' GROUP BY state").fetchall()
        )
    finally:
        store.close()
