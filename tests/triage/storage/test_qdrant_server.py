"""An index whose candidates a Qdrant collection finds: that of qdrant-client's own store in memory, which is exact."""

import logging
import shutil
import sys
from contextlib import closing
from itertools import chain

import numpy as np
import pytest
from qdrant_client import QdrantClient
from small_tracker import as_corpus, fill, open_folder, some_report

import gedbd.index
from gedbd.encoders.sinks import qdrant
from gedbd.retrieval.reports import first_stage
from gedbd.retrieval.reports.term_query import TermQuery
from gedbd.retrieval.reports.vector_table import VectorTable
from gedbd.triage import assembly
from gedbd.triage.storage import compaction, opening, qdrant_server
from gedbd.triage.storage.compaction import compact
from gedbd.triage.storage.qdrant_server import forget_server, open_server, read_sent, send_reports
from gedbd.triage.storage.store import FILE, Store

COUNT = 60
CONNECT = qdrant.connect  # as it is where no test replaces it
ADDRESS = "qdrant://127.0.0.1:1/bugs"


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    """Files for an index of any size, however much of it has changed, and few candidates."""
    monkeypatch.setattr(opening, "MIN_REPORTS", 1)
    monkeypatch.setattr(compaction, "MIN_REPORTS", 1)
    assert assembly.MIN_REPORTS == 10_000
    monkeypatch.setattr(opening, "MAX_CHANGED", 1e9)
    for kind in first_stage.DEPTHS:
        monkeypatch.setitem(first_stage.DEPTHS, kind, 8)


@pytest.fixture
def client(monkeypatch):
    """The server."""
    client = QdrantClient(":memory:")
    monkeypatch.setattr(qdrant, "connect", lambda *_: client)
    monkeypatch.setattr(qdrant_server, "connect", lambda *_: client)
    yield client
    client.close()


@pytest.fixture(scope="module")
def built(tmp_path_factory, reader):
    """A folder with an index, to be copied."""
    folder = tmp_path_factory.mktemp("built")
    reports = [some_report(number, product="Mail") for number in range(COUNT)]
    fill(folder, as_corpus(reports, np.arange(COUNT)), reader)
    return folder


@pytest.fixture
def folder(tmp_path, built):
    return shutil.copytree(built, tmp_path / "index")


def index_of(folder, reader, address=ADDRESS):
    compact(folder / FILE, address)
    return open_folder(folder, reader)


def lists(index, number):
    """What the first stage finds by words and by vectors, with its scores."""
    memory = index._current.state.memory
    table = first_stage.QueryScores(memory.store, query_of(index, number), len(memory))
    by_words = first_stage._best_by_words(memory.store, table, None)
    # By words they come in any order.
    scored = [np.sort(table.words[kind].scores(rows)) for kind, rows in zip(first_stage.WORDS, by_words, strict=True)]
    return [*scored, table("dense", table.nearest(8, None))]


def query_of(index, number):
    from gedbd.triage.report import as_table

    memory = index._current.state.memory
    table = as_table([some_report(number, issue_id="")])
    return memory.encoder.encode(table, index.encode(table), learn=False)


