"""A small GitHub on this machine: gives the issues of a tracker, keeps comments, and fails in many ways."""

import json
import random
import threading
from typing import Any
from urllib.parse import parse_qs, urlsplit

from local_server import Answering, LocalServer

REPOSITORY = "ann/mail"
ISSUES = f"/repos/{REPOSITORY}/issues"
WORDS = (
    "attachment calendar filter folder printer reminder signature template toolbar inbox",
    "crashes vanishes freezes doubles flickers empties overlaps stalls leaks reorders",
    "startup shutdown printing import export search login logout backup restore",
)
NOUNS, FAULTS, PLACES = (words.split() for words in WORDS)
HIDDEN = "a comment of a blocked account"  # on a page of comments it is left out


def tracker(count: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Issues and comments: every third issue tells one of the ten before it again and is marked as its duplicate."""
    generator = random.Random(0)
    issues, comments = [], []
    for number in range(1, count + 1):
        told = [generator.choice(words) for words in (NOUNS, FAULTS, PLACES)]
        text = f"The {told[0]} {told[1]} after {told[2]}, code {number * 7919 % 99991}"
        repeats = number > 10 and number % 3 == 0
        if repeats:
            text = issues[generator.randrange(number - 11, number - 1)]["title"]
        moment = f"{2020 + number // 336}-{number // 28 % 12 + 1:02}-{number % 28 + 1:02}T10:00:00Z"
        address = f"https://github.com/{REPOSITORY}/issues/{number}"
        issue = {"number": number, "title": text, "body": text, "created_at": moment, "updated_at": moment}
        issues.append(issue | {"html_url": address, "state": "open", "labels": [], "comments": 0})
        if repeats:
            first = next(other["number"] for other in issues if other["title"] == text)
            note = {"id": number, "body": f"Duplicate of #{first}", "created_at": moment, "updated_at": moment}
            comments.append(note | {"issue_url": f"https://api.github.com{ISSUES}/{number}"})
    return issues, comments


class Answers(Answering):
    server: "SmallGitHub"

    def failed(self) -> bool:
        hub = self.server
        hub.asked.append(self.command)
        assert urlsplit(self.path).path in hub.lists or self.headers["Authorization"] == "Bearer t0ken"
        if hub.silent.is_set() and hub.drips:
            self.wfile.write(b"HTTP/1.1 200 OK\r\nX-Drip: ")
        while hub.silent.is_set() and not hub.over.wait(0.02):
            if hub.drips:
                self.wfile.write(b"x")
        if urlsplit(self.path).path in hub.broken:
            self.answer(500, {})
            return True
        if not hub.failures or hub.failures[0][0] != self.command:
            return False
        _, status, *headers = hub.failures.pop(0)
        if status == 0:
            hub.over.wait()
            return True
        if headers and "X-Creates" in headers[0]:
            hub.create_unanswered()
        self.answer(status, {}, *headers)
        return True

    def get(self) -> None:
        if self.failed():
            return
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        page, size = int(asked.get("page", ["1"])[0]), int(asked["per_page"][0])
        records = self.server.lists.get(url.path)
        if records is None:
            records = [{"body": text} for text in self.server.posted.get(url.path, [])]
        further = f"{self.server.url}{url.path}?per_page={size}&page={page + 1}"
        link = {"Link": f'<{further}>; rel="next"'} if page * size < len(records) else {}
        seen = [record for record in records[(page - 1) * size : page * size] if record["body"] != HIDDEN]
        self.answer(200, seen, link)

    def post(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.unanswered.append((self.path, body["body"]))
        if not self.failed():
            self.server.create(*self.server.unanswered.pop())
            self.answer(201, {})


class SmallGitHub(LocalServer):
    """Answers what fetching a tracker and commenting on an issue ask for, and fails as it is told.

    Attributes:
        posted: The comments, by path.
        failures: Method, status and headers of the next answers that fail; with status 0 no answer comes.
        unanswered: Path and text of each comment that was sent and not created.
        asked: The method of each request.
        broken: Paths that always fail with status 500.
        silent: While it is set, answers do not come.
        drips: They begin to come then, and one byte of the header follows the other.
    """

    handler = Answers
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64

    def __init__(self, count: int = 0) -> None:
        super().__init__()
        issues, comments = tracker(count)
        self.lists = {ISSUES: issues, f"{ISSUES}/comments": comments, f"{ISSUES}/events": []} if count else {}
        self.posted: dict[str, list[str]] = {}
        self.failures: list[tuple[Any, ...]] = []
        self.unanswered: list[tuple[str, str]] = []
        self.asked: list[str] = []
        self.broken: set[str] = set()
        self.silent, self.drips, self.over = threading.Event(), False, threading.Event()

    def shutdown(self) -> None:
        self.over.set()
        super().shutdown()

    def create(self, path: str, text: str) -> None:
        self.posted.setdefault(path, []).append(text)

    def create_unanswered(self) -> None:
        """Creates the comments whose answer said nothing of it."""
        while self.unanswered:
            self.create(*self.unanswered.pop())

    def comments(self, number: int = 70) -> list[str]:
        return self.posted.get(f"{ISSUES}/{number}/comments", [])

    def handle_error(self, request: object, client_address: object) -> None:
        """The other side has closed its connection."""
