"""A small GitHub on this machine: gives the issues of a tracker, and keeps comments."""

import json
import random
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

REPOSITORY = "ann/mail"
ISSUES = f"/repos/{REPOSITORY}/issues"
NOUNS = [
    "attachment",
    "calendar",
    "filter",
    "folder",
    "printer",
    "reminder",
    "signature",
    "template",
    "toolbar",
    "inbox",
]
FAULTS = ["crashes", "vanishes", "freezes", "doubles", "flickers", "empties", "overlaps", "stalls", "leaks", "reorders"]
PLACES = ["startup", "shutdown", "printing", "import", "export", "search", "login", "logout", "backup", "restore"]


def tracker(count: int, careless_from: int | None) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Issues and comments: every third issue tells one of the ten before it again and is marked as its duplicate.

    Args:
        count: How many issues.
        careless_from: From this issue on, only every fourth duplicate is marked.
    """
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
        if repeats and (careless_from is None or number < careless_from or number % 12 == 0):
            first = next(other["number"] for other in issues if other["title"] == text)
            note = {"id": number, "body": f"Duplicate of #{first}", "created_at": moment, "updated_at": moment}
            comments.append(note | {"issue_url": f"https://api.github.com{ISSUES}/{number}"})
    return issues, comments


class SmallGitHub(ThreadingHTTPServer):
    """Answers what fetching a tracker and commenting on an issue ask for."""

    def __init__(self, careless_from: int | None = None, count: int = 400) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        issues, comments = tracker(count, careless_from)
        self.lists = {ISSUES: issues, f"{ISSUES}/comments": comments, f"{ISSUES}/events": []}
        self.posted: dict[str, list[str]] = {}
        self.url = f"http://127.0.0.1:{self.server_port}"

    def create(self, path: str, body: str) -> None:
        """Keeps a comment."""
        self.posted.setdefault(path, []).append(body)


class Answers(BaseHTTPRequestHandler):
    server: SmallGitHub

    def answer(self, status: int, content: object, **headers: str) -> None:
        body = json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        asked = parse_qs(url.query)
        records = self.server.lists.get(url.path)
        if records is None:
            self.answer(200, [{"body": body} for body in self.server.posted.get(url.path, [])])
            return
        page, size = int(asked.get("page", ["1"])[0]), int(asked["per_page"][0])
        further = f"{self.server.url}{url.path}?per_page={size}&page={page + 1}"
        link = {"Link": f'<{further}>; rel="next"'} if page * size < len(records) else {}
        self.answer(200, records[(page - 1) * size : page * size], **link)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.create(self.path, body["body"])
        self.answer(201, {})

    def log_message(self, format: str, *args: object) -> None:
        pass
