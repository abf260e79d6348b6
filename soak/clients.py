"""Clients that search, add, update, delete, judge and deliver events, all at once."""

import hashlib
import hmac
import json
import random
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import requests
from ledger import Answered, Ledger, now
from server import SECRET, TOKEN, Server
from small_github import FAULTS, NOUNS, PLACES, REPOSITORY

KINDS = {
    "search": 50,
    "add": 14,
    "update": 8,
    "delete": 4,
    "get": 6,
    "feedback": 6,
    "webhook": 8,
    "page": 2,
    "metrics": 2,
}
TIMEOUT_S = 60.0
SINCE = datetime(2026, 1, 1, tzinfo=UTC)


class Client(threading.Thread):
    """Sends one request after the other until it is stopped.

    Each client writes reports of its own, so that the last acknowledged write of a report is known.

    Args:
        number: Its number, which begins its ids.
        server: The service.
        ledger: Where requests and acknowledged writes are kept.
        seed: Of its choices.
        known: Titles of the tracker's issues, which new issues repeat.
    """

    def __init__(self, number: int, server: Server, ledger: Ledger, seed: int, known: Sequence[str]) -> None:
        super().__init__(name=f"client {number}", daemon=True)
        self.number, self.server, self.ledger = number, server, ledger
        self.known = known
        self.random = random.Random(f"{seed} {number}")
        self.go, self.idle, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.go.set()
        self.written: list[str] = []
        self.count = 0
        self.address = f"http://localhost:{server.port}"

    def run(self) -> None:
        """Works while it may, and says when it is idle."""
        self.session = requests.Session()
        while not self.ended.is_set():
            if not self.go.is_set():
                self.idle.set()
                self.go.wait(0.1)
                continue
            self.idle.clear()
            kind = self.random.choices(list(KINDS), list(KINDS.values()))[0]
            getattr(self, f"do_{kind}")()

    def do_search(self) -> None:
        """Searches for a new text."""
        self.ask("search", "POST", "/api/search", {"title": self.text(), "top_k": 5})

    def do_add(self) -> None:
        """Adds a report."""
        self.count += 1
        self.write("add", f"c{self.number}-{self.count}")

    def do_update(self) -> None:
        """Gives a report of its own another title."""
        if self.written:
            self.write("update", self.random.choice(self.written))

    def do_delete(self) -> None:
        """Deletes a report of its own."""
        if not self.written:
            return
        issue_id = self.written.pop(self.random.randrange(len(self.written)))
        status = self.ask("delete", "DELETE", f"/api/reports/{issue_id}")
        if status == 200:
            self.ledger.acknowledge("api", issue_id, None)
        else:
            self.ledger.doubt("api", issue_id)

    def do_get(self) -> None:
        """Reads a report of the tracker."""
        self.ask("get", "GET", f"/api/reports/{self.random.randint(1, 400)}")

    def do_feedback(self) -> None:
        """Judges a suggestion."""
        self.count += 1
        report, candidate = f"f{self.number}-{self.count}", str(self.random.randint(1, 400))
        verdict = self.random.choice(["accept", "reject"])
        body = {"report": {"issue_id": report, "title": self.text()}, "candidate": candidate, "verdict": verdict}
        if self.ask("feedback", "POST", "/api/feedback", body) == 200:
            self.ledger.acknowledge_verdict(report, candidate, verdict)

    def do_webhook(self) -> None:
        """Delivers a new issue, sometimes its edit, and sometimes the older event once more."""
        self.count += 1
        number = 100_000 * (self.number + 1) + self.count
        title = self.random.choice(self.known) if self.random.random() < 0.5 else self.text()
        moment = SINCE + timedelta(minutes=self.count)
        status = self.deliver(number, "opened", title, moment, f"d{number}-1")
        if status is None:
            return
        chance = self.random.random()
        if chance < 0.4:
            edited = self.text()
            self.deliver(number, "edited", edited, moment + timedelta(seconds=30), f"d{number}-2")
        if chance < 0.2:  # an older event that arrives last changes nothing
            self.ask_hook(number, "edited", title, moment + timedelta(seconds=10), f"d{number}-3")

    def do_page(self) -> None:
        """Opens the page."""
        self.ask("page", "GET", "/")

    def do_metrics(self) -> None:
        """Reads the metrics."""
        self.ask("metrics", "GET", "/metrics")

    def write(self, kind: str, issue_id: str) -> None:
        """Adds or updates a report of its own."""
        title = self.text()
        status = self.ask(kind, "POST", "/api/reports", {"issue_id": issue_id, "title": title})
        if status == 200:
            self.ledger.acknowledge("api", issue_id, title)
            if issue_id not in self.written:
                self.written.append(issue_id)
            return
        self.ledger.doubt("api", issue_id)
        if issue_id in self.written:
            self.written.remove(issue_id)

    def deliver(self, number: int, action: str, title: str, moment: datetime, delivery: str) -> int | None:
        """Delivers an event; None if it is not known whether it arrived."""
        status = self.ask_hook(number, action, title, moment, delivery)
        if status in (200, 202):
            self.ledger.acknowledge("webhook", str(number), title)
            return status
        self.ledger.doubt("webhook", str(number))
        return None

    def ask_hook(self, number: int, action: str, title: str, moment: datetime, delivery: str) -> int:
        """Signs and sends an event of an issue."""
        updated = moment.isoformat().replace("+00:00", "Z")
        opened = (moment - timedelta(seconds=moment.second)).isoformat().replace("+00:00", "Z")
        issue = {"number": number, "title": title, "body": title, "created_at": opened, "updated_at": updated}
        event = {"action": action, "repository": {"full_name": REPOSITORY}, "issue": issue | {"state": "open"}}
        body = json.dumps(event).encode()
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-GitHub-Event": "issues", "X-GitHub-Delivery": delivery}
        headers["X-Hub-Signature-256"] = f"sha256={signature}"
        return self.ask("webhook", "POST", "/webhooks/github", body, headers)

    def ask(
        self, kind: str, method: str, path: str, content: object = None, headers: dict[str, str] | None = None
    ) -> int:
        """Sends one request and keeps what came of it; gives the status, 0 for a broken connection."""
        sent = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"} | (headers or {})
        body = content if isinstance(content, bytes) else None if content is None else json.dumps(content).encode()
        begun = now()
        status, has_retry_after = 0, False
        try:
            answer = self.session.request(method, self.address + path, data=body, headers=sent, timeout=TIMEOUT_S)
            status, has_retry_after = answer.status_code, "retry-after" in answer.headers
            if status == 502:  # the proxy found no service
                status = 0
        except requests.RequestException:
            self.session.close()
        self.ledger.answered(Answered(begun, kind, status, now() - begun, has_retry_after))
        if status in (0, 503):
            self.ended.wait(0.2)  # as a client does that is told to come back
        return status

    def text(self) -> str:
        """A title in the words of the tracker."""
        words = [self.random.choice(choices) for choices in (NOUNS, FAULTS, PLACES)]
        return f"The {words[0]} {words[1]} after {words[2]}, code {self.random.randrange(99991)}"


def pause(clients: list[Client]) -> None:
    """Waits until no client asks anything."""
    for client in clients:
        client.go.clear()
    for client in clients:
        client.idle.wait(TIMEOUT_S)


def resume(clients: list[Client]) -> None:
    """Lets all clients work."""
    for client in clients:
        client.idle.clear()
        client.go.set()
