"""Reports of a Bugzilla product, with comments and history."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from gedbd.corpora.clients import response_checks
from gedbd.corpora.clients.credentials import plain_header
from gedbd.corpora.clients.fetch import Wanted
from gedbd.corpora.clients.http import Client, Record
from gedbd.corpora.clients.page_folder import Cursor, Page


@dataclass(frozen=True)
class Bugzilla:
    """Bugzilla's REST API from 5.0 on, https://bugzilla.readthedocs.io/en/latest/api.

    Pages are asked for by id ("greater than the last"), not by offset, so that nothing is passed over when a report
    moves to another product meanwhile. A page's comments and history take a request each; the first comment is the
    description.

    Args:
        base_url: Address of the Bugzilla.
        page_size: Reports in an answer.
    """

    base_url: str
    page_size: int
    name: ClassVar[str] = "bugzilla"
    token: ClassVar[str] = "BUGZILLA_API_KEY"

    def secrets(self) -> Mapping[str, str]:
        """Header of ``BUGZILLA_API_KEY``."""
        return plain_header("X-BUGZILLA-API-KEY", self.token)

    def check(self, project: str) -> None:
        """A project is a product's name."""
        if not project.strip():
            raise ValueError("project= must be the name of a Bugzilla product")

    def pages(self, client: Client, wanted: Wanted) -> Iterator[Page]:
        """Reports by id."""
        cursor: Cursor | None = wanted.start or {"above": 0}
        while cursor:
            above = cursor["above"]
            answer = client.get("/rest/bug", self._query(wanted, above))
            bugs = response_checks.records(answer, "bugs", key="id")
            ids = [response_checks.number(bug, "id", answer) for bug in bugs]
            if ids and min(ids) <= above:
                raise response_checks.unexpected(answer, f"only ids above {above}")
            cursor = {"above": max(ids)} if ids else None
            linked = [bug | {"web_url": self._page(number)} for bug, number in zip(bugs, ids, strict=True)]
            yield Page(with_notes(client, linked, ids), cursor, "issues", len(bugs), None)

    def _page(self, number: int) -> str:
        """Address of a report's page, which the server's answers do not hold: their ``url`` is the reporter's."""
        return f"{self.base_url.rstrip('/')}/show_bug.cgi?id={number}"

    def _query(self, wanted: Wanted, above: int) -> dict[str, Any]:
        query = {"product": wanted.project, "include_fields": "_default,duplicates", "order": "bug_id"}
        query |= {"last_change_time": wanted.since} if wanted.since else {}
        return query | {"limit": self.page_size, "f1": "bug_id", "o1": "greaterthan", "v1": above}


def with_notes(client: Client, bugs: list[Record], ids: list[int]) -> list[Record]:
    """The reports with ``comments`` and ``history``."""
    comments, histories = comments_of(client, ids), histories_of(client, ids)
    for missing in (number for number in ids if number not in comments):
        comments |= comments_of(client, [missing])
    for missing in (number for number in ids if number not in histories):
        histories |= histories_of(client, [missing])
    return [
        bug | {"comments": comments.get(number, []), "history": histories.get(number, [])}
        for bug, number in zip(bugs, ids, strict=True)
    ]


def comments_of(client: Client, ids: list[int]) -> dict[int, list[Record]]:
    """Comments of some reports in one request; a server that knows no lists of ids answers for the first alone."""
    if not ids:
        return {}
    answer = client.get(f"/rest/bug/{ids[0]}/comment", {"ids": ids[1:]})
    bugs = response_checks.section(answer.content, "bugs")
    if not bugs:
        raise response_checks.unexpected(answer, "comments under 'bugs'")
    found = {number: response_checks.section(bugs, str(number)).get("comments") for number in ids}
    return {number: comments for number, comments in found.items() if isinstance(comments, list)}


def histories_of(client: Client, ids: list[int]) -> dict[int, list[Record]]:
    """Changes of some reports in one request, likewise."""
    if not ids:
        return {}
    answer = client.get(f"/rest/bug/{ids[0]}/history", {"ids": ids[1:]})
    bugs = response_checks.records(answer, "bugs", key="id")
    return {response_checks.number(bug, "id", answer): bug.get("history", []) for bug in bugs}
