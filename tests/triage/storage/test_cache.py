"""The cache of an index gives the answers of the index itself, and is made again if it cannot be used."""

import logging
import os
import random
import shutil
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from killed_process import build, forked, numbers_for, whole
from small_tracker import as_corpus, fill, open_folder, some_report

from gedbd.corpora.bug_report import Filters
from gedbd.io.arrow_files import read_arrays, write_arrays
from gedbd.triage.storage import folder_store
from gedbd.triage.storage.folder_store import read_cache, read_index, write_cache
from gedbd.triage.storage.in_memory import InMemoryIndex
from gedbd.triage.storage.index_folder import CACHE, FILE
from gedbd.triage.storage.index_store import IndexStore

pytestmark = pytest.mark.integration

COUNT = 40
KILLS = [pytest.param(2), pytest.param(20, marks=pytest.mark.slow)]


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Files for an index of any size, however much of it has changed."""
    monkeypatch.setattr(folder_store, "MIN_REPORTS", 1)
    monkeypatch.setattr(folder_store, "MAX_CHANGED", 1e9)


@pytest.fixture(scope="module")
def built(tmp_path_factory, reader):
    """A folder with an index, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    group = np.arange(COUNT)
    group[[7, 13, 31]] = 3
    fill(folder, as_corpus([some_report(number, product="Mail") for number in range(COUNT)], group), reader)
    return folder


@pytest.fixture
def index(tmp_path, reader, built):
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    index = open_folder(tmp_path, reader)
    yield index
    index.close()


def caches(folder):
    return sorted(path.name for path in folder.glob(f"{CACHE}*"))


def answers(index):
    queries = [some_report(number, issue_id="") for number in (3, 14, 75)]
    filters = [Filters(), Filters(component="net"), Filters(created_before=datetime(2024, 2, 1, tzinfo=UTC))]
    return [repr(index.search(query, 50, some)) for query in queries for some in filters]


