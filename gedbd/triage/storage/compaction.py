"""Makes the files beside an index again in a process of its own, while the index is searched and changed."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from gedbd.io.verbosity import stage
from gedbd.triage.storage.cache_files import read_cache, write_cache
from gedbd.triage.storage.connection import StoreUnavailable
from gedbd.triage.storage.opening import MIN_REPORTS
from gedbd.triage.storage.qdrant_server import read_sent, send_reports
from gedbd.triage.storage.store import Store

MODULE = "gedbd.triage.storage.compaction"
MIN_CHANGED = 1_000
NOT_SENT = 3  # exit status: the files were made, but a search server did not take them
CHANGED_SHARE = 0.02  # of the reports: more changes would slow searches and additions down

log = logging.getLogger("gedbd")


def is_due(num_reports: int, num_changed: int) -> bool:
    """Whether so many reports have changed that the files should be made again."""
    return num_reports >= MIN_REPORTS and num_changed > max(MIN_CHANGED, CHANGED_SHARE * num_reports)


@stage("write the files for quick opening")
def compact(path: Path, address: str | None = None) -> None:
    """Makes the files beside an index of ``MIN_REPORTS`` and more, and deletes the changes that they have from its log.

    Args:
        path: The index file.
        address: A collection of a search server to which they are sent, too; None for that of the last time, if any.

    Raises:
        OSError: If they cannot be written.
        ValueError: If the index cannot be opened, or the server does not take them.
    """
    with closing(Store(path, create=False)) as store:
        if store.is_empty or store.count() < MIN_REPORTS:
            return
        change = write_latest(store)
        send_latest(store, address)
        with store.transaction():
            store.log.forget(change)


def send_latest(store: Store, address: str | None = None) -> None:
    """Sends the files beside an index to a search server, see ``compact``."""
    sent = read_sent(store.path)
    if address is None and sent is not None:
        address = sent.address
    if address is not None:
        send_reports(store, address)


def write_latest(store: Store) -> int:
    """Makes the files beside an index unless they have all changes; returns the number of the last one."""
    files = read_cache(store)
    if files is not None and files.facts["change"] == store.log.last():
        return store.log.last()
    return write_cache(store)


class Compaction:
    """Makes the files beside an index again in another process, at most one at a time.

    Args:
        path: The index file.
        on_done: Called when the files were made, from another thread.
    """

    def __init__(self, path: Path, on_done: Callable[[], None]) -> None:
        self._path = path
        self._on_done = on_done
        self._running = threading.Lock()

    def start(self) -> None:
        """Starts it, unless it is running already."""
        if self._running.acquire(blocking=False):
            threading.Thread(target=self._run, name="compaction", daemon=True).start()

    def wait(self) -> None:
        """Waits until it has ended, if it is running."""
        with self._running:
            pass

    def _run(self) -> None:
        try:
            # -P: with -m alone, modules in the current folder, which may be a stranger's, would be imported.
            command = [sys.executable, "-P", "-m", MODULE, str(self._path)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode == NOT_SENT:
                log.warning("%s: %s", self._path, done.stderr.strip())
            elif done.returncode:
                reason = done.stderr.strip().splitlines()[-1:] or ["it was stopped"]
                log.error("%s: the files next to it could not be rebuilt (%s)", self._path, reason[0])
                return
            self._on_done()
        except StoreUnavailable as error:
            log.error("%s", error)
        finally:
            self._running.release()


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(10)  # searches come first
    with closing(Store(Path(sys.argv[1]), create=False)) as opened:
        write_latest(opened)
        try:
            send_latest(opened)
        except ValueError as error:
            print(error, file=sys.stderr)
            sys.exit(NOT_SENT)
