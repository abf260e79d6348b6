"""An index is killed while it is built and while reports are added: what was acknowledged is there, nothing is torn.

Children are forked from this process, which has imported everything, and are killed with SIGKILL at random moments.
"""

import gc
import os
import random
import select
import signal

import numpy as np
import pytest
from small_tracker import as_corpus, fill, model, open_folder, some_report

from gedbd.triage.report import Report
from gedbd.triage.storage.store import FILE, Store
from gedbd.triage.storage.sync import synchronise

OLD, NEW = 30, 45
KILLS = [pytest.param(2), pytest.param(20, marks=pytest.mark.slow)]


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
    store = Store(folder / FILE)
    synchronise(store, corpus, model(key), numbers_for)


def whole(folder):
    """Ids of a folder's index, once everything in it has been found in order."""
    index = open_folder(folder, numbers_for)
    assert index.store._connection.rows("PRAGMA integrity_check") == [("ok",)]
    rows = list(index.store.features())
    ids = [row[0] for row in rows]
    assert len(ids) == len(set(ids)) == len(index)
    terms = len(index.store.terms())
    assert all(np.frombuffer(part, dtype=np.int32).max(initial=-1) < terms for row in rows for part in row[8:])
    for one in index.store.reports(ids).values():
        assert index.search(Report(one.title, one.description), 1)[0].probability > 0
    index.close()
    return ids


@pytest.mark.parametrize("kills", KILLS)
def test_a_build_that_is_killed_leaves_the_old_state_or_the_new_one(tmp_path, kills):
    generator = random.Random(0)
    old = as_corpus([some_report(number) for number in range(OLD)])
    new = as_corpus([some_report(number, version="2") for number in range(5, NEW)])
    states = {}
    for name, key, corpus in (("old", "first", old), ("new", "first", new), ("other", "second", new)):
        states[name] = list(corpus.reports["id"]), set(corpus.reports["version"]), key
    build(tmp_path, old, "first")
    met = set()
    for kill in range(kills):
        name, key, corpus = [("new", "first", new), ("old", "first", old), ("other", "second", new)][kill % 3]

        def task(say, corpus=corpus, key=key):
            build(tmp_path, corpus, key)
            say("done")

        said = forked(task, generator.uniform(0, 0.08))
        store = Store(tmp_path / FILE)
        contents, about = store.reports(list(store.contents())), store.about()
        store.close()
        state = set(contents), {one.version for one in contents.values()}, about["model"]
        met |= {one for one, (ids, versions, of) in states.items() if state == (set(ids), versions, of)}
        assert state in [(set(ids), versions, of) for ids, versions, of in states.values()]
        if said:
            assert state == (set(states[name][0]), *states[name][1:])
        whole(tmp_path)
    assert kills < 20 or len(met) > 1


@pytest.mark.parametrize("kills", KILLS)
def test_the_first_build_that_is_killed_leaves_nothing_or_all(tmp_path, kills):
    generator = random.Random(1)
    corpus = as_corpus([some_report(number) for number in range(OLD)])
    for kill in range(kills):
        folder = tmp_path / str(kill)
        folder.mkdir()
        forked(lambda say, folder=folder: build(folder, corpus, "first"), generator.uniform(0, 0.03))
        store = Store(folder / FILE)
        empty = store.is_empty
        store.close()
        if empty:
            build(folder, corpus, "first")
        assert whole(folder) == [str(number) for number in range(OLD)]


@pytest.mark.parametrize("kills", KILLS)
def test_every_acknowledged_report_is_there_once(tmp_path, kills):
    generator, acknowledged = random.Random(2), {}
    build(tmp_path, as_corpus([some_report(number) for number in range(OLD)]), "first")
    for kill in range(kills):

        def task(say, kill=kill):
            index = open_folder(tmp_path, numbers_for)
            for number in range(1000):
                name = f"k{kill}n{number}"
                index.add([Report(f"fresh{name}", issue_id=name), some_report(number % OLD, version=name)])
                index.link(name, str(number % OLD), "triager")
                say(name)

        said = forked(task, generator.uniform(0, 0.06), once_it_speaks=True)
        assert said
        acknowledged |= {name: str(int(name.split("n")[1]) % OLD) for name in said}
        ids = whole(tmp_path)
        assert set(acknowledged) <= set(ids)
        assert (
            len([one for one in ids if one.startswith("k")]) <= len(acknowledged) + kill + 1
        )  # at most one was cut off
        index = open_folder(tmp_path, numbers_for)
        links = {(report, duplicate) for report, duplicate, _ in index.store.links()}
        assert set(acknowledged.items()) <= links
        for name in said:
            number = int(name.split("n")[1])
            assert index.get(name).title == f"fresh{name}"
            if number + OLD >= len(said) and number < len(said) - 1:
                assert index.get(str(number % OLD)).version.startswith(f"k{kill}n")
        index.close()


def test_an_index_is_as_before_after_a_sweep_of_kills(tmp_path, reader):
    """Built again without a kill, it is what it would have been."""
    corpus = as_corpus([some_report(number) for number in range(OLD)])
    for folder in (tmp_path / "killed", tmp_path / "calm"):
        folder.mkdir()
    for delay in (0.0, 0.004, 0.012):
        forked(lambda say: build(tmp_path / "killed", corpus, "first"), delay)
    for folder in (tmp_path / "killed", tmp_path / "calm"):
        fill(folder, corpus, reader, key="real")
    killed, calm = (open_folder(tmp_path / name, reader) for name in ("killed", "calm"))
    assert list(killed.store.features()) == list(calm.store.features())
    assert killed.search(some_report(40), 50) == calm.search(some_report(40), 50)
