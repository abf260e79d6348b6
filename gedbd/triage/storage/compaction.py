"""Makes the files beside an index again in a process of its own, while the index is searched and changed."""

import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np

from gedbd.io.console import stage
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.storage.cache_files import MIN_REPORTS, read_cache, write_cache
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.rows import TERM_COLUMNS

MODULE = __name__
MIN_CHANGED = 1_000
CHANGED_SHARE = 0.02  # of the reports: more changes would slow searches and additions down

log = logging.getLogger("gedbd")


def is_due(num_reports: int, num_changed: int) -> bool:
    """Whether so many reports have changed that the files should be made again."""
    return num_reports >= MIN_REPORTS and num_changed > max(MIN_CHANGED, CHANGED_SHARE * num_reports)


@stage("write the files for quick opening")
def compact(path: Path) -> None:
    """Deletes words that no report has any more, and makes the files beside an index of ``MIN_REPORTS`` and more.

    The changes that the files have are deleted from its log.

    Args:
        path: The index file.

    Raises:
        OSError: If they cannot be written.
        ValueError: If the index cannot be opened.
    """
    with closing(IndexStore(path, create=False)) as store:
        if store.is_empty:
            return
        prune_terms(store)
        if store.count() < MIN_REPORTS:
            return
        change = write_latest(store)
        with store.transaction():
            store.forget_changes(change)


def prune_terms(store: IndexStore) -> None:
    """Deletes the words of terms that no report has any more; searches and their scores stay the same.

    Reports are read before the file is locked, which takes seconds for millions of them.
    """
    with store.snapshot():
        change = store.last_change()
        unused = store.unused_terms()
    if not len(unused):
        return
    with store.transaction():
        if store.has_all_changes_since(change):
            _, rows = store.features_of(store.rows_since(change).tolist())
            fresh = b"".join(getattr(row, kind) for row in rows for kind in TERM_COLUMNS)
            store.empty_terms(np.setdiff1d(unused, np.frombuffer(fresh, dtype=np.int32)))


def write_latest(store: IndexStore) -> int:
    """Makes the files beside an index unless they have all changes; returns the number of the last one."""
    files = read_cache(store)
    if files is not None and files.facts["change"] == store.last_change():
        return store.last_change()
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
            if done.returncode:
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
    with closing(IndexStore(Path(sys.argv[1]), create=False)) as opened:
        prune_terms(opened)
        write_latest(opened)
