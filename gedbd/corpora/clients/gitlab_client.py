"""Fetch the issues of a GitLab project, with the notes of those that were closed."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar
from urllib.parse import quote, urlencode

from gedbd.corpora.clients.tracker_client import Answer, Client, PageList, Record, sized
from gedbd.corpora.clients.tracker_fetch import Cursor, Page, Scope, Tracker

MAX_OFFSET = 40_000  # records; GitLab refuses pages beyond 50,000


@dataclass(frozen=True)
class GitLab(Tracker):
    """Client of GitLab's REST API, https://docs.gitlab.com/api/issues.

    GitLab lists notes issue by issue only. They are requested for closed issues only, since they may name the original,
    and written under ``notes``. Long lists continue with ``created_after``, the creation date of the last issue.

    Args:
        base_url: https://gitlab.com, or the address of another server.
        page_size: Number of records per response, at most 100.
    """

    comments: bool  # whether to fetch the notes of closed issues
    name: ClassVar[str] = "gitlab"
    token: ClassVar[str] = "GITLAB_TOKEN"
    token_header: ClassVar[str] = "PRIVATE-TOKEN"

    def check(self, project: str) -> None:
        """Raises ValueError for an empty name: a project is named by its path or its number."""
        if not project.strip("/"):
            raise ValueError(f"project={project} must be group/project, as in the project's address, or its number")

    def pages(self, client: Client, scope: Scope) -> Iterator[Page]:
        """Yields the issues in chronological order."""
        path = f"/api/v4/projects/{quote(scope.project.strip('/'), safe='')}/issues"
        cursor: Cursor | None = scope.start or {"url": self._first(path, scope, None), "read": 0, "had": 0}
        page_list = PageList(client)
        while cursor:
            answer = page_list.get(cursor["url"])
            issues = page_list.records(answer, key="iid")
            # X-Total counts from created_after on: add the number of issues read before.
            rest = sized(answer.headers.get("X-Total"))
            if rest is not None and rest < cursor.get("rest", 0):
                # The issues after a deleted one have moved up, the first ones to the previous page.
                client.say(f"{client.base_url}: issues were deleted or moved during the fetch; continuing by date")
                page_list.start_over()
                cursor = self._restart(cursor, path, scope, cursor["last"])
                continue
            complete = [self._with_notes(client, path, issue, answer) for issue in issues]
            earlier = cursor["had"]
            cursor = self._next(cursor | {"rest": rest or 0}, path, answer, issues, scope)
            yield Page(complete, cursor, "issues", len(complete), None if rest is None else earlier + rest)

    def _first(self, path: str, scope: Scope, created_after: str | None) -> str:
        query = {"scope": "all", "order_by": "created_at", "sort": "asc", "per_page": self.page_size}
        query |= {"updated_after": scope.since} if scope.since else {}
        query |= {"created_after": created_after} if created_after else {}
        return f"{path}?{urlencode(query)}"

    def _next(self, cursor: Cursor, path: str, answer: Answer, issues: list[Record], scope: Scope) -> Cursor | None:
        url = next_url(answer)
        if url is None or not issues:
            return None
        last = answer.text(issues[-1], "created_at")
        next_cursor = cursor | {"url": url, "read": cursor["read"] + len(issues), "last": last}
        return next_cursor if next_cursor["read"] < MAX_OFFSET else self._restart(next_cursor, path, scope, last)

    def _restart(self, cursor: Cursor, path: str, scope: Scope, last: str) -> Cursor:
        """The cursor for the rest of the list, from the creation of an issue on."""
        return {"url": self._first(path, scope, last), "read": 0, "had": cursor["had"] + cursor["read"]}

    def _with_notes(self, client: Client, path: str, issue: Record, answer: Answer) -> Record:
        """The issue, with its notes if it is closed and ``comments`` is set."""
        if not self.comments or issue.get("state") != "closed":
            return issue
        notes: list[Record] = []
        query = urlencode({"sort": "asc", "order_by": "created_at", "per_page": 100})
        url: str | None = f"{path}/{answer.number(issue, 'iid')}/notes?{query}"
        page_list = PageList(client)
        while url:
            answer = page_list.get(url)
            notes += page_list.records(answer, key="id")
            url = next_url(answer)
        return issue | {"notes": notes}


def next_url(answer: Answer) -> str | None:
    """The next page's address: from ``Link`` or, if a proxy removed that header, from the page's number."""
    if "next" in answer.links:
        return answer.links["next"]
    page = sized(answer.headers.get("X-Next-Page"))
    if page is None:
        return None
    # "?scope=all&page=2" -> "?scope=all&page=3"
    bare = "&".join(part for part in answer.url.split("&") if not part.startswith("page="))
    return f"{bare}&page={page}"
