"""An index on a server answers as one in a folder that was built from the same reports and changed likewise."""

from contextlib import closing
from datetime import UTC, datetime

import numpy as np
import pytest
from postgres_server import fill_store, open_store
from reports_in_five_languages import REPORTS
from small_tracker import Switch, as_corpus, fill, model, open_folder, read_rows, some_report, tiny_reader

from gedbd.corpora.bug_report import Filters, Report
from gedbd.retrieval.report_ranking import first_stage
from gedbd.triage.index_building import synchronise
from gedbd.triage.storage import postgres_search, postgres_store
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.postgres_store import PostgresStore

pytestmark = pytest.mark.integration

COUNT = 60
QUERIES = [
    (some_report(3, issue_id=""), Filters()),
    (some_report(14), Filters()),
    (some_report(21, issue_id="", created_at=None), Filters()),
    (Report("mail in the archive", "Word33 and word7", component="UI"), Filters(component="Net ")),
    (Report("printer", created_at=datetime(2024, 2, 1, tzinfo=UTC)), Filters(datetime(2024, 1, 9, tzinfo=UTC))),
    (Report("nothing like it: zzz"), Filters(created_before=datetime(2024, 1, 20, tzinfo=UTC))),
    (Report("crash"), Filters(component="nonesuch")),
]


def some_corpus():
    """Sixty reports, some of them with the words of others, of each other's groups or resolved."""
    reports = [some_report(number, product=["a", ""][number % 2]) for number in range(COUNT)]
    for number in range(0, COUNT, 7):
        text = f"Word{number - 1} fails in Foo.bar() at com.example.Mail.send"
        reports[number] = some_report(number, description=text, resolved_at=datetime(2024, 5, 1, tzinfo=UTC))
    group = np.arange(COUNT)
    group[[13, 7]], group[15], group[[40, 41, 52]] = 3, 5, 30
    return as_corpus(reports, group)


@pytest.fixture
def both(tmp_path, url, reader):
    """The same reports in a folder and on a server."""
    corpus = some_corpus()
    fill(tmp_path, corpus, reader)
    fill_store(url, corpus, reader)
    opened = [open_folder(tmp_path, reader), open_store(url, reader, tmp_path)]
    yield opened
    for index in opened:
        index.close()


def test_components_are_named_from_the_most_similar(both):
    expected, found = (index.components_like("NE", 2) for index in both)
    assert expected == found
    assert "ne" in expected[0].lower()


def assert_same(both, top_k=50):
    """The two indexes hold the same and answer the same."""
    file, shared = both
    assert len(shared) == len(file)
    assert [name for name, _ in zip(*shared.vectors(), strict=True)] == file.vectors()[0]
    for report, filters in QUERIES:
        expected, found = (index.search(report, top_k, filters) for index in both)
        assert [(one.master, one.best, one.members) for one in found] == [
            (one.master, one.best, one.members) for one in expected
        ]
        assert [one.explanation for one in found] == [one.explanation for one in expected]
        np.testing.assert_allclose([one.score for one in found], [one.score for one in expected], atol=1e-6)
        assert [one.probability for one in found] == pytest.approx([one.probability for one in expected])


@pytest.mark.parametrize("key", ["first", "second"])
def test_reports_with_a_later_state_than_the_corpus_stay_or_are_deleted(both, url, reader, key):
    def find_later(store):
        return {"3", "77"}, {"5", "61", "99"}

    stores = (IndexStore(both[0].folder / FILE, create=False), PostgresStore(url))
    for index, store in zip(both, stores, strict=True):
        index.add([some_report(5, title="newer"), some_report(61), some_report(62)])
        with closing(store):
            read = lambda rows: read_rows(reader, rows)  # noqa: E731
            changes = synchronise(store, some_corpus(), model(key), read, find_later)
        assert (changes.deleted, changes.kept) == (2, 2)
        assert (index.get("3"), index.get("62"), index.get("5").title) == (None, None, "newer")
        assert index.get("61") == some_report(61)
        assert len(index) == COUNT
    assert_same(both)


def test_other_languages(tmp_path, url, reader):
    corpus = as_corpus([Report(title, body, issue_id=name) for name, original, title, body in REPORTS if not original])
    fill(tmp_path, corpus, reader)
    fill_store(url, corpus, reader)
    both = (open_folder(tmp_path, reader), open_store(url, reader, tmp_path))
    for _, original, title, body in REPORTS:
        expected, found = (index.search(Report(title, body), 3) for index in both)
        assert [(one.best, one.explanation) for one in found] == [(one.best, one.explanation) for one in expected]
        assert not original or expected[0].best.issue_id == original
    assert both[0].search(Report("编辑器保存"), 1)[0].explanation.terms == ("保存", "编辑器")
    for index in both:
        index.close()


