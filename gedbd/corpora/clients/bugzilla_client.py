"""Fetch the bugs of a Bugzilla product, with their comments and history."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from gedbd.corpora.clients.tracker_client import Client, PageList, Record, section
from gedbd.corpora.clients.tracker_fetch import Cursor, Page, Scope, Tracker


@dataclass(frozen=True)
class Bugzilla(Tracker):
    """Client of Bugzilla's REST API, version 5.0 or later, https://bugzilla.readthedocs.io/en/latest/api.

    A page is requested by id ("greater than the last one"), not by offset, so that no bug is skipped when another
    one moves to a different product during the fetch. The comments and the history of a page take one request each. The
    first comment of a bug is its description.
    """

    name: ClassVar[str] = "bugzilla"
    token: ClassVar[str] = "BUGZILLA_API_KEY"
    token_header: ClassVar[str] = "X-BUGZILLA-API-KEY"

    def check(self, project: str) -> None:
        """Raises ValueError for an empty name: a project is a product."""
        if not project.strip():
            raise ValueError("project= must be the name of a Bugzilla product")

    def pages(self, client: Client, scope: Scope) -> Iterator[Page]:
        """Yields the bugs in ascending order of id."""
        cursor: Cursor | None = scope.start or {"above": 0}
        page_list = PageList(client)
        while cursor:
            above = cursor["above"]
            answer = page_list.get("/rest/bug", self._query(scope, above))
            bugs = page_list.records(answer, "bugs", key="id")
            ids = [answer.number(bug, "id") for bug in bugs]
            if ids and min(ids) <= above:
                raise answer.unexpected(f"only ids above {above}")
            cursor = {"above": max(ids)} if ids else None
            # Responses do not hold the address of a bug's page: their "url" is a field that the reporter fills in.
            page = f"{self.base_url.rstrip('/')}/show_bug.cgi?id="
            linked = [bug | {"web_url": f"{page}{number}"} for bug, number in zip(bugs, ids, strict=True)]
            yield Page(with_comments(client, linked, ids), cursor, "issues", len(bugs), None)

    def _query(self, scope: Scope, above: int) -> dict[str, Any]:
        query = {"product": scope.project, "include_fields": "_default,duplicates", "order": "bug_id"}
        query |= {"last_change_time": scope.since} if scope.since else {}
        return query | {"limit": self.page_size, "f1": "bug_id", "o1": "greaterthan", "v1": above}


def with_comments(client: Client, bugs: list[Record], ids: list[int]) -> list[Record]:
    """Adds ``comments`` and ``history`` to each bug."""
    if not ids:
        return []
    comments = comments_of(client, ids)
    histories = histories_of(client, ids)
    # Some servers ignore the list of ids and answer for the first bug only: request the others one by one.
    for number in ids:
        if number not in comments:
            comments |= comments_of(client, [number])
        if number not in histories:
            histories |= histories_of(client, [number])
    return [
        bug | {"comments": comments.get(number, []), "history": histories.get(number, [])}
        for bug, number in zip(bugs, ids, strict=True)
    ]


def comments_of(client: Client, ids: list[int]) -> dict[int, list[Record]]:
    """Fetches the comments of several bugs in one request; some servers answer for the first bug only."""
    answer = client.get(f"/rest/bug/{ids[0]}/comment", {"ids": ids[1:]})
    bugs = section(answer.content, "bugs")
    if not bugs:
        raise answer.unexpected("comments under 'bugs'")
    comments = {number: section(bugs, str(number)).get("comments") for number in ids}
    return {number: listed for number, listed in comments.items() if isinstance(listed, list)}


def histories_of(client: Client, ids: list[int]) -> dict[int, list[Record]]:
    """Fetches the histories of several bugs in one request; some servers answer for the first bug only."""
    answer = client.get(f"/rest/bug/{ids[0]}/history", {"ids": ids[1:]})
    bugs = answer.records("bugs", key="id")
    return {answer.number(bug, "id"): bug.get("history", []) for bug in bugs}
