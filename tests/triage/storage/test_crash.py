"""An index is killed while it is built and while reports are added: what was acknowledged is there, nothing is torn.

Children are forked from this process, which has imported everything, and are killed with SIGKILL at random moments.
"""

import random

import pytest
from killed_process import build, forked, numbers_for, whole
from small_tracker import as_corpus, fill, open_folder, some_report

from gedbd.corpora.bug_report import Report
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore

pytestmark = pytest.mark.integration

OLD, NEW = 30, 45
KILLS = [pytest.param(2), pytest.param(20, marks=pytest.mark.slow)]


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
        store = IndexStore(tmp_path / FILE)
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
        store = IndexStore(folder / FILE)
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
        links = {(report, duplicate) for report, duplicate, _ in index.store.file.links()}
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
    assert list(killed.store.file.features()[1]) == list(calm.store.file.features()[1])
    assert killed.search(some_report(40), 50) == calm.search(some_report(40), 50)
