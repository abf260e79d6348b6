"""A small GitHub that keeps comments and fails in many ways, and what it sends to a webhook."""

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from fastapi.testclient import TestClient
from httpx import Response

from gedbd.service.webhook.receiver import Webhook

SECRET, REPOSITORY = "a secret of some length", "ann/mail"
TITLE = "large attachment sending stops"
HIDDEN = "a comment of a blocked account"  # on a page of comments it is left out


class Hub(ThreadingHTTPServer):
    """Keeps comments, and fails as it is told.

    Attributes:
        failures: Method, status and headers of the next answers that fail; with status 0 no answer comes.
        unanswered: Path and text of each comment that was sent and not created.
        silent: While it is set, answers do not come.
        broken: Paths that always fail with status 500.
        drips: They begin to come then, and one byte of the header follows the other.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.comments: dict[str, list[str]] = {}
        self.failures: list[tuple[Any, ...]] = []
        self.unanswered: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self.broken: set[str] = set()
        self.silent, self.drips, self.over = threading.Event(), False, threading.Event()
        self.url = f"http://127.0.0.1:{self.server_port}"

    def create(self, path: str, text: str) -> None:
        self.comments.setdefault(path, []).append(text)

    def create_unanswered(self) -> None:
        """Creates the comments whose answer said nothing of it."""
        while self.unanswered:
            self.create(*self.unanswered.pop())

    def handle_error(self, request: object, client_address: object) -> None:
        pass  # the other side has closed its connection


class Answers(BaseHTTPRequestHandler):
    server: Hub

    def answer(self, status: int, content: object, **headers: str) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(json.dumps(content).encode())

    def failed(self) -> bool:
        hub = self.server
        hub.asked.append(self.command)
        assert self.headers["Authorization"] == "Bearer t0ken"
        if hub.silent.is_set() and hub.drips:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
        while hub.silent.is_set() and not hub.over.wait(0.02):
            if hub.drips:
                self.wfile.write(b"x")
        if urlsplit(self.path).path in hub.broken:
            self.answer(500, {})
            return True
        if hub.failures and hub.failures[0][0] == self.command:
            _, status, *headers = hub.failures.pop(0)
            if status == 0:
                hub.over.wait()
                return True
            if headers and "X-Creates" in headers[0]:
                hub.create_unanswered()
            self.answer(status, {}, **(headers[0] if headers else {}))
            return True
        return False

    def do_GET(self) -> None:
        if not self.failed():
            url = urlsplit(self.path)
            page = int(parse_qs(url.query)["page"][0])
            notes = self.server.comments.get(url.path, [])
            shown = [note for note in notes[100 * (page - 1) : 100 * page] if note != HIDDEN]
            link = (
                {"Link": f'<{self.server.url}{url.path}?page={page + 1}>; rel="next"'}
                if len(notes) > 100 * page
                else {}
            )
            self.answer(200, [{"body": note} for note in shown], **link)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.unanswered.append((self.path, body["body"]))
        if not self.failed():
            self.server.create(*self.server.unanswered.pop())
            self.answer(201, {})

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def running_hub() -> Iterator[Hub]:
    server = Hub()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()


def signed(payload: object, kind: str, delivery: str = "", secret: str = SECRET) -> dict[str, Any]:
    """What GitHub sends: body and headers of a request."""
    body = payload if isinstance(payload, bytes) else json.dumps(payload).encode()
    signature = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    headers = {
        "Content-Type": "application/json",
        "X-GitHub-Event": kind,
        "X-GitHub-Delivery": delivery,
        "X-Hub-Signature-256": signature,
    }
    return {"content": body, "headers": headers}


def issue(number: int = 70, action: str = "opened", title: str = TITLE, **more: object) -> dict[str, Any]:
    own = {"number": number, "title": title, "body": None, "created_at": "2024-06-01T08:00:00Z", "state": "open"}
    own |= {"state_reason": None, "user": {"login": "bea", "type": "User"}, "labels": [], "id": 5}
    return {"action": action, "issue": own | more, "repository": {"full_name": REPOSITORY, "id": 1}, "sender": {}}


def note(text: str, number: int = 20, by: str = "ann", action: str = "created", **more: object) -> dict[str, Any]:
    comment = {"body": text, "user": {"login": by, "type": "User"}, "author_association": "MEMBER"} | more
    return issue(number, action, "Calendar shows the wrong week") | {"comment": comment}


def comments(hub: Hub, number: int = 70) -> list[str]:
    return hub.comments.get(f"/repos/{REPOSITORY}/issues/{number}/comments", [])


def until(happened: Callable[[], object], seconds: float = 10.0) -> None:
    ends = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < ends, "it did not happen in time"
        time.sleep(0.002)


def worked(hook: Webhook) -> None:
    """Waits until all deliveries are worked, and each comment was tried."""
    until(lambda: hook.inbox.waiting == 0)
    untried = "SELECT 1 FROM comments WHERE state = 'pending' AND tries = 0"
    until(lambda: hook.poster is None or not hook.file.query(untried))


class Sender:
    """Delivers signed events to a service.

    Args:
        client: The service.
        hook: Its webhook.
        waits: Whether a call returns only when the event is worked.
    """

    def __init__(self, client: TestClient, hook: Webhook, waits: Callable[[], bool] = lambda: True) -> None:
        self.client, self.hook, self.waits = client, hook, waits

    def __call__(
        self, payload: object, kind: str = "issues", delivery: str = "", secret: str = SECRET, **headers: Any
    ) -> Response:
        sent = signed(payload, kind, delivery, secret)
        answer = self.client.post("/webhooks/github", content=sent["content"], headers=sent["headers"] | headers)
        if self.waits():
            worked(self.hook)
        return answer


def counted(send: Sender, word: str) -> float:
    """How many deliveries had a result."""
    lines = send.client.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f'gedbd_webhook_total{{result="{word}"}}'))
