"""Processes that are killed while they change an index, for the tests beside.

Children are forked from this process, which has imported everything, and are killed with SIGKILL at random moments.
"""

import gc
import os
import select
import signal

import numpy as np
from small_tracker import model, open_folder, stored_terms

from gedbd.corpora.bug_report import Report
from gedbd.triage.index_building import synchronise
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore


def numbers_for(reports):
    """Unit vectors that cost nothing, for what is tested here is the file; torch does not survive a fork."""
    vectors = np.array([[len(one.title), len(one.description), 1] for one in reports.itertuples()], dtype=np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def forked(task, delay, once_it_speaks=False):
    """Runs a task in a child, kills it after so many seconds of work; gives what it has written to its pipe."""
    ours, theirs = os.pipe()
    gc.collect()  # or else the child would close what other tests have left open
    child = os.fork()
    if not child:
        gc.disable()
        try:
            os.close(ours)
            os.write(theirs, b"go\n")
            task(lambda text: os.write(theirs, f"{text}\n".encode()))
        finally:
            os._exit(0)
    os.close(theirs)
    begun = select.select([ours], [], [], 2)[0] and os.read(ours, 3) == b"go\n"
    if begun and once_it_speaks:
        select.select([ours], [], [], 30)
    select.select([], [], [], delay if begun else 0)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    with os.fdopen(ours, "rb") as pipe:
        said = pipe.read().decode().split()
    return (
        said if begun else forked(task, delay, once_it_speaks)
    )  # a thread of this process held a lock when the child was made


def build(folder, corpus, key):
    store = IndexStore(folder / FILE)
    synchronise(store, corpus, model(key), numbers_for)


def whole(folder):
    """Ids of a folder's index, once everything in it has been found in order."""
    index = open_folder(folder, numbers_for)
    assert index.store.file.query("PRAGMA integrity_check") == [("ok",)]
    rows = list(index.store.file.features()[1])
    ids = [row[0] for row in rows]
    assert len(ids) == len(set(ids)) == len(index)
    terms = len(stored_terms(index.store.file))
    assert all(np.frombuffer(part, dtype=np.int32).max(initial=-1) < terms for row in rows for part in row[8:])
    for one in index.store.file.reports(ids).values():
        assert index.search(Report(one.title, one.description), 1)[0].probability > 0
    index.close()
    return ids
