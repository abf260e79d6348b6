"""Issues of a Jira project, with all fields, comments and their history."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from http import HTTPStatus
from typing import Any, ClassVar

from gedbd.corpora.clients import response_checks
from gedbd.corpora.clients.credentials import basic_or_bearer
from gedbd.corpora.clients.fetch import Wanted
from gedbd.corpora.clients.http import Answer, Client, Record, Trail
from gedbd.corpora.clients.http_errors import RefusedError
from gedbd.corpora.clients.page_folder import Cursor, Page

API = "/rest/api/2"  # version 3 gives texts as trees of nodes instead of text


@dataclass(frozen=True)
class Jira:
    """Jira's REST API 2: ``search``, and ``search/jql`` where that is gone, as in Jira Cloud.

    Comments and changes come with the issues; where Cloud gives only some of them, the rest is fetched.

    Args:
        base_url: Address of the Jira.
        page_size: Issues in an answer; a server may give fewer.
    """

    base_url: str
    page_size: int
    name: ClassVar[str] = "jira"
    token: ClassVar[str] = "JIRA_TOKEN"

    def secrets(self) -> Mapping[str, str]:
        """Header of ``JIRA_TOKEN``, with ``JIRA_USER`` as Cloud wants it."""
        return basic_or_bearer("JIRA_USER", self.token)

    def check(self, project: str) -> None:
        """A project is its key or its name."""
        if not project or not project.isprintable() or set('"\\') & set(project):
            raise ValueError(f"project={project} must be the key or name of a Jira project")

    def pages(self, client: Client, wanted: Wanted) -> Iterator[Page]:
        """Issues in the order in which they were created."""
        cursor: Cursor | None = wanted.start or {"start": 0}
        trail = Trail(client)
        while cursor:
            answer, cursor = self._search(client, trail, cursor, wanted)
            issues = [self._whole(client, issue) for issue in response_checks.records(answer, "issues", key="key")]
            count = answer.content.get("total")
            yield Page(issues, cursor, "issues", len(issues), count if isinstance(count, int) else None)

    def _search(self, client: Client, trail: Trail, cursor: Cursor, wanted: Wanted) -> tuple[Answer, Cursor | None]:
        if "start" in cursor:
            try:
                return self._by_offset(trail, cursor["start"], wanted)
            except RefusedError as refused:
                if refused.status != HTTPStatus.GONE or cursor["start"]:
                    raise
        try:
            return self._by_token(trail, cursor.get("token"), wanted)
        except RefusedError as refused:
            if refused.status != HTTPStatus.BAD_REQUEST or cursor is not wanted.start:
                raise
        client.say(f"{client.base_url}: the server no longer knows where it stopped; its list is read again")
        return self._by_token(trail, None, wanted)

    def _by_offset(self, trail: Trail, start: int, wanted: Wanted) -> tuple[Answer, Cursor | None]:
        answer = trail.get(f"{API}/search", self._query(wanted) | {"startAt": start})
        count = len(response_checks.records(answer, "issues", key="key"))
        end, total = start + count, response_checks.number(answer.content, "total", answer)
        if not count and end < total:
            raise response_checks.unexpected(answer, f"issues from {start:,} on, of {total:,}")
        return answer, {"start": end} if end < total else None

    def _by_token(self, trail: Trail, token: str | None, wanted: Wanted) -> tuple[Answer, Cursor | None]:
        answer = trail.get(f"{API}/search/jql", self._query(wanted) | ({"nextPageToken": token} if token else {}))
        response_checks.records(answer, "issues", key="key")
        following = answer.content.get("nextPageToken")
        return answer, {"token": following} if following and not answer.content.get("isLast") else None

    def _query(self, wanted: Wanted) -> dict[str, Any]:
        """JQL reads dates in the user's time zone, which may be a day off: so the day before counts too."""
        since = f' AND updated >= "{date.fromisoformat(wanted.since[:10]) - timedelta(days=1)}"' if wanted.since else ""
        jql = f'project = "{wanted.project}"{since} ORDER BY created ASC'
        return {"jql": jql, "maxResults": self.page_size, "fields": "*all", "expand": "changelog"}

    def _whole(self, client: Client, issue: Record) -> Record:
        """The issue with all comments and changes, where the answer held only some."""
        comment, changelog = (
            response_checks.section(issue, "fields", "comment"),
            response_checks.section(issue, "changelog"),
        )
        if is_cut(comment, "comments"):
            comment["comments"] = self._all(client, f"{API}/issue/{issue['key']}/comment", "comments")
        if is_cut(changelog, "histories"):
            changelog["histories"] = self._all(client, f"{API}/issue/{issue['key']}/changelog", "values")
        return issue

    def _all(self, client: Client, path: str, key: str) -> list[Record]:
        found: list[Record] = []
        while True:
            answer = client.get(path, {"startAt": len(found), "maxResults": 100})
            page = response_checks.records(answer, key, key="id")
            found += page
            if not page or len(found) >= response_checks.number(answer.content, "total", answer):
                return found


def is_cut(part: Record, key: str) -> bool:
    """Whether there are more than the answer holds."""
    held, count = part.get(key), part.get("total")
    return isinstance(held, list) and isinstance(count, int) and count > len(held)