def test_it_answers_as_the_files_before_and_after_changes(both):
    assert_same(both)
    added = [some_report(number) for number in range(COUNT, COUNT + 5)]
    edited = [some_report(4, title="menu in the menu"), some_report(30, component="new", resolved_at=None)]
    changes = [
        lambda index: index.add(added + edited),
        lambda index: index.link("61", "20", "triager"),
        lambda index: index.link("20", "5", "triager"),
        lambda index: index.delete("5"),  # its links go on connecting 15 and 20
        lambda index: index.forget("3"),
        lambda index: index.forget("nonesuch"),
        lambda index: index.unlink("40", "30"),
        lambda index: index.delete("0"),
        lambda index: index.add([some_report(0, title="back again"), some_report(5)]),
        lambda index: index.add([some_report(9, priority="high")], fields=["priority"]),
        lambda index: index.add([some_report(9, priority="high")]),
        lambda index: [index.delete(str(number)) for number in range(20, 50)],
    ]
    for change in changes:
        assert change(both[0]) == change(both[1])
        assert_same(both, 10)


def test_a_mean_of_many_vectors_follows_changes(both, monkeypatch):
    from gedbd.retrieval.report_ranking import feature_store

    monkeypatch.setattr(feature_store, "MEAN_STEP", 10)
    monkeypatch.setattr(postgres_store, "MEAN_STEP", 10)
    for index in both:
        index.add([some_report(number) for number in range(COUNT, COUNT + 12)])
        index.delete("2")
        index.add([some_report(17, title="printer printer printer")])
    means = [
        both[0].store.state.memory.store.mean_vector(len(both[0])),
        both[1].store.server.query("SELECT mean_vector FROM totals")[0][0],
    ]
    np.testing.assert_array_equal(means[0], np.frombuffer(means[1], dtype=np.float32))


def test_a_corpus_is_brought_up_to_date(tmp_path, url, reader):
    corpus = some_corpus()
    assert fill_store(url, corpus, reader)[:5] == (COUNT, 0, 0, 0, 0)
    assert fill_store(url, corpus, reader)[:5] == (0, 0, COUNT, 0, 0)
    shared = open_store(url, reader)
    shared.link("1", "2", "triager")
    changed = [some_report(number) for number in range(5, COUNT + 5)]
    fresh = as_corpus([some_report(7, url="https://a.b/7"), *(one for one in changed if one.issue_id != "7")])
    counts = fill_store(url, fresh, reader)
    assert counts[0] == 5
    assert counts[3] == 5
    other = Switch(tiny_reader(hidden=24))
    assert fill_store(url, fresh, other, "second")[:5] == (COUNT, 0, 0, 0, 0)
    fill(tmp_path, fresh, other, "second")
    file = open_folder(tmp_path, other)
    file.link("8", "9", "triager")
    shared.store._load_model = lambda store: (other, shared.matching)
    shared.link("8", "9", "triager")
    assert_same((file, shared))
    for index in (file, shared):
        index.close()


def test_many_reports_are_found_by_the_rarest_words_and_an_index_of_vectors(both, monkeypatch):
    monkeypatch.setattr(postgres_store, "MIN_NEAREST", 1)
    both[1].add([some_report(COUNT)])
    both[0].add([some_report(COUNT)])
    assert both[1].store.server.query("SELECT to_regclass('nearest')::text")[0][0] == "nearest"
    assert_same(both)
    monkeypatch.setattr(postgres_search, "MAX_POSTINGS", 4)
    both[1].search(some_report(3))
    assert both[1].search(Report("word33"), 1)[0].best.issue_id == both[0].search(Report("word33"), 1)[0].best.issue_id


def test_vectors_and_words_of_few_of_the_found_reports_are_read(both, monkeypatch):
    monkeypatch.setattr(first_stage.find_candidates, "__defaults__", (None, 8))  # groups
    for name in first_stage.DEPTHS:
        monkeypatch.setitem(first_stage.DEPTHS, name, 25)
    read, original = [], postgres_search.FoundReports._read
    monkeypatch.setattr(postgres_search.FoundReports, "_read", lambda *given: [read.append(given[1]), original(*given)])
    assert_same(both, 8)
    assert 0 < max(map(len, read)) < COUNT


def test_words_that_a_server_cannot_store_are_replaced(url, reader):
    fill_store(url, as_corpus([some_report(0)]), reader)
    index = open_store(url, reader)
    odd = Report("crash \0 here", "a\ud800b", issue_id="x", component="c\0")
    assert index.add([odd]) == {"x": "added"}
    assert index.add([odd]) == {"x": "unchanged"}
    assert index.get("x").title == "crash \ufffd here"
    assert index.search(Report("crash\0"), 1, Filters(component="c\0"))[0].best.issue_id == "x"
    index.close()
