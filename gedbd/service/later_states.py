"""What is known of reports after the pages of their tracker were fetched, from the index and its webhook."""

import json
from collections.abc import Set
from pathlib import Path

from gedbd.corpora.clients.tracker_client import Record
from gedbd.corpora.clients.tracker_fetch import read_state
from gedbd.corpora.dates import parse_date
from gedbd.io.files import write_text
from gedbd.service.event_table import WEBHOOK_FILE, EventTable
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.report_store import ReportStore


class LaterStates:
    """Finds the reports of an index that are later than the pages that were fetched for it.

    These are reports that were written since the fetch began, and issues of which the webhook knows a later state.
    Times are those of the tracker, in whole seconds: a deleted issue returns with a later time only, and of states with
    the same time the fetched one counts. An issue on no page was deleted, unless its last event came after the fetch of
    all issues had begun. Comments that were changed or deleted later are deleted from the pages: they mark nothing.

    Args:
        folder: The folder of the index.
        fetched: The folder of the fetch.
    """

    def __init__(self, folder: Path, fetched: Path) -> None:
        state = read_state(fetched)
        self._mark = state.mark
        self._full_since = parse_date(state.full_since).timestamp() if state.full_since else float("-inf")
        self._times: dict[str, float] = {}
        self._table = EventTable(folder / WEBHOOK_FILE) if (folder / WEBHOOK_FILE).is_file() else None
        if self._table is not None:
            comments = self._table.states("comment")
            for file in sorted((fetched / "pages").glob("*.json")):
                self._read(file, comments)

    def find(self, store: ReportStore) -> tuple[Set[str], Set[str]]:
        """See ``FindLater``."""
        assert isinstance(store, IndexStore)
        times = self._times
        issues = {} if self._table is None else self._table.states("issue")
        gone = {number for number, (time, is_gone) in issues.items() if is_gone and time >= times.get(number, 0.0)}
        newer = {number for number, (time, _) in issues.items() if time > times.get(number, self._full_since - 1)}
        return gone, (newer | store.changed_since(self._mark)) - gone

    def remember(self) -> None:
        """Tells the webhook which states were indexed, so that earlier events which arrive later change nothing."""
        if self._table is not None:
            self._table.remember_all(self._times)

    def close(self) -> None:
        """Closes the file of the webhook."""
        if self._table is not None:
            self._table.close()

    def _read(self, file: Path, comments: dict[str, tuple[float, bool]]) -> None:
        """Reads when each GitHub issue of a page last changed; deletes comments with a later state from the page."""
        records = json.loads(file.read_text(encoding="utf-8"))
        num_deleted = 0
        for record in records:
            number = str(record.get("number"))
            self._times[number] = max(_time(record), self._times.get(number, 0.0))
            listed = record.get("comments")
            if comments and isinstance(listed, list):
                latest = [(comment, *comments.get(str(comment.get("id")), (0.0, False))) for comment in listed]
                record["comments"] = [
                    comment for comment, time, is_gone in latest if not is_gone and time <= _time(comment)
                ]
                num_deleted += len(listed) - len(record["comments"])
        if num_deleted:
            write_text(file, json.dumps(records))


def _time(record: Record) -> float:
    """The time of the last change in seconds since 1970; 0 if it is unknown."""
    try:
        return parse_date(str(record.get("updated_at") or "")).timestamp()
    except ValueError:
        return 0.0
