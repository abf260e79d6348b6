"""Fetch the issues of a Jira project, with all fields, their comments and their history."""

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from http import HTTPStatus
from typing import Any, ClassVar
from urllib.parse import quote

from gedbd.corpora.clients.tracker_client import Answer, Client, PageList, Record, RefusedError, section
from gedbd.corpora.clients.tracker_fetch import Cursor, Page, Scope, Tracker
from gedbd.io.http import read_secret

API = "/rest/api/2"  # version 3 returns texts as trees of nodes


@dataclass(frozen=True)
class Jira(Tracker):
    """Client of Jira's REST API 2: ``search``, or ``search/jql`` where that was removed, as in Jira Cloud.

    Comments and changes arrive with the issues. If Jira Cloud returns only some of them, the rest is fetched.
    """

    name: ClassVar[str] = "jira"
    token: ClassVar[str] = "JIRA_TOKEN"

    def secrets(self) -> Mapping[str, str]:
        """The header that holds ``JIRA_TOKEN``, with ``JIRA_USER`` as Jira Cloud requires."""
        user = read_secret("JIRA_USER")
        token = read_secret(self.token)
        if user and not token:
            raise ValueError("JIRA_USER is set but JIRA_TOKEN is not: set both or neither")
        if not user:
            return super().secrets()
        return {"Authorization": "Basic " + base64.b64encode(f"{user}:{token}".encode()).decode()}

    def check(self, project: str) -> None:
        """Raises ValueError for a name that JQL cannot quote: a project is named by its key or its name."""
        if not project or not project.isprintable() or set('"\\') & set(project):
            raise ValueError(f"project={project} must be the key or name of a Jira project")

    def pages(self, client: Client, scope: Scope) -> Iterator[Page]:
        """Yields the issues in chronological order."""
        cursor: Cursor | None = scope.start or {"start": 0}
        page_list = PageList(client)
        while cursor:
            answer, cursor = self._search(client, page_list, cursor, scope)
            issues = [
                self._with_all_parts(client, issue, answer) for issue in page_list.records(answer, "issues", key="key")
            ]
            count = answer.content.get("total")
            yield Page(issues, cursor, "issues", len(issues), count if isinstance(count, int) else None)

    def _search(
        self, client: Client, page_list: PageList, cursor: Cursor, scope: Scope
    ) -> tuple[Answer, Cursor | None]:
        if "start" in cursor:
            try:
                return self._by_offset(client, page_list, cursor, scope)
            except RefusedError as refused:
                # Jira Cloud removed this address; one that disappears in the middle of a list is an error.
                if refused.status != HTTPStatus.GONE or cursor["start"]:
                    raise
        try:
            return self._by_token(page_list, cursor.get("token"), scope)
        except RefusedError as refused:
            # The token of an interrupted fetch may have expired; a token that was just received has not.
            if refused.status != HTTPStatus.BAD_REQUEST or cursor is not scope.start:
                raise
        client.say(f"{client.base_url}: the page token has expired; reading the list again")
        return self._by_token(page_list, None, scope)

    def _by_offset(
        self, client: Client, page_list: PageList, cursor: Cursor, scope: Scope
    ) -> tuple[Answer, Cursor | None]:
        start = cursor["start"]
        answer, count, total = self._page(page_list, start, scope)
        num_deleted = cursor.get("total", 0) - total
        if num_deleted > 0 and start:
            # The issues after a deleted one have moved up, the first ones to a page that was read before. One more page
            # is read again, as new issues may have hidden further deletions.
            client.say(f"{client.base_url}: issues were deleted or moved during the fetch; reading some again")
            page_list.start_over()
            start = max(0, start - num_deleted - self.page_size)
            answer, count, total = self._page(page_list, start, scope)
        end = start + count
        if not count and end < total:
            raise answer.unexpected(f"issues from {start:,} on, out of {total:,}")
        return answer, {"start": end, "total": total} if end < total else None

    def _page(self, page_list: PageList, start: int, scope: Scope) -> tuple[Answer, int, int]:
        """A page by offset, its number of issues, and the length of the whole list."""
        answer = page_list.get(f"{API}/search", self._query(scope) | {"startAt": start})
        count = len(answer.records("issues", key="key"))
        return answer, count, answer.number(answer.content, "total")

    def _by_token(self, page_list: PageList, token: str | None, scope: Scope) -> tuple[Answer, Cursor | None]:
        answer = page_list.get(f"{API}/search/jql", self._query(scope) | ({"nextPageToken": token} if token else {}))
        answer.records("issues", key="key")
        next_token = answer.content.get("nextPageToken")
        return answer, {"token": next_token} if next_token and not answer.content.get("isLast") else None

    def _query(self, scope: Scope) -> dict[str, Any]:
        since = ""
        if scope.since:
            # JQL reads dates in the user's time zone, which may be a day off: start a day early.
            day = date.fromisoformat(scope.since[:10]) - timedelta(days=1)
            since = f' AND updated >= "{day}"'
        jql = f'project = "{scope.project}"{since} ORDER BY created ASC'
        return {"jql": jql, "maxResults": self.page_size, "fields": "*all", "expand": "changelog"}

    def _with_all_parts(self, client: Client, issue: Record, answer: Answer) -> Record:
        """Fetches the comments and changes that the response left out."""
        comment = section(issue, "fields", "comment")
        changelog = section(issue, "changelog")
        address = f"{API}/issue/{quote(answer.text(issue, 'key'), safe='')}"
        if is_cut(comment, "comments"):
            comment["comments"] = self._all(client, f"{address}/comment", "comments")
        if is_cut(changelog, "histories"):
            changelog["histories"] = self._all(client, f"{address}/changelog", "values")
        return issue

    def _all(self, client: Client, path: str, key: str) -> list[Record]:
        entries: list[Record] = []
        page_list = PageList(client)
        while True:
            answer = page_list.get(path, {"startAt": len(entries), "maxResults": 100})
            page = page_list.records(answer, key, key="id")
            entries += page
            if not page or len(entries) >= answer.number(answer.content, "total"):
                return entries


def is_cut(part: Record, key: str) -> bool:
    """Whether the response holds only some of the entries."""
    held = part.get(key)
    count = part.get("total")
    return isinstance(held, list) and isinstance(count, int) and count > len(held)