def answers_without_files(folder, reader, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(folder_store, "MIN_REPORTS", 1e9)
        index = open_folder(folder, reader)
        found = answers(index)
    return found


def change(index, generator):
    """One change of any kind."""
    number = generator.randrange(COUNT)
    kind = generator.choice(["add", "replace", "delete", "again", "link", "unlink", "resolve"])
    if kind == "add":
        index.add([some_report(number + 100, issue_id=f"new{generator.random()}", component="Net, a new one")])
    elif kind == "replace":
        index.add([some_report(number, description="Something else altogether: error: cannot openFolder.")])
    elif kind == "resolve":
        index.add([some_report(number, resolved_at=datetime(2024, 3, 1, tzinfo=UTC))])
    elif kind == "delete":
        index.delete(str(number))
    elif kind == "again":
        index.delete(str(number))
        index.add([some_report(number)])
    elif kind == "unlink":
        index.unlink("3", str(generator.choice([7, 13, 31])))
    elif index.get(str(number)) and index.get("5"):
        index.link("5", str(number), "triager") if number != 5 else None


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_answers_are_those_without_files(index, reader, monkeypatch, seed):
    generator = random.Random(seed)
    assert caches(index.folder) != []
    for _ in range(4):
        for _ in range(generator.randrange(8)):
            change(index, generator)
        expected = answers_without_files(index.folder, reader, monkeypatch)
        assert answers(index) == expected
        reopened = open_folder(index.folder, reader)
        assert answers(reopened) == expected
        if generator.random() < 0.5:
            write_cache(index.store.file)


def test_unusable_dates_are_told_whatever_has_changed(index):
    index.store.file.query("UPDATE reports SET created_at = '1801-01-01' WHERE issue_id IN ('4', '6')")
    write_cache(index.store.file)
    assert read_index(index.store.file).undated == ["4", "6"]
    index.store.file.query("UPDATE reports SET created_at = '2024-01-01' WHERE issue_id = '4'")
    index.store.file.query("UPDATE reports SET resolved_at = 'never' WHERE issue_id = '9'")
    memory = read_index(index.store.file)
    assert (memory.undated, memory.unclear) == (["6"], ["9"])


def cut_off(path):
    os.truncate(path, path.stat().st_size - 100)


def garble(path):
    path.write_bytes(b"ARROW1" + bytes(500))


def of_another_model(path):
    arrays, facts = read_arrays(path)
    facts["owner"][2] = "other"
    write_arrays(path, arrays, facts)


def without_an_array(path):
    arrays, facts = read_arrays(path)
    del arrays["day"]
    write_arrays(path, arrays, facts)


@pytest.mark.parametrize("damage", [cut_off, garble, of_another_model, without_an_array, Path.unlink])
def test_files_that_cannot_be_used_are_made_again(index, reader, caplog, damage):
    expected = answers(index)
    (name,) = caches(index.folder)
    damage(index.folder / name)
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        again = open_folder(index.folder, reader)
    assert "writing a cache that makes opening" in caplog.text
    assert answers(again) == expected
    assert read_cache(again.store.file) is not None


def test_files_of_another_index_are_not_used(index, tmp_path, reader):
    (name,) = caches(index.folder)
    other = tmp_path / "other"
    other.mkdir()
    fill(other, as_corpus([some_report(number + 20) for number in range(COUNT)]), reader)
    shutil.copy(index.folder / name, other / name)
    second = open_folder(other, reader)
    assert second.search(some_report(55, issue_id=""), 1)[0].best.issue_id == "55"


def test_an_index_whose_folder_takes_no_cache_is_read_without_it(index, reader, monkeypatch, caplog):
    expected = answers(index)
    (name,) = caches(index.folder)
    (index.folder / name).unlink()

    def refuse(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr(folder_store, "write_arrays", refuse)
    again = open_folder(index.folder, reader)
    assert "cannot be written (the disk is full)" in caplog.text
    assert answers(again) == expected


def test_many_changes_let_the_files_be_made_again(index, reader, monkeypatch):
    monkeypatch.setattr(folder_store, "MAX_CHANGED", 0.2)
    before = caches(index.folder)
    for number in range(20):
        index.add([some_report(number, version="2")])
    again = open_folder(index.folder, reader)
    assert len(before) == len(caches(index.folder)) == 1
    assert caches(index.folder) != before
    assert again.store.state.memory.num_changed == 0


def test_files_are_made_again_while_the_index_is_open(index, reader, monkeypatch):
    monkeypatch.setattr(folder_store, "MIN_CHANGED", 5)
    before = caches(index.folder)
    for number in range(8):
        index.add([some_report(number, version="3")])
    with index.store._compacting:  # held while the cache is written
        pass
    assert len(caches(index.folder)) == 1
    assert caches(index.folder) != before
    assert index.store.state.memory.num_changed <= 8
    assert index.store.file.has_all_changes_since(index.store.file.last_change())
    assert answers(index) == answers_without_files(index.folder, reader, monkeypatch)


def test_a_failing_process_is_told_and_changes_nothing(index, reader, monkeypatch, caplog):
    monkeypatch.setattr(folder_store, "MIN_CHANGED", 0)
    monkeypatch.setattr(folder_store, "MODULE", "gedbd.no_such_module")
    index.add([some_report(number, version="3") for number in range(3)])
    with index.store._compacting:
        pass
    assert "could not be rebuilt" in caplog.text
    assert answers(index) == answers_without_files(index.folder, reader, monkeypatch)


@pytest.mark.parametrize("kills", KILLS)
def test_a_process_that_is_killed_while_it_makes_files_leaves_the_old_ones_or_new_ones(tmp_path, kills):
    generator = random.Random(3)
    build(tmp_path, as_corpus([some_report(number) for number in range(COUNT)]), "first")
    for kill in range(kills):
        index = open_folder(tmp_path, numbers_for)
        index.add([some_report(number, version=str(kill)) for number in range(kill, kill + 5)])

        def task(say):
            store = IndexStore(tmp_path / FILE)
            write_cache(store)
            say("done")

        said = forked(task, generator.uniform(0, 0.05))
        store = IndexStore(tmp_path / FILE)
        if said:
            assert read_cache(store).change == store.last_change()
        with_files, without = read_index(store), InMemoryIndex.of(store)
        np.testing.assert_array_equal(with_files.store.vectors.filled, without.store.vectors.filled)
    assert len(whole(tmp_path)) == COUNT
