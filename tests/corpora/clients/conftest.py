"""A tracker on this machine that answers with small hand-written records, and misbehaves on request."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
from chat_server import Reply
from local_server import Answering, LocalServer, running

from gedbd.corpora.clients.bugzilla_client import Bugzilla
from gedbd.corpora.clients.github_client import GitHub
from gedbd.corpora.clients.gitlab_client import GitLab
from gedbd.corpora.clients.jira_client import Jira
from gedbd.corpora.clients.tracker_client import Client
from gedbd.corpora.clients.tracker_fetch import Cursor, Page, Scope, Tracker

VARIABLES = ("GITHUB_TOKEN", "GITLAB_TOKEN", "JIRA_TOKEN", "JIRA_USER", "BUGZILLA_API_KEY")
Query = dict[str, list[str]]


class Handler(Answering):
    server: "TrackerServer"

    def get(self) -> None:
        self.server.asked.append(self.path)
        self.server.headers.append(dict(self.headers))
        parts = urlsplit(self.path)
        faults = self.server.faults
        reply = faults.pop(0) if faults else self.server.answer(parts.path, parse_qs(parts.query))
        self.answer(reply.status, reply.content, reply.headers, reply.sent)


class TrackerServer(LocalServer):
    """Answers with ``faults`` first, each once, then as ``answer`` says."""

    handler = Handler

    def __init__(self) -> None:
        super().__init__()
        self.faults: list[Reply] = []
        self.asked: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.answer: Callable[[str, Query], Reply] = lambda path, query: Reply({"message": "Not Found"}, 404)

    def client(self, secrets: dict[str, str] | None = None, max_wait_s: float = 3900) -> tuple[Client, list[float]]:
        """A client that does not sleep but notes how long it would."""
        slept: list[float] = []
        return Client(self.url, secrets or {}, "SOME_TOKEN", max_wait_s, print, sleep=slept.append), slept


@pytest.fixture(autouse=True)
def _no_secrets(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def server() -> Iterator[TrackerServer]:
    with running(TrackerServer()) as server:
        yield server


@pytest.fixture
def other_server() -> Iterator[TrackerServer]:
    with running(TrackerServer()) as server:
        yield server


@pytest.fixture
def reply() -> type[Reply]:
    return Reply


@pytest.fixture
def make_client() -> Callable[..., Client]:
    """Makes clients that wait without sleeping."""
    return partial(Client, sleep=lambda seconds: None)


def paged(server: TrackerServer, path: str, query: Query, rows: list[Any], size: str = "per_page") -> Reply:
    """A page of ``rows``, with links to the next and the last one as GitHub and GitLab write them."""
    count, page = int(query[size][0]), int(query.get("page", ["1"])[0])
    bare = {name: values[0] for name, values in query.items() if name != "page"}
    last = max(1, -(-len(rows) // count))
    places = {"next": page + 1, "last": last} if page < last else {}
    links = [f'<{server.url}{path}?{urlencode(bare | {"page": n})}>; rel="{name}"' for name, n in places.items()]
    return Reply(rows[(page - 1) * count : page * count], headers={"Link": ", ".join(links)} if links else {})


def day(number: int) -> str:
    return f"2024-01-{number:02}T10:00:00Z"


class Records:
    """The records of a project on a tracker."""

    project: str
    key: str
    tracker: Tracker

    def __init__(self, server: TrackerServer) -> None:
        self.server = server
        self.said: list[str] = []  # what was shown to the user
        server.answer = self.answer

    def whole(self, since: str | None = None, start: Cursor | None = None, folder: Path | None = None) -> list[Page]:
        """All pages."""
        client, _ = self.server.client()
        client.say = self.said.append
        return list(self.tracker.pages(client, Scope(self.project, since, start, folder)))  # type: ignore[arg-type]

    def by_key(self, pages: list[Page]) -> dict[Any, dict[str, Any]]:
        """Issues by id, in order."""
        return {issue[self.key]: issue for page in pages for issue in page.records}


class GitHubRecords(Records):
    """Seven issues; 3 was marked a duplicate of 1 and renamed, comments lie at 1 and 3."""

    project = "owner/repo"
    key = "number"

    def __init__(self, server: TrackerServer) -> None:
        super().__init__(server)
        self.tracker = GitHub(server.url, page_size=2, comments=True)
        self.issues = [
            {"number": n, "title": f"fault {n}", "created_at": day(n), "updated_at": day(n), "comments": 0}
            for n in range(1, 8)
        ]
        self.comments = [self.comment(11, 1, day(8)), self.comment(12, 3, day(9)), self.comment(13, 3, day(10))]
        self.events = [self.event(21, 3, "marked_as_duplicate", day(9)), self.event(22, 3, "renamed", day(10))]

    def comment(self, key: int, issue: int, time: str) -> dict[str, Any]:
        url = f"{self.server.url}/repos/owner/repo/issues/{issue}"
        return {"id": key, "issue_url": url, "created_at": time, "updated_at": time, "body": f"text {key}"}

    def event(self, key: int, issue: int, kind: str, time: str) -> dict[str, Any]:
        return {"id": key, "event": kind, "created_at": time, "issue": {"number": issue, "body": "all of it"}}

    def answer(self, path: str, query: Query) -> Reply:
        since = query.get("since", [""])[0]
        if path == "/repos/owner/repo/issues/events":
            return paged(self.server, path, query, self.events[::-1])
        rows = {"/repos/owner/repo/issues": self.issues, "/repos/owner/repo/issues/comments": self.comments}.get(path)
        if rows is None:
            return Reply({"message": "Not Found"}, 404)
        return paged(self.server, path, query, [row for row in rows if row["updated_at"] >= since])

    def change(self) -> set[str]:
        """Somebody comments on 2, and somebody files 8."""
        self.issues[1]["updated_at"] = "2999-01-01T00:00:00Z"
        self.comments.append(self.comment(14, 2, "2999-01-01T00:00:00Z"))
        late = "2999-01-02T00:00:00Z"
        self.issues.append({"number": 8, "title": "fault 8", "created_at": late, "updated_at": late, "comments": 0})
        return {"2", "8"}


class GitLabRecords(Records):
    """Five issues, of which 2 and 4 are closed and have notes."""

    project = "group/sub/repo"
    key = "iid"

    def __init__(self, server: TrackerServer) -> None:
        super().__init__(server)
        self.tracker = GitLab(server.url, page_size=2, comments=True)
        self.issues = [
            {"iid": n, "created_at": day(n), "updated_at": day(n), "state": "opened" if n % 2 else "closed"}
            for n in range(1, 6)
        ]

    def answer(self, path: str, query: Query) -> Reply:
        root = "/api/v4/projects/group%2Fsub%2Frepo/issues"
        if path == root:
            updated, created = (query.get(name, [""])[0] for name in ("updated_after", "created_after"))
            rows = [row for row in self.issues if row["updated_at"] >= updated and row["created_at"] >= created]
            reply = paged(self.server, path, query, rows)
            return reply._replace(headers={**reply.headers, "X-Total": str(len(rows))})
        if path in {f"{root}/2/notes", f"{root}/4/notes"}:
            notes = [{"id": n, "system": True, "body": f"marked as a duplicate of #{n}"} for n in range(1, 4)]
            return paged(self.server, path, query | {"per_page": ["2"]}, notes)
        return Reply({"message": "404 Project Not Found"}, 404)

    def change(self) -> set[str]:
        self.issues[2]["updated_at"] = "2999-01-01T00:00:00Z"
        return {"3"}


class JiraRecords(Records):
    """Five issues of a Jira Server."""

    project = "MAIL"
    key = "key"

    def __init__(self, server: TrackerServer) -> None:
        super().__init__(server)
        self.tracker = Jira(server.url, page_size=2)
        self.issues = [
            {
                "key": f"MAIL-{n}",
                "fields": {"comment": {"comments": [{"id": "1"}], "total": 1}},
                "changelog": {"histories": [], "total": 0},
            }
            for n in range(1, 6)
        ]
        self.changed: list[str] = []

    def rows(self, query: Query) -> list[Any]:
        return [row for row in self.issues if "updated" not in query["jql"][0] or row["key"] in self.changed]

    def answer(self, path: str, query: Query) -> Reply:
        if path != "/rest/api/2/search":
            return Reply({"errorMessages": ["no such thing"]}, 404)
        rows, start, count = self.rows(query), int(query["startAt"][0]), int(query["maxResults"][0])
        return Reply({"issues": rows[start : start + count], "total": len(rows), "startAt": start})

    def change(self) -> set[str]:
        self.changed = ["MAIL-2", "MAIL-4"]
        return set(self.changed)


class BugzillaRecords(Records):
    """Five reports with gaps between their ids."""

    project = "Mail Client"
    key = "id"

    def __init__(self, server: TrackerServer) -> None:
        super().__init__(server)
        self.tracker = Bugzilla(server.url, page_size=2)
        self.bugs = [{"id": n, "product": "Mail Client", "changed": day(n)} for n in (3, 4, 9, 10, 12)]
        self.lists_of_ids = True

    def answer(self, path: str, query: Query) -> Reply:
        if path == "/rest/bug":
            above, since = int(query["v1"][0]), query.get("last_change_time", [""])[0]
            assert (query["f1"], query["o1"], query["order"]) == (["bug_id"], ["greaterthan"], ["bug_id"])
            wanted = query["product"] == ["Mail Client"]
            bugs = [bug for bug in self.bugs if wanted and bug["id"] > above and bug["changed"] >= since]
            return Reply({"bugs": bugs[: int(query["limit"][0])]})
        _, _, _, first, what = path.split("/")
        ids = [first, *(query.get("ids", []) if self.lists_of_ids else [])]
        if what == "comment":
            return Reply({"bugs": {n: {"comments": [{"id": 1, "text": f"about {n}"}]} for n in ids}})
        return Reply({"bugs": [{"id": int(n), "history": [{"when": day(1), "changes": []}]} for n in ids]})

    def change(self) -> set[str]:
        self.bugs[1]["changed"] = "2999-01-01T00:00:00Z"
        return {"4"}


RECORDS = {"github": GitHubRecords, "gitlab": GitLabRecords, "jira": JiraRecords, "bugzilla": BugzillaRecords}


@pytest.fixture
def github(server):
    return GitHubRecords(server)


@pytest.fixture
def gitlab(server):
    return GitLabRecords(server)


@pytest.fixture
def jira(server):
    return JiraRecords(server)


@pytest.fixture
def bugzilla(server):
    return BugzillaRecords(server)


@pytest.fixture
def records_of(server):
    """Makes the records of a tracker by its name."""
    return lambda name: RECORDS[name](server)


@pytest.fixture(params=list(RECORDS))
def any_tracker(request, records_of):
    return records_of(request.param)
