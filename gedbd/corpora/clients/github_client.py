"""Fetch the issues of a GitHub repository, with their comments and events."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from gedbd.corpora.clients.tracker_client import Answer, Client, PageList, Record, RefusedError, section, sized
from gedbd.corpora.clients.tracker_fetch import Cursor, Page, Scope, Tracker
from gedbd.io.sqlite_file import check_schema, connect_database

LONG_LIST_PAGES = 100  # GitHub may cut off a list that has this many pages
# The table keeps the name "note", so that a fetch begun with an older version can be continued.
SCHEMA = """
CREATE TABLE IF NOT EXISTS note (kind, id, issue, record, PRIMARY KEY (kind, id));
CREATE INDEX IF NOT EXISTS by_issue ON note (kind, issue)"""
UNPROCESSABLE = 422  # the status of a page beyond those that GitHub shows


def open_comments(file: Path) -> sqlite3.Connection:
    """Opens an SQLite file of comments and events; a record that arrives again replaces its older version.

    Raises:
        ValueError: The file is damaged.
        sqlite3.OperationalError: The file cannot be written.
    """
    file.parent.mkdir(0o700, parents=True, exist_ok=True)
    try:
        store = connect_database(file)
        check_schema(store, SCHEMA)
        store.executescript(SCHEMA)
    except sqlite3.OperationalError:
        raise  # the disk is full, read-only or failing: the file may be whole
    except sqlite3.DatabaseError as error:
        raise ValueError(f"{file}: damaged ({error}); fetch into another folder") from error
    return store


def comments_of(store: sqlite3.Connection, kind: str, issue: int) -> list[Record]:
    """The comments or the events of an issue, oldest first."""
    # Ids grow with time, so this is the order of creation.
    query = "SELECT record FROM note WHERE kind = ? AND issue = ? ORDER BY id"
    return [json.loads(text) for (text,) in store.execute(query, (kind, issue))]


@dataclass(frozen=True)
class GitHub(Tracker):
    """Client of GitHub's REST API, https://docs.github.com/en/rest/issues.

    Comments and events are listed for the whole repository, which takes about a hundredth of the requests needed to
    list them issue by issue. They are fetched first; each issue is then written with its own under ``comments``
    and ``events``. The copy of the issue in each event is dropped. GitHub cuts off long lists. Lists sorted from
    oldest to newest continue with ``since``, the time of the last record. Events are listed from newest to oldest
    only, so the oldest may be missing; a message then says where the list ended.

    Args:
        base_url: https://api.github.com, or https://HOST/api/v3 of GitHub Enterprise Server.
        page_size: Number of records per response, at most 100.
    """

    comments: bool  # whether to fetch comments
    name: ClassVar[str] = "github"
    token: ClassVar[str] = "GITHUB_TOKEN"

    def check(self, project: str) -> None:
        """Raises ValueError for a name other than ``owner/repo``."""
        if not re.fullmatch(r"[\w.-]+/[\w.-]+", project, re.ASCII) or {".", ".."} & set(project.split("/")):
            raise ValueError(f"project={project} must be owner/repo, as in the repository's address")

    def pages(self, client: Client, scope: Scope) -> Iterator[Page]:
        """Yields comments, then events, as pages without records, and then the issues."""
        first = self._first("comments" if self.comments else "events", scope, scope.since)
        cursor: Cursor | None = scope.start or first
        page_list = PageList(client)
        newest = None
        with closing(open_comments(scope.folder / "notes.sqlite")) as store:
            while cursor:
                answer, cursor = self._get(client, page_list, cursor, scope)
                kind = cursor["list"]
                listed = page_list.records(answer, key="number" if kind == "issues" else "id")
                records: list[Record] = []
                if kind == "issues":
                    kinds = ("comments", "events") if self.comments else ("events",)
                    for issue in listed:
                        number = answer.number(issue, "number")
                        records.append(issue | {kind: comments_of(store, kind, number) for kind in kinds})
                else:
                    rows = [stored_comment(kind, record, answer) for record in listed]
                    with store:  # all of them, or none if that fails
                        store.executemany("REPLACE INTO note VALUES (?, ?, ?, ?)", rows)
                cursor = self._next(client, cursor, answer, listed, scope)
                if cursor and cursor["pages"] == 0:
                    page_list.start_over()  # another list, or the rest of a long one, which repeats some records
                count = total(answer, self.page_size)
                # Newer responses name no last page: the newest issue's number then estimates the total.
                if kind == "issues" and cursor and not count and not scope.since:
                    count = newest = newest or self._newest(client, scope)
                yield Page(records, cursor, kind, len(listed), count)

    def _newest(self, client: Client, scope: Scope) -> int | None:
        """Number of the newest issue, an estimate of how many there are."""
        answer = client.get(f"/repos/{scope.project}/issues?state=all&sort=created&direction=desc&per_page=1")
        issues = answer.records(key="number")
        return max((answer.number(issue, "number") for issue in issues), default=None)

    def _get(self, client: Client, page_list: PageList, cursor: Cursor, scope: Scope) -> tuple[Answer, Cursor]:
        """The requested page, or the first page of the next list if GitHub shows no more of this one."""
        try:
            return page_list.get(cursor["url"]), cursor
        except RefusedError as refused:
            further = self._after_limit(client, cursor, scope) if refused.status == UNPROCESSABLE else None
            if further is None:
                raise
            page_list.start_over()
            return page_list.get(further["url"]), further

    def _first(self, kind: str, scope: Scope, since: str | None) -> Cursor:
        """The cursor at the beginning of a list; ``last`` is the time of the last record read from it."""
        path = {"comments": "issues/comments", "events": "issues/events", "issues": "issues"}[kind]
        query = "" if kind == "events" else "&sort=created&direction=asc" + (f"&since={since}" if since else "")
        state = "&state=all" if kind == "issues" else ""
        url = f"/repos/{scope.project}/{path}?per_page={self.page_size}{state}{query}"
        return {"list": kind, "url": url, "since": since, "last": None, "pages": 0}

    def _next(
        self, client: Client, cursor: Cursor, answer: Answer, listed: list[Record], scope: Scope
    ) -> Cursor | None:
        times = [answer.text(record, "created_at") for record in listed]
        current = cursor | {"pages": cursor["pages"] + 1, "last": times[-1] if times else cursor["last"]}
        # Events are listed newest first: once all events of a page are older than "since", the rest was fetched before.
        fetched_before = current["list"] == "events" and scope.since and times and max(times) < scope.since
        if "next" in answer.links and not fetched_before:
            return current | {"url": answer.links["next"]}
        if current["pages"] >= LONG_LIST_PAGES and not fetched_before:
            rest = self._after_limit(client, current, scope)
            if rest:
                return rest
        next_kind = {"comments": "events", "events": "issues"}.get(current["list"])
        return self._first(next_kind, scope, scope.since) if next_kind else None

    def _after_limit(self, client: Client, cursor: Cursor, scope: Scope) -> Cursor | None:
        """Continues a list from its last record, ``None`` if it began there; after events, issues follow."""
        last = cursor["last"]
        if last is None:
            return None
        if cursor["list"] == "events":
            client.say(f"events: GitHub lists none before {last}; older ones may be missing")
            return self._first("issues", scope, scope.since)
        since = cursor["since"] or ""
        if last < since:
            client.say(f"{cursor['list']}: GitHub ends the list at {last}; anything created later may be missing")
        return self._first(cursor["list"], scope, last) if last > since else None


def stored_comment(kind: str, record: Record, answer: Answer) -> tuple[str, int, int | None, str]:
    """The row of a comment or an event: its id, the number of its issue, and the record without a copy of the issue."""
    if kind == "events":
        issue_record = section(record, "issue")  # empty where the issue was deleted
        issue = answer.number(issue_record, "number") if issue_record else None
        record = {key: value for key, value in record.items() if key != "issue"}
    else:
        # ".../repos/owner/repo/issues/12" ends in the number of the issue.
        issue = sized(answer.text(record, "issue_url").rpartition("/")[2])
        if issue is None:
            raise answer.unexpected("an address that ends in an issue's number under 'issue_url'")
    return kind, answer.number(record, "id"), issue, json.dumps(record)


def total(answer: Answer, page_size: int) -> int | None:
    """Estimates the length of a list by the number of its last page, ``None`` for lists with cursors."""
    last = parse_qs(urlsplit(answer.links.get("last", "")).query).get("page", [""])[0]
    pages = sized(last)
    return pages * page_size if pages else None
