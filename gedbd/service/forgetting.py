"""Erases reports from all files of an index folder."""

import shutil
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FEEDBACK_FILE, FeedbackStore
from gedbd.io.locks import LockedError, sole_process
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.event_table import WEBHOOK_FILE, EventTable
from gedbd.triage.located_reports import forget_located
from gedbd.triage.storage.index_folder import CLUSTERS, FILE, SYNC_LOCK, TRACKER
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.postgres_store import PostgresStore

TIMEOUT_S = 60.0  # of a lock on the index file


def forget_reports(location: Path | str, ids: Sequence[str]) -> list[str]:
    """Erases reports from an index and the files beside it: feedback, deliveries, located reports and fetched pages.

    Args:
        location: The folder of the index, which a service may be using; or the address of a server. Feedback and
            deliveries of an index on a server are in the folder of each service, and stay.
        ids: Their ids. Data that names a report is erased even if the report itself is not stored.

    Returns:
        The ids of reports that were not stored.

    Raises:
        ValueError: If there is no index, or a file is damaged.
        StoreUnavailable: If a file is in use; a second call continues.
        OSError: If a file cannot be deleted.
    """
    if isinstance(location, str):
        with closing(PostgresStore(location, create=False, timeout_s=TIMEOUT_S)) as server:
            return server.forget(ids)
    with closing(IndexStore(location / FILE, create=False, timeout_s=TIMEOUT_S)) as store:
        stored = store.reports(ids)
        for issue_id in ids:
            forget_beside(location, issue_id, stored.get(issue_id))
        return store.forget(ids)


def forget_beside(folder: Path, issue_id: str, report: Report | None) -> None:
    """Erases a report from the feedback, deliveries and located reports beside an index, where there are such files.

    The pages that ``gedbd sync`` fetched, and the page of ``gedbd clusters``, are deleted as a whole: the next call of
    these commands writes them again. Raises ValueError if a file is damaged, StoreUnavailable if one is in use.
    """
    if (folder / FEEDBACK_FILE).exists():
        with closing(FeedbackStore(folder)) as feedback:
            feedback.forget(issue_id, report)
    if (folder / WEBHOOK_FILE).exists():
        with closing(EventTable(folder / WEBHOOK_FILE)) as table:
            table.forget(issue_id)
    if (folder / CLUSTERS).exists():
        shutil.rmtree(folder / CLUSTERS)
    try:
        forget_located(folder, issue_id)
        if (folder / TRACKER).exists():
            with sole_process(folder / SYNC_LOCK, f"{folder} is brought up to date"):
                shutil.rmtree(folder / TRACKER)
    except LockedError as error:
        raise StoreUnavailable(str(error)) from error
