"""What searches read of a large index, in a file beside it that is opened at once.

The index file alone counts: the cache can be deleted at any time, and is made of it again. It belongs to one state of
it. What has changed since is read from the index file when it is opened.
"""

import logging
import os
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path

from gedbd.io.arrow_files import read_arrays, write_arrays
from gedbd.io.console import stage
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.index_folder import CACHE, CACHE_SUFFIX
from gedbd.triage.storage.index_store import IndexStore, remove_caches

MIN_REPORTS = 10_000  # fewer are read within a second
MAX_CHANGED = 0.2  # share of the reports; if more have changed, the cache is made again
FORMAT = 2  # of the file
MODULE = "gedbd.triage.storage.cache_file"
log = logging.getLogger("gedbd")


def read_index(store: IndexStore) -> InMemoryIndex:
    """Reads an index; one of ``MIN_REPORTS`` and more by its cache, which is made if it is missing.

    Raises:
        ValueError: If the index is damaged.
        StoreUnavailable: If it cannot be read.
    """
    with store.snapshot():
        if store.count() < MIN_REPORTS:
            return InMemoryIndex.of(store)
        cached = read_cache(store)
        if cached is not None and len(store.rows_since(cached.change)) <= MAX_CHANGED * len(cached):
            return cached.latest(store)
        if store.read_only:
            return InMemoryIndex.of(store)
        log.warning("%s: writing a cache that makes opening the index faster", store.path.parent)
        return write_cache(store)


def read_cache(store: IndexStore) -> InMemoryIndex | None:
    """The index in the state of its latest cache; None if there is none, or it is damaged."""
    names = (path.name.removeprefix(CACHE).removesuffix(CACHE_SUFFIX) for path in store.path.parent.glob(f"{CACHE}*"))
    for number in sorted((int(name) for name in names if name.isdecimal()), reverse=True):
        path = cache_path(store, number)
        try:
            arrays, facts = read_arrays(path, check=False)
            if facts["owner"] == _owner(store) and store.has_all_changes_since(facts["change"]):
                return InMemoryIndex.of_arrays(arrays, facts)
        except FileNotFoundError:
            continue  # another process has replaced it
        except (OSError, ValueError, KeyError, TypeError) as error:
            log.warning("%s cannot be used (%s): it is rebuilt", path, error)
    return None


def write_cache(store: IndexStore) -> InMemoryIndex:
    """Reads an index completely, writes the cache of its present state, and deletes those of earlier ones.

    Raises:
        ValueError: If the index is damaged.
    """
    with store.snapshot():  # until the file has its name: nothing is erased from an index while it is read
        index = InMemoryIndex.of(store)
        arrays, facts = index.as_arrays()
        path = cache_path(store, index.change)
        try:
            write_arrays(path, arrays, facts | {"owner": _owner(store)})
        except (OSError, ValueError) as error:
            log.warning("%s cannot be written (%s), so all reports are read each time", path, error)
            return index
    with suppress(OSError):
        remove_caches(path.parent, index.change)
    return InMemoryIndex.of_arrays(*read_arrays(path, check=False))


def cache_path(store: IndexStore, change: int) -> Path:
    """The cache of the state of an index after a change."""
    return store.path.with_name(f"{CACHE}{change}{CACHE_SUFFIX}")


@stage("write the cache of the index")
def compact(path: Path) -> None:
    """Deletes words that no report has any more, and makes the cache of an index of ``MIN_REPORTS`` and more.

    The changes that the cache has are deleted from the log of the index.

    Args:
        path: The index file.

    Raises:
        ValueError: If the index cannot be opened.
    """
    with closing(IndexStore(path, create=False)) as store:
        if store.is_empty:
            return
        with store.transaction():
            store.empty_unused_terms()
        if store.count() >= MIN_REPORTS:
            change = write_latest(store)
            with store.transaction():
                store.forget_changes(change)


def compact_elsewhere(path: Path) -> str:
    """Makes the cache of an index in a process of its own; returns why it failed, empty if it did not."""
    # -P: with -m alone, modules in the current folder, which may be a stranger's, would be imported.
    command = [sys.executable, "-P", "-m", MODULE, str(path)]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    return (process.stderr.strip().splitlines() or ["it was stopped"])[-1] if process.returncode else ""


def write_latest(store: IndexStore) -> int:
    """Makes the cache of an index unless it has all changes; returns the number of the last one."""
    cached = read_cache(store)
    if cached is not None and cached.change == store.last_change():
        return cached.change
    return write_cache(store).change


def _owner(store: IndexStore) -> list[object]:
    """What identifies the index, and the model and terms of it, that a cache belongs to."""
    about = store.about()
    return [FORMAT, store.token(), about.get("model"), about.get("terms")]


if __name__ == "__main__":
    if hasattr(os, "nice"):
        os.nice(10)  # searches come first
    with closing(IndexStore(Path(sys.argv[1]), create=False)) as opened:
        with opened.transaction():
            opened.empty_unused_terms()
        write_latest(opened)
