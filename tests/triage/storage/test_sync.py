"""An index follows a corpus in one change."""

import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pytest
from small_tracker import as_corpus, fill, model, open_folder, read_rows, some_report, stored_terms

from gedbd.corpora.bug_report import as_table
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.feature_store import FeatureEncoder
from gedbd.triage.index_building import synchronise
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore


def test_counts_of_changes(tmp_path, reader):
    reports = [some_report(number) for number in range(6)]
    assert fill(tmp_path, as_corpus(reports), reader) == (6, 0, 0, 0)
    assert fill(tmp_path, as_corpus(reports), reader) == (0, 0, 6, 0)
    assert fill(tmp_path, as_corpus([some_report(0, os="linux"), *reports[2:], some_report(9)]), reader) == (1, 1, 4, 1)
    assert fill(tmp_path, as_corpus(reports), reader, key="second") == (6, 0, 0, 1)


def test_terms_of_another_version_are_written_again(tmp_path, reader):
    corpus = as_corpus([some_report(number) for number in range(4)])
    fill(tmp_path, corpus, reader)
    latest = model()._replace(about=model().about | {"terms": "2"})
    with closing(IndexStore(tmp_path / FILE)) as store:
        counts = [synchronise(store, corpus, latest, lambda rows: read_rows(reader, rows))[:4] for _ in range(2)]
        assert counts == [(4, 0, 0, 0), (0, 0, 4, 0)]
        assert store.about()["terms"] == "2"


def test_what_is_stored_is_what_was_read(tmp_path, reader):
    titles = ["", "Crash", "crash crash in openAll", "error: cannot open"]
    fields = [{"version": f"{number % 2}", "priority": "high"} for number in range(7)]
    reports = [some_report(number, title=titles[number % 4], **fields[number]) for number in range(7)]
    fill(tmp_path, as_corpus(reports), reader)
    store = IndexStore(tmp_path / FILE)
    vocabulary = Vocabulary()
    numbers = FeatureEncoder(vocabulary).encode(as_table(reports), reader(as_table(reports)), learn=True)
    assert stored_terms(store) == vocabulary.terms
    assert store.reports([str(number) for number in range(9)]) == {one.issue_id: one for one in reports}
    assert store.contents() == {one.issue_id: (one.content_hash, one.url, None) for one in reports}
    for row, one in enumerate(store.features()[1]):
        assert (one.issue_id, one.component) == (reports[row].issue_id, reports[row].component)
        assert (one.version, one.priority) == (f"{row % 2}", "high")
        np.testing.assert_allclose(np.frombuffer(one.vector, dtype=np.float32), numbers.vectors[row], atol=1e-6)
        stored = [np.frombuffer(part, dtype=np.int32).tolist() for part in one[8:]]
        assert stored == [terms.tolist() for terms in (texts[row] for texts in numbers.terms.values())]


def test_an_empty_corpus_leaves_an_index_that_takes_reports(tmp_path, reader):
    fill(tmp_path, as_corpus([some_report(0)]), reader)
    assert fill(tmp_path, as_corpus([]), reader, key="second") == (0, 0, 0, 1)
    index = open_folder(tmp_path, reader)
    assert index.add([some_report(1)]) == {"1": "added"}
    assert [match.best.issue_id for match in index.search(some_report(2))] == ["1"]


def test_an_updated_report_keeps_its_row(tmp_path, reader):
    reports = [some_report(number) for number in range(4)]
    fill(tmp_path, as_corpus(reports), reader)
    fill(tmp_path, as_corpus([reports[0], some_report(1, os="linux"), *reports[2:]]), reader)
    store = IndexStore(tmp_path / FILE)
    assert [row[0] for row in store.features()[1]] == ["0", "1", "2", "3"]
    assert store.reports(["1"])["1"].os == "linux"


def test_reports_and_links_that_came_in_between_stay(tmp_path, reader):
    fill(tmp_path, as_corpus([some_report(number) for number in range(4)]), reader)
    index = open_folder(tmp_path, reader)

    def meanwhile(rows):
        index.add([some_report(50)])
        index.link("50", "0", "triager")
        return read_rows(reader, rows)

    store = IndexStore(tmp_path / FILE)
    corpus = as_corpus([some_report(number) for number in range(5)])
    assert synchronise(store, corpus, model(), meanwhile) == (1, 0, 4, 0, 1, 0)
    assert index.get("50") == some_report(50)
    assert index.get("4") == some_report(4)
    assert store.links() == [("50", "0", "triager")]


def test_a_reader_that_fails_leaves_the_old_state(tmp_path, reader):
    def failing(rows):
        raise RuntimeError("out of memory")

    for corpus, key in ((as_corpus([some_report(1)]), "first"), (as_corpus([some_report(2)]), "second")):
        store = IndexStore(tmp_path / FILE)
        before = None if store.is_empty else (store.contents(), store.about())
        with pytest.raises(RuntimeError, match="out of memory"):
            synchronise(store, corpus, model(key), failing)
        assert before == (None if store.is_empty else (store.contents(), store.about()))
        fill(tmp_path, as_corpus([some_report(0)]), reader)


def test_weights_of_any_size_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("gedbd.triage.storage.report_store.CHUNK_BYTES", 7)
    store = IndexStore(tmp_path / FILE)
    for weights in (b"", b"x" * 7, bytes(range(50))):
        with store.transaction():
            store.write_model({"dim": "3"}, weights)
        assert store.weights() == weights
    assert store.about() == {"dim": "3"}
    with pytest.raises(sqlite3.ProgrammingError), store.transaction():
        store.write_links([("a", "b", "c"), ("d",)])
    assert store.links() == []


def test_what_is_read_in_one_moment_is_of_one_moment(tmp_path, reader):
    fill(tmp_path, as_corpus([some_report(0)]), reader)
    mine, index = IndexStore(tmp_path / FILE), open_folder(tmp_path, reader)
    before = mine.changes
    with mine.snapshot():
        terms = stored_terms(mine)
        index.add([some_report(1)])
        assert stored_terms(mine) == terms
        assert list(mine.contents()) == ["0"]
    assert list(mine.contents()) == ["0", "1"]
    assert mine.changes != before


def test_an_address_or_a_resolution_is_stored_without_reading_the_report_again(tmp_path, reader):
    reports = [some_report(number) for number in range(4)]
    fill(tmp_path, as_corpus(reports), reader)
    index = open_folder(tmp_path, reader)

    def unwanted(rows):
        raise AssertionError("no text has changed")

    day = datetime(2024, 3, 1, 12, tzinfo=UTC)
    resolved = [replace(one, resolved_at=day) for one in reports[:2]] + reports[2:]
    linked = [replace(one, url=f"https://b.org/{one.issue_id}") for one in reports[:3]] + reports[3:]
    store = IndexStore(tmp_path / FILE)
    for corpus, counts in ((linked, (0, 3, 1, 0)), (resolved, (0, 3, 1, 0)), (resolved, (0, 0, 4, 0))):
        assert synchronise(store, as_corpus(corpus), model(), unwanted)[:4] == counts
        assert store.urls(["0", "3", "nobody"]) == ({"0": "https://b.org/0"} if corpus is linked else {})
    assert store.reports(["0", "2"]) == {"0": resolved[0], "2": reports[2]}
    index.search(reports[3])
    expected = pytest.approx([19783.5, 19783.5, np.nan, np.nan], nan_ok=True)
    assert index.store.state.memory.store["resolved"].tolist() == expected
    assert synchronise(store, as_corpus(reports), model(), unwanted)[:4] == (0, 2, 2, 0)
    assert store.reports(["0"]) == {"0": reports[0]}
