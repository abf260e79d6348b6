"""An index is built again while others write to it without a pause, and while somebody holds its locks."""

import sqlite3
import threading
from dataclasses import replace

import pytest
from small_tracker import Switch, as_corpus, fill, model, open_folder, read_rows, some_report

from gedbd.io.sqlite_file import LOCK_TIMEOUT_S, StoreUnavailable
from gedbd.triage.bug_report import Report
from gedbd.triage.storage.index_store import FILE, IndexStore
from gedbd.triage.storage.sync import synchronise

OLD = [some_report(number) for number in range(6)]
NEW = [*OLD[1:5], some_report(5, version="2"), some_report(7)]


class FirstContents(IndexStore):
    """A file that remembers the ids it held when it was first asked."""

    first: frozenset[str] | None = None

    def contents(self):
        found = super().contents()
        if self.first is None:
            self.first = frozenset(found)
        return found


@pytest.fixture
def opened(tmp_path, reader):
    fill(tmp_path, as_corpus(OLD), reader)
    index = open_folder(tmp_path, reader)
    yield index
    index.close()


@pytest.fixture
def locked(opened):
    """Somebody else holds the right to write to the file, and does not let go."""
    other = sqlite3.connect(opened.folder / FILE, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    yield other
    other.close()


def same_as_fresh(index, reader):
    fresh = open_folder(index.folder, reader)
    query = Report("crash in the toolbar")
    assert index.search(query, 50) == fresh.search(query, 50)
    assert len(index) == len(fresh)
    fresh.close()


@pytest.mark.parametrize("key", ["first", "second"])
def test_what_others_write_each_time_reports_are_read_stays(opened, reader, key):
    """However often the run looks, somebody has written again."""
    rounds = []

    def meanwhile(rows):
        number = len(rounds)
        rounds.append(number)
        if number < 5:  # the last rounds hold the lock: a write from this thread would wait for itself
            writes = threading.Thread(target=lambda: opened.add([some_report(100 + number)]))
            if number == 0:
                opened.add([some_report(2, title="changed meanwhile"), some_report(3, title="so was this")])
                opened.delete("4")
                opened.link("100", "2", "github") if opened.get("100") else None
            if number < 3:
                writes.start()
                writes.join()
        return read_rows(reader, rows)

    store = IndexStore(opened.folder / FILE)
    changes = synchronise(store, as_corpus(NEW), model(key), meanwhile)
    store.close()
    later = {str(100 + number) for number in range(min(len(rounds), 3))}
    assert {one for one in ("0", "1", "2", "3", "4", "5", "7", *later) if opened.get(one)} == {
        "1", "2", "3", "5", "7", *later
    }  # fmt: skip
    assert opened.get("2").title == "changed meanwhile"
    assert opened.get("5").version == "2"
    assert changes.kept == 3 + len(later)
    assert changes.deleted == 1
    assert len(rounds) <= 6
    same_as_fresh(opened, reader)


@pytest.mark.parametrize(
    ("other", "fields", "said", "component"),
    [
        ({"component": "late"}, ("title",), "updated", "late"),  # as the webhook adds an issue
        ({"component": "late"}, None, "updated", "net"),
        ({"title": "new"}, ("title",), "unchanged", "net"),
        (None, ("title",), "added", "net"),
    ],
)
def test_what_another_process_writes_while_a_report_is_encoded_counts(opened, reader, other, fields, said, component):
    def meanwhile(rows):
        index.encode.read = reader
        if other is None:
            opened.delete("1")
        else:
            opened.add([some_report(1, **other)])
        return reader(rows)

    index = open_folder(opened.folder, Switch(meanwhile))
    assert index.add([some_report(1, title="new")], fields) == {"1": said}
    assert (index.get("1").title, index.get("1").component) == ("new", component)
    index.close()
    same_as_fresh(opened, reader)


def test_adds_without_a_pause_do_not_keep_an_index_from_being_built(opened, reader):
    stop, failed, added = threading.Event(), [], []
    earlier = set()  # than the run's own look at the file: those the corpus has not are deleted

    def add():
        while not stop.is_set():
            name = f"n{len(added)}"
            try:
                opened.add([Report(f"title {name}", issue_id=name, created_at=OLD[0].created_at)])
                added.append(name)
            except StoreUnavailable:
                pass  # told to come again
            except BaseException as error:
                failed.append(error)
                return

    writer = threading.Thread(target=add)
    writer.start()
    try:
        for key in ("second", "first", "first"):
            store = FirstContents(opened.folder / FILE, timeout_s=30)
            earlier |= set(added)
            synchronise(store, as_corpus(NEW), model(key), lambda rows: read_rows(reader, rows))
            store.close()
            earlier |= store.first
            lost = {one for one in set(added) - earlier if opened.get(one) is None}
            assert not lost
    finally:
        stop.set()
        writer.join()
    assert not failed
    same_as_fresh(opened, reader)


def test_an_address_that_came_meanwhile_stays(opened, reader):
    def meanwhile(rows):
        opened.add([replace(OLD[1], url="https://b.org/1")])
        return read_rows(reader, rows)

    store = IndexStore(opened.folder / FILE)
    synchronise(store, as_corpus(NEW), model(), meanwhile)
    store.close()
    assert opened.get("1").url == "https://b.org/1"


def test_another_run_with_another_model_is_told(opened, reader):
    def meanwhile(rows):
        fill(opened.folder, as_corpus(OLD), reader, key="third")
        return read_rows(reader, rows)

    store = IndexStore(opened.folder / FILE)
    with pytest.raises(ValueError, match="another process replaced the model"):
        synchronise(store, as_corpus(NEW), model("second"), meanwhile)
    store.close()


def test_searches_do_not_wait_for_the_lock(opened, locked):
    assert opened.search(Report("a crash"))  # while the fixture holds the lock
    assert opened.get("1") == OLD[1]
    assert len(opened) == 6


def test_a_write_waits_for_the_lock_some_seconds_and_is_told(opened, locked, monkeypatch):
    opened.store.query("PRAGMA busy_timeout=50")
    assert LOCK_TIMEOUT_S <= 5
    for write in (
        lambda: opened.add([some_report(50)]),
        lambda: opened.link("1", "2", "x"),
        lambda: opened.unlink("1", "2"),
        lambda: opened.delete("1"),
    ):
        with pytest.raises(StoreUnavailable, match=r"index\.sqlite is locked by another process: try again"):
            write()
    locked.execute("ROLLBACK")
    assert opened.add([some_report(50)]) == {"50": "added"}


def test_neither_length_nor_searches_wait_for_a_writer_that_waits(opened, locked):
    """One thread waits for the lock; the others do not wait for that thread."""
    tried = threading.Event()

    def add():
        tried.set()
        opened.add([some_report(50)])

    waiting = threading.Thread(target=add)
    waiting.start()
    assert tried.wait(10)
    for _ in range(5):
        assert opened.search(Report("a crash"))
        assert len(opened) == 6
        assert opened.get("2") == OLD[2]
    assert waiting.is_alive()  # so that all of that did not wait for it
    locked.execute("ROLLBACK")
    waiting.join(20)
    assert opened.get("50") == some_report(50)


def test_searches_go_on_while_a_changed_file_is_read(opened, reader, monkeypatch):
    """One thread reads the whole file again; all others answer from what they have."""
    reading, goes_on = threading.Event(), threading.Event()
    import gedbd.triage.storage.state as state

    whole = state.InMemoryIndex.of

    def slow(store):
        reading.set()
        assert goes_on.wait(20)
        return whole(store)

    other = open_folder(opened.folder, reader)
    other.add([some_report(50)])
    other.close()
    monkeypatch.setattr(state.InMemoryIndex, "of", slow)
    first = threading.Thread(target=opened.search, args=[Report("a crash")])
    first.start()
    assert reading.wait(20)
    try:
        assert opened.search(Report("a crash"))
        assert len(opened) == 6
        assert opened.get("50") == some_report(50)  # texts are read from the file, which has it
    finally:
        goes_on.set()
        first.join()
    assert opened.search(Report("a crash"))
    assert len(opened) == 7
