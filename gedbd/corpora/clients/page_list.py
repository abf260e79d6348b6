"""A list of a tracker, page by page: ends lists that lead in a circle, repeat themselves or never end."""

from collections.abc import Mapping
from typing import Any

from gedbd.corpora.clients import http
from gedbd.corpora.clients.http import Answer, Client, Record
from gedbd.corpora.urls import shown_url

MAX_PAGES = 100_000  # a tracker of 10 million issues
MAX_REPEATED_PAGES = 10  # pages in a row without a new record: a list that changes while it is read has a few


class PageList:
    """One list of a tracker.

    Args:
        client: Requests the pages. Its ``repeated`` counts the records that came more than once.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._pages = 0
        self.start_over()

    def start_over(self) -> None:
        """Allow records of before: another list begins, or a part of this one is read again."""
        self._visited: set[str] = set()
        self._seen: set[Any] = set()
        self._repeated_pages = 0

    def get(self, address: str, params: Mapping[str, Any] | None = None) -> Answer:
        """Request a page of the list. Raises ValueError if it was read before, or is beyond ``MAX_PAGES``."""
        answer = self._client.get(address, params)
        if answer.url in self._visited:
            raise ValueError(f"{shown_url(answer.url)}: the pagination links back to this page, which was already read")
        self._visited.add(answer.url)
        self._pages += 1
        if self._pages > MAX_PAGES:
            raise ValueError(
                f"{shown_url(answer.url)}: the list did not end after {MAX_PAGES:,} pages; if the tracker really has so"
                " much, run the same command to continue from here"
            )
        return answer

    def records(self, answer: Answer, *path: str, key: str) -> list[Record]:
        """The records of a page, see ``http.records``.

        Raises:
            ValueError: There are none, or ``MAX_REPEATED_PAGES`` pages in a row held nothing new.
        """
        found = http.records(answer, *path, key=key)
        keys = {http.identifier(record, key, answer) for record in found}
        new = keys - self._seen
        self._client.repeated += len(found) - len(new)
        self._seen |= new
        self._repeated_pages = 0 if new else self._repeated_pages + 1
        if self._repeated_pages >= MAX_REPEATED_PAGES:
            raise ValueError(
                f"{shown_url(answer.url)}: after {len(self._seen):,} records, {MAX_REPEATED_PAGES} pages in a row held"
                " nothing new, so the list is not read further; is the server at tracker.base_url in order?"
            )
        return found
