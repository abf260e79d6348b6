"""What is known of reports after the pages of their tracker were fetched, from the index and its webhook."""

import json
from collections.abc import Iterator, Set
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from gedbd.corpora.clients.tracker_fetch import STATE
from gedbd.corpora.dates import parse_date
from gedbd.corpora.readers.record_values import Record, moment
from gedbd.io.files import write_text
from gedbd.service.event_table import WEBHOOK_FILE, EventTable
from gedbd.triage.index_building import FindLater
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.report_store import ReportStore


@contextmanager
def later_states(folder: Path, fetched: Path) -> Iterator[FindLater]:
    """Finds the reports of an index that are later than the pages that were fetched for it.

    These are reports that were written since the fetch began, and issues of which the webhook knows a later state.
    Times are those of the tracker, in whole seconds: a deleted issue returns with a later time only, and of states with
    the same time the fetched one counts. An issue on no page was deleted, unless its last event came after the fetch of
    all issues had begun. When the block ends, the webhook is told which states were indexed, so that earlier events
    which arrive later change nothing.

    Args:
        folder: The folder of the index.
        fetched: The folder of the fetch.
    """
    state = json.loads((fetched / STATE).read_text())
    full_since = parse_date(state["full_since"]).timestamp() if state["full_since"] else float("-inf")
    webhook = folder / WEBHOOK_FILE
    with closing(EventTable(webhook)) if webhook.is_file() else nullcontext() as table:
        times = read_times(fetched / "pages", table) if table else {}

        def find(store: ReportStore) -> tuple[Set[str], Set[str]]:
            assert isinstance(store, IndexStore)
            issues = table.states("issue") if table else {}
            gone = {number for number, (time, is_gone) in issues.items() if is_gone and time >= times.get(number, 0.0)}
            newer = {number for number, (time, _) in issues.items() if time > times.get(number, full_since - 1)}
            return gone, (newer | store.changed_since(state["mark"])) - gone

        yield find
        if table:
            table.remember_all(times)


def read_times(pages: Path, table: EventTable) -> dict[str, float]:
    """When each GitHub issue of fetched pages last changed, in seconds since 1970, by number.

    Deletes issues that are gone, and comments that are gone or have a later state, from the pages.
    """
    issues = table.states("issue")
    comments = table.states("comment")
    times: dict[str, float] = {}
    for file in sorted(pages.glob("*.json")):
        fetched = json.loads(file.read_text(encoding="utf-8"))
        records = []
        num_deleted = 0
        for record in fetched:
            number = str(record.get("number"))
            time, is_gone = issues.get(number, (0.0, False))
            if is_gone and time >= _time(record):
                continue
            records.append(record)
            times[number] = max(_time(record), times.get(number, 0.0))
            listed = record.get("comments")
            if comments and isinstance(listed, list):
                known = [(comment, *comments.get(str(comment.get("id")), (0.0, False))) for comment in listed]
                record["comments"] = [one for one, time, is_gone in known if not is_gone and time <= _time(one)]
                num_deleted += len(listed) - len(record["comments"])
        if num_deleted or len(records) < len(fetched):
            write_text(file, json.dumps(records))
    return times


def _time(record: Record) -> float:
    updated_at = moment(record, "updated_at")
    return updated_at.timestamp() if updated_at else 0.0