def test_it_finds_what_a_comparison_of_all_reports_finds(folder, reader, client, monkeypatch):
    index = index_of(folder, reader)
    index.add([some_report(200 + number, issue_id=f"new{number}") for number in range(4)])
    index.add([some_report(5, description="Something else altogether: error: cannot openFolder.")])
    assert index.delete("7")
    index.close()
    index = open_folder(folder, reader)
    numbers = (3, 14, 5, 77, 201)
    with monkeypatch.context() as patch:
        for one, name in ((TermQuery, "best"), (VectorTable, "nearest")):
            patch.setattr(one, name, lambda *_: pytest.fail("all reports were compared"))
        found = [lists(index, number) for number in numbers]
    index._current.state.memory.store.server = None
    expected = [lists(index, number) for number in numbers]
    index.close()
    assert any(len(scores) == 8 for scores in expected[0])
    for ours, theirs in zip(chain(*found), chain(*expected), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_a_stored_report_is_not_its_own_candidate(folder, reader, client):
    index = index_of(folder, reader)
    asked = some_report(3)
    found = index.search(asked, 50)
    index.close()
    assert found
    assert asked.issue_id not in [one for match in found for one in match.members]


def test_only_changes_are_sent_again(folder, reader, client):
    with closing(Store(folder / FILE, create=False)) as store:
        compact(folder / FILE)
        assert send_reports(store, ADDRESS, client) == COUNT
        assert send_reports(store, ADDRESS, client) == 0
    index = open_folder(folder, reader)
    index.add([some_report(5, description="Something else."), some_report(300)])
    assert index.delete("7")
    index.close()
    with closing(Store(folder / FILE, create=False)) as store:
        compaction.write_latest(store)
        assert send_reports(store, ADDRESS, client) == 3
    assert client.count("bugs").count == COUNT


def test_an_interrupted_sending_begins_again(folder, reader, client, monkeypatch):
    compact(folder / FILE)
    with closing(Store(folder / FILE, create=False)) as store:
        with monkeypatch.context() as patch:
            patch.setattr(qdrant_server, "POINTS_A_CALL", 10)
            patch.setattr(client, "upsert", failing_after(client.upsert, 2))
            with pytest.raises(ConnectionError):
                send_reports(store, ADDRESS, client)
        assert read_sent(store.path).change is None
        assert open_server(store.path, qdrant_server.read_cache(store)) is None
        assert send_reports(store, ADDRESS, client) == COUNT
    assert client.count("bugs").count == COUNT


def failing_after(call, number):
    calls = []

    def limited(*args, **options):
        calls.append(args)
        if len(calls) > number:
            raise ConnectionError
        return call(*args, **options)

    return limited


def test_the_collection_of_another_index_is_left_alone(folder, reader, client):
    compact(folder / FILE, ADDRESS)
    forget_server(folder / FILE)
    with pytest.raises(ValueError, match=f"store={ADDRESS}: the collection exists: name another, or delete it"):
        compact(folder / FILE, ADDRESS)


def test_a_server_that_does_not_answer_is_done_without(folder, reader, client, caplog):
    compact(folder / FILE, ADDRESS)
    client.delete_collection("bugs")
    with caplog.at_level(logging.WARNING, "gedbd"):
        index = open_folder(folder, reader)
        found = [index.search(some_report(75), 10) for _ in range(2)]
    index._current.state.memory.store.server = None
    expected = index.search(some_report(75), 10)
    index.close()
    assert found == [expected, expected]
    told = [record.getMessage() for record in caplog.records if "does not answer" in record.getMessage()]
    assert len(told) == 1
    assert told[0].startswith("collection bugs: its server does not answer")


def test_where_no_server_listens_searches_go_on(folder, reader, client, monkeypatch):
    compact(folder / FILE, ADDRESS)
    monkeypatch.setattr(qdrant_server, "connect", CONNECT)
    index = open_folder(folder, reader)
    assert index.search(some_report(75), 10)
    assert index._current.state.memory.store.server is not None
    index.close()


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("elsewhere", "store=elsewhere must be like qdrant://host:6333/collection"),
        ("qdrant://127.0.0.1:1/bugs", "store=qdrant://127.0.0.1:1/bugs: no Qdrant server answers there"),
    ],
)
def test_a_bad_address_is_told_before_any_work(address, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["gedbd", "dataset=demo", "encoder=tiny", "out=index", f"store={address}"]
    monkeypatch.setattr(sys, "argv", words)
    with pytest.raises(SystemExit, match=f"^error: {message}"):
        gedbd.index.main()
    assert not (tmp_path / "index").exists()


def test_a_small_index_needs_no_server(tmp_path, monkeypatch, client):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gedbd", "dataset=demo", "encoder=tiny", "out=index", f"store={ADDRESS}"])
    with pytest.raises(SystemExit, match="a server is only used for 10,000 reports or more, and there are 425"):
        gedbd.index.main()
