"""An index is built with another model while a server has it open, and while triagers tie reports."""

import threading
from dataclasses import replace

import pytest
from small_tracker import Switch, as_corpus, fill, open_folder, some_report
from tiny_models import build

from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.bug_report import Report
from gedbd.triage.storage.index_store import FILE, IndexStore
from gedbd.triage.stored_index import open_index

REPORTS = [some_report(number) for number in range(12)]


@pytest.fixture
def served(tmp_path):
    build(tmp_path / "index", as_corpus(REPORTS))
    opened = open_index(tmp_path / "index", str(tmp_path / "cache"))
    yield opened
    opened.close()


def members_of(index, number):
    for match in index.search(replace(some_report(number), issue_id=""), 50):
        if str(number) in match.members:
            return match.members
    return None


def test_an_open_index_takes_another_model_over(served, tmp_path):
    served.add([some_report(20)])
    corpus = replace(as_corpus(REPORTS[:11]), url_template="https://b.org/{issue_id}")
    build(served.folder, corpus, hidden=24, target_precision=0.9)
    assert members_of(served, 5) == ("5",)
    assert (served.name, served.target.target_precision) == ("tracker 24", 0.9)
    assert [target.target_precision for target in served.targets] == [0.9]
    assert len(served) == 11
    assert served.add([replace(some_report(30), url="")]) == {"30": "added"}
    assert served.get("30").url == "https://b.org/30"
    again = open_index(served.folder, str(tmp_path / "cache"))
    assert served.search(Report("crash in the toolbar"), 50) == again.search(Report("crash in the toolbar"), 50)
    again.close()


@pytest.mark.parametrize("call", ["add", "link", "unlink", "delete", "get"])
def test_every_call_works_right_after_another_model_came(served, call):
    served.link("1", "2", "github")
    build(served.folder, as_corpus(REPORTS), hidden=24, target_precision=0.9)
    answers = {
        "add": lambda: served.add([some_report(20)]) == {"20": "added"},
        "link": lambda: served.link("3", "4", "github") is None,
        "unlink": lambda: served.unlink("1", "2"),
        "delete": lambda: served.delete("3"),
        "get": lambda: served.get("3") == REPORTS[3],
    }
    assert answers[call]()
    assert served.target.target_precision == 0.9


def test_links_of_triagers_outlive_the_model(served):
    served.add([some_report(20)])
    served.link("1", "2", "github")
    served.link("3", "20", "triager")
    build(served.folder, as_corpus(REPORTS), hidden=24, target_precision=0.9)
    assert served.store.links() == [("1", "2", "github"), ("3", "20", "triager")]
    assert members_of(served, 1) == ("1", "2")
    assert served.get("20") is None  # the export does not have it: counted as deleted
    served.add([some_report(20)])
    assert members_of(served, 3) == ("3", "20")


def test_there_and_back_again(served):
    """Two models in turn between two calls: the index looks as before, and is another one."""
    before = served.search(Report("crash in the toolbar"), 3)
    build(served.folder, as_corpus(REPORTS[:6]), hidden=24, target_precision=0.9)
    build(served.folder, as_corpus(REPORTS))
    assert served.search(Report("crash in the toolbar"), 3) == before


def test_searches_go_on_with_the_old_model_while_the_new_one_is_read(tmp_path, reader):
    fill(tmp_path, as_corpus(REPORTS), reader)
    reading, goes_on = threading.Event(), threading.Event()

    def read_model(store):
        if store.about()["model"] == "second":
            reading.set()
            assert goes_on.wait(20)
        return stand_in(store)

    opened = open_folder(tmp_path, reader)
    stand_in = opened._current._load_model
    opened._current._load_model = read_model
    fill(tmp_path, as_corpus(REPORTS[:6]), reader, key="second")
    first = threading.Thread(target=opened.search, args=[Report("a crash")])
    first.start()
    assert reading.wait(20)
    try:
        assert len(opened) == 12
        assert members_of(opened, 9) is None  # its text is gone from the file, and the new numbers are not here yet
        assert members_of(opened, 3) == ("3",)
        assert opened.get("3") == REPORTS[3]
    finally:
        goes_on.set()
        first.join()
    assert members_of(opened, 3) == ("3",)
    assert len(opened) == 6
    opened.close()


def test_another_model_comes_while_reports_are_read(tmp_path, reader):
    fill(tmp_path, as_corpus(REPORTS), reader)
    switch = Switch(reader)
    opened = open_folder(tmp_path, switch)

    def slow(reports):
        switch.read = reader
        fill(tmp_path, as_corpus(REPORTS[:6]), reader, key="second")
        return reader(reports)

    switch.read = slow
    assert opened.add([some_report(50)]) == {"50": "added"}
    again = open_folder(tmp_path, reader)
    for one in (opened, again):
        assert one.get("50") == some_report(50)
        assert len(one) == 7
    again.close()
    opened.close()


def test_a_model_that_cannot_be_read_is_told_and_taken_over_once_it_can(served):
    store = IndexStore(served.folder / FILE)
    good = store.about()["matching"]
    with store.transaction():
        store.write_about({"matching": good[:100]})
    for call in (lambda: served.search(Report("a crash")), lambda: served.add([some_report(20)])):
        with pytest.raises(StoreUnavailable) as refused:
            call()
        assert "\n" not in str(refused.value)
        assert refused.value.retry_after_s > 0
    assert len(served) == 12
    with store.transaction():
        store.write_about({"matching": good})
    store.close()
    assert served.search(Report("a crash"))
