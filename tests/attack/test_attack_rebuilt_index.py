"""An index is built again while others write to it, hold its locks, or have it open with another model."""

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest
from refusals import refuses
from small_tracker import Switch, as_corpus, fill, model, open_folder, read_rows, some_report, writes_to
from tiny_models import build

import gedbd.triage.storage.in_memory
from gedbd.corpora.bug_report import Report
from gedbd.io.sqlite_file import LOCK_TIMEOUT_S, StoreUnavailable
from gedbd.triage.index_building import synchronise
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.stored_index import open_index

pytestmark = pytest.mark.slow

OLD = [some_report(number) for number in range(6)]
NEW = [*OLD[1:5], some_report(5, version="2"), some_report(7)]
REPORTS = [some_report(number) for number in range(12)]
QUERY = Report("crash in the toolbar")


class Pause:
    """A function that waits where a condition holds, until it may go on."""

    def __init__(self, function: Callable, condition: Callable = lambda *_: True) -> None:
        self.function, self.condition = function, condition
        self.reached, self.goes_on = threading.Event(), threading.Event()

    def __call__(self, *arguments):
        if self.condition(*arguments):
            self.reached.set()
            assert self.goes_on.wait(20)
        return self.function(*arguments)

    @contextmanager
    def during(self, task: Callable, *arguments: object) -> Iterator[None]:
        """Runs a task in a thread that waits until the block ends."""
        thread = threading.Thread(target=task, args=arguments)
        thread.start()
        assert self.reached.wait(20)
        try:
            yield
        finally:
            self.goes_on.set()
            thread.join()


@pytest.fixture
def opened(tmp_path, reader):
    fill(tmp_path, as_corpus(OLD), reader)
    with closing(open_folder(tmp_path, reader)) as index:
        yield index


@pytest.fixture
def locked(opened):
    """Somebody else holds the right to write to the file, and does not let go."""
    with closing(sqlite3.connect(opened.folder / FILE, isolation_level=None)) as other:
        other.execute("BEGIN EXCLUSIVE")
        yield other


@pytest.fixture
def served(tmp_path):
    """An index with a tiny encoder, which other ones replace."""
    build(tmp_path / "index", as_corpus(REPORTS))
    with closing(open_index(tmp_path / "index", str(tmp_path / "cache"))) as index:
        yield index


def build_again(index, read, key="first", corpus=NEW):
    """Brings the index to the state of a corpus with a model."""
    with closing(IndexStore(index.folder / FILE)) as store:
        return synchronise(store, as_corpus(corpus), model(key), read)


def check_as_fresh(index, reader):
    with closing(open_folder(index.folder, reader)) as fresh:
        assert index.search(QUERY, 50) == fresh.search(QUERY, 50)
        assert len(index) == len(fresh)


def members_of(index, number):
    for match in index.search(replace(some_report(number), issue_id=""), 50):
        if str(number) in match.members:
            return match.members
    return None


@pytest.mark.parametrize("key", ["first", "second"])
def test_what_others_write_each_time_reports_are_read_stays(opened, reader, key):
    """However often the run looks, somebody has written again."""
    rounds = []

    def meanwhile(rows):
        number = len(rounds)
        rounds.append(number)
        if number == 0:
            opened.add([some_report(2, title="changed meanwhile"), some_report(3, title="so was this")])
            opened.delete("4")
        if number < 3:  # the last rounds hold the lock: a write from this thread would wait for itself
            writes = threading.Thread(target=lambda: opened.add([some_report(100 + number)]))
            writes.start()
            writes.join()
        return read_rows(reader, rows)

    changes = build_again(opened, meanwhile, key)
    later = {str(100 + number) for number in range(min(len(rounds), 3))}
    names = {"0", "1", "2", "3", "4", "5", "7", *later}
    assert {name for name in names if opened.get(name)} == names - {"0", "4"}
    assert opened.get("2").title == "changed meanwhile"
    assert opened.get("5").version == "2"
    assert (changes.kept, changes.deleted) == (2 + len(later), 1)
    assert len(rounds) <= 6
    check_as_fresh(opened, reader)


@pytest.mark.parametrize(
    ("other", "fields", "result", "component"),
    [
        ({"component": "late"}, ("title",), "updated", "late"),  # as the webhook adds an issue
        ({"component": "late"}, None, "updated", "net"),
        ({"title": "new"}, ("title",), "unchanged", "net"),
        (None, ("title",), "added", "net"),
    ],
)
def test_what_another_process_writes_while_a_report_is_encoded_counts(opened, reader, other, fields, result, component):
    def meanwhile(rows):
        index.store.model.encode.read = reader
        if other is None:
            opened.delete("1")
        else:
            opened.add([some_report(1, **other)])
        return reader(rows)

    with closing(open_folder(opened.folder, Switch(meanwhile))) as index:
        assert index.add([some_report(1, title="new")], fields) == {"1": result}
        assert (index.get("1").title, index.get("1").component) == ("new", component)
    check_as_fresh(opened, reader)


