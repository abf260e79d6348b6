"""Issues of a GitHub repository, with their comments and events."""

import re
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from gedbd.corpora.clients import response_checks
from gedbd.corpora.clients.comment_store import Note, Notes
from gedbd.corpora.clients.credentials import bearer
from gedbd.corpora.clients.fetch import Wanted
from gedbd.corpora.clients.http import Answer, Client, Record, Trail
from gedbd.corpora.clients.http_errors import RefusedError
from gedbd.corpora.clients.page_folder import Cursor, Page

LONG = 100  # pages, from which GitHub may have ended a list before its end
TOO_FAR = 422


@dataclass(frozen=True)
class GitHub:
    """GitHub's REST API, https://docs.github.com/en/rest/issues.

    Comments and events are listed for the whole repository, which takes a hundredth of the requests that issue by issue
    would; they come first, and each issue is written with its own under ``comments`` and ``events``. An event's
    copy of the issue is left out. GitHub ends long lists early: lists by age go on with ``since``, the time of the last
    record; events can only be read from the newest on, and the notice says where they ended.

    Args:
        base_url: https://api.github.com, or https://HOST/api/v3 of an own server.
        page_size: Records in an answer, 100 at most.
        comments: Whether to fetch comments.
    """

    base_url: str
    page_size: int
    comments: bool
    name: ClassVar[str] = "github"
    token: ClassVar[str] = "GITHUB_TOKEN"

    def secrets(self) -> Mapping[str, str]:
        """Header of ``GITHUB_TOKEN``."""
        return bearer(self.token)

    def check(self, project: str) -> None:
        """A project is ``owner/repo``."""
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", project, re.ASCII) or {".", ".."} & set(project.split("/")):
            raise ValueError(f"project={project} must be owner/repo, as in the repository's address")

    def pages(self, client: Client, wanted: Wanted) -> Iterator[Page]:
        """Comments, then events, both without records of their own; then the issues."""
        first = self._first("comments" if self.comments else "events", wanted, wanted.since)
        cursor: Cursor | None = wanted.start or first
        trail, newest = Trail(client), None
        with closing(Notes(wanted.place / "notes.sqlite")) as notes:
            while cursor:
                answer, cursor = self._get(client, trail, cursor, wanted)
                kind = cursor["list"]
                found = response_checks.records(answer, key="number" if kind == "issues" else "id")
                if kind != "issues":
                    notes.add(kind, [note(kind, record, answer) for record in found])
                records = [self._whole(record, notes, answer) for record in found] if kind == "issues" else []
                cursor = self._next(client, cursor, answer, found, wanted)
                count = total(answer, self.page_size)
                if kind == "issues" and cursor and not count and not wanted.since:
                    count = newest = newest or self._newest(client, wanted)
                yield Page(records, cursor, kind, len(found), count)

    def _newest(self, client: Client, wanted: Wanted) -> int | None:
        """Number of the newest issue, and so about how many there are."""
        answer = client.get(f"/repos/{wanted.project}/issues?state=all&sort=created&direction=desc&per_page=1")
        return max(
            (
                response_checks.number(issue, "number", answer)
                for issue in response_checks.records(answer, key="number")
            ),
            default=None,
        )

    def _get(self, client: Client, trail: Trail, cursor: Cursor, wanted: Wanted) -> tuple[Answer, Cursor]:
        """The page, or where GitHub shows no more of a list, the first page of what comes after."""
        try:
            return trail.get(cursor["url"]), cursor
        except RefusedError as refused:
            further = self._after_limit(client, cursor, wanted) if refused.status == TOO_FAR else None
            if further is None:
                raise
            return trail.get(further["url"]), further

    def _first(self, kind: str, wanted: Wanted, since: str | None) -> Cursor:
        """Where a list begins; ``last`` is the time of the last record that was seen in it."""
        path = {"comments": "issues/comments", "events": "issues/events", "issues": "issues"}[kind]
        query = "" if kind == "events" else "&sort=created&direction=asc" + (f"&since={since}" if since else "")
        state = "&state=all" if kind == "issues" else ""
        url = f"/repos/{wanted.project}/{path}?per_page={self.page_size}{state}{query}"
        return {"list": kind, "url": url, "since": since, "last": None, "pages": 0}

    def _next(
        self, client: Client, cursor: Cursor, answer: Answer, found: list[Record], wanted: Wanted
    ) -> Cursor | None:
        times = [response_checks.text(record, "created_at", answer) for record in found]
        here = cursor | {"pages": cursor["pages"] + 1, "last": times[-1] if times else cursor["last"]}
        known = here["list"] == "events" and wanted.since and times and max(times) < wanted.since
        if "next" in answer.links and not known:
            return here | {"url": answer.links["next"]}
        if here["pages"] >= LONG and not known and (more := self._after_limit(client, here, wanted)):
            return more
        after = {"comments": "events", "events": "issues"}.get(here["list"])
        return self._first(after, wanted, wanted.since) if after else None

    def _after_limit(self, client: Client, cursor: Cursor, wanted: Wanted) -> Cursor | None:
        """The same list from its last record on, if that leads any further; events cannot go on."""
        last = cursor["last"]
        if last is None:
            return None
        if cursor["list"] == "events":
            client.say(f"events: GitHub shows none from before {last}, if there are any")
            return self._first("issues", wanted, wanted.since)
        since = cursor["since"] or ""
        if last < since:
            client.say(f"{cursor['list']}: GitHub ends the list with {last}; what was filed later may be missing")
        return self._first(cursor["list"], wanted, last) if last > since else None

    def _whole(self, issue: Record, notes: Notes, answer: Answer) -> Record:
        number = response_checks.number(issue, "number", answer)
        kinds = ("comments", "events") if self.comments else ("events",)
        return issue | {kind: notes.of(kind, number) for kind in kinds}


def note(kind: str, record: Record, answer: Answer) -> Note:
    """A comment or an event with the number of its issue; an event's copy of the issue goes."""
    if kind == "events":
        about = response_checks.section(record, "issue")  # empty where the issue was deleted
        issue = response_checks.number(about, "number", answer) if about else None
        record = {key: value for key, value in record.items() if key != "issue"}
    else:
        issue = response_checks.sized(response_checks.text(record, "issue_url", answer).rpartition("/")[2])
    return Note(response_checks.number(record, "id", answer), issue, record)


def total(answer: Answer, page_size: int) -> int | None:
    """About how many records a list has, from the number of its last page; lists with cursors do not tell."""
    last = parse_qs(urlsplit(answer.links.get("last", "")).query).get("page", [""])[0]
    pages = response_checks.sized(last)
    return pages * page_size if pages else None