def test_another_run_with_another_model_is_told(opened, reader):
    def meanwhile(rows):
        fill(opened.folder, as_corpus(OLD), reader, key="third")
        return read_rows(reader, rows)

    with refuses("another process replaced the model"):
        build_again(opened, meanwhile, "second")


def test_a_write_waits_for_the_lock_some_seconds_and_is_told_while_searches_do_not_wait(opened, locked):
    opened.store.file.query("PRAGMA busy_timeout=50")
    assert LOCK_TIMEOUT_S <= 5
    assert opened.search(Report("a crash"))
    for write in writes_to(opened):
        with refuses(r"index\.sqlite is locked by another process: try again", StoreUnavailable):
            write()
    locked.execute("ROLLBACK")
    assert opened.add([some_report(50)]) == {"50": "added"}


def test_searches_go_on_while_a_changed_file_is_read(opened, reader, monkeypatch):
    """One thread reads the whole file again; all others answer from what they have."""
    with closing(open_folder(opened.folder, reader)) as other:
        other.add([some_report(50)])
    pause = Pause(gedbd.triage.storage.in_memory.features_of)
    monkeypatch.setattr(gedbd.triage.storage.in_memory, "features_of", pause)
    with pause.during(opened.search, Report("a crash")):
        assert opened.search(Report("a crash"))
        assert len(opened) == 6
        assert opened.get("50") == some_report(50)  # texts are read from the file, which has it
    assert opened.search(Report("a crash"))
    assert len(opened) == 7


def test_searches_go_on_with_the_old_model_while_the_new_one_is_read(tmp_path, reader):
    fill(tmp_path, as_corpus(REPORTS), reader)
    with closing(open_folder(tmp_path, reader)) as opened:
        pause = Pause(opened.store._load_model, lambda store: store.about()["model"] == "second")
        opened.store._load_model = pause
        fill(tmp_path, as_corpus(REPORTS[:6]), reader, key="second")
        with pause.during(opened.search, Report("a crash")):
            assert len(opened) == 12
            assert members_of(opened, 9) is None  # its text is gone from the file; the new numbers are not here yet
            assert members_of(opened, 3) == ("3",)
            assert opened.get("3") == REPORTS[3]
        assert members_of(opened, 3) == ("3",)
        assert len(opened) == 6


def test_an_open_index_takes_another_model_over(served, tmp_path):
    before = served.search(QUERY, 3)
    served.add([some_report(20)])
    corpus = replace(as_corpus(REPORTS[:11]), url_template="https://b.org/{issue_id}")
    build(served.folder, corpus, hidden=24, target_precision=0.9)
    assert members_of(served, 5) == ("5",)
    assert (served.name, served.matching.target.target_precision) == ("tracker 24", 0.9)
    assert [target.target_precision for target in served.matching.targets] == [0.9]
    assert len(served) == 11
    assert served.add([replace(some_report(30), url="")]) == {"30": "added"}
    assert served.get("30").url == "https://b.org/30"
    with closing(open_index(served.folder, str(tmp_path / "cache"))) as again:
        assert served.search(QUERY, 50) == again.search(QUERY, 50)
    build(served.folder, as_corpus(REPORTS))
    assert served.search(QUERY, 3) == before
    # Two models in turn between two calls: the index looks as before, and is another one.
    build(served.folder, as_corpus(REPORTS[:6]), hidden=24, target_precision=0.9)
    build(served.folder, as_corpus(REPORTS))
    assert served.search(QUERY, 3) == before


def test_a_model_that_cannot_be_read_is_told_and_taken_over_once_it_can(served):
    with closing(IndexStore(served.folder / FILE)) as store:
        good = store.about()["matching"]
        with store.transaction():
            store.write_about({"matching": good[:100]})
        for call in (lambda: served.search(Report("a crash")), lambda: served.add([some_report(20)])):
            with refuses(r"index\.sqlite|settings", StoreUnavailable) as refused:
                call()
            assert refused.value.retry_after_s > 0
        assert len(served) == 12
        with store.transaction():
            store.write_about({"matching": good})
    assert served.search(Report("a crash"))
