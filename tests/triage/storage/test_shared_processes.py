"""Several processes share an index on a server: none sees half a change, and one that is killed leaves nothing half."""

import gc
import os
import random
import signal
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import requests
from killed_process import forked, numbers_for
from postgres_server import fill_store, open_store
from raw_http import until
from served_process import served
from small_tracker import as_corpus, some_report

from gedbd.corpora.bug_report import Report
from gedbd.retrieval.report_ranking import first_stage
from gedbd.triage.storage.postgres_store import LIST, POSTING, PostgresStore, Totals, read_vectors
from gedbd.triage.storage.report_store import TERM_COLUMNS

pytestmark = pytest.mark.integration

BATCHES, SIZE = 12, 3


def batch(number, version):
    """Reports with a word that no other reports have."""
    return [Report(f"batch{number}", f"word{place}", f"{number}-{place}", version=version) for place in range(SIZE)]


def searching(url, seconds):
    """Starts a process that searches for batches; it ends with 1 if it finds a part of one, or two versions."""
    gc.collect()
    child = os.fork()
    if child:
        return child
    gc.disable()
    signal.alarm(60)
    status = 1
    try:
        first_stage.THREADS = ThreadPoolExecutor(1)  # the threads of the other pool are not in this process
        index = open_store(url, numbers_for)
        generator, end = random.Random(os.getpid()), time.monotonic() + seconds
        while time.monotonic() < end:
            title = f"batch{generator.randrange(BATCHES)}"
            found = [match.best for match in index.search(Report(title), 50) if match.best.title == title]
            assert len(found) in (0, SIZE)
            assert len({one.version for one in found}) <= 1
        status = 0
    finally:
        os._exit(status)


def assert_whole(url):
    """The totals, words and vectors of an index are those of its reports."""
    store = PostgresStore(url, create=False)
    with store.snapshot():
        query, totals = store.server.query, store.totals()
        rows = query(f"SELECT key, lengths, vector, {', '.join(TERM_COLUMNS)} FROM reports JOIN vectors USING (key)")
        assert query("SELECT count(*) FROM reports")[0][0] == totals.count == len(rows)
        expected = Totals(vector_sum=np.zeros(3, dtype=np.int64))
        expected.add(1, read_vectors([row[2] for row in rows]), [row[1] for row in rows])
        np.testing.assert_array_equal(expected.vector_sum, totals.vector_sum)
        assert list(expected.lengths) == list(totals.lengths)
        postings = [np.frombuffer(docs, dtype=POSTING)["key"] for (docs,) in query("SELECT docs FROM postings")]
        sizes = {key: sum(len(part) // LIST.itemsize for part in parts) for key, _, _, *parts in rows}
        keys, counts = np.unique(np.concatenate(postings), return_counts=True)
        assert dict(zip(keys.tolist(), counts.tolist(), strict=True)) == sizes
    store.close()


@pytest.mark.parametrize("kills", [pytest.param(3), pytest.param(25, marks=pytest.mark.slow)])
def test_a_writer_is_killed_while_two_processes_search(url, kills):
    fill_store(url, as_corpus([some_report(number) for number in range(20)]), numbers_for)
    generator = random.Random(0)
    searchers = [searching(url, 0.3 * kills) for _ in range(2)]
    for kill in range(kills):

        def write(say, kill=kill):
            index = open_store(url, numbers_for)
            for number in range(BATCHES):
                index.add(batch(number, str(kill)))
                say(number)

        said = forked(write, generator.uniform(0, 0.2), once_it_speaks=True)
        index = open_store(url, numbers_for)
        assert {index.get(f"{number}-0").version for number in said} == {str(kill)}
        index.close()
        assert_whole(url)
    assert [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in searchers] == [0, 0]


@pytest.mark.slow
def test_one_of_two_services_with_eight_clients_each_is_killed(tmp_path, url):
    fill_store(url, as_corpus([some_report(number) for number in range(20)]), numbers_for)
    options = (f"store={url}", "opened._target_=postgres_server.open_served")
    folders = [tmp_path / name for name in ("killed", "other")]
    for folder in folders:
        folder.mkdir()
    statuses, acknowledged, in_doubt = Counter(), [], []

    def client(service, name):
        session, address = requests.Session(), f"http://127.0.0.1:{service.port}/api"
        for number in range(20):
            report = {"issue_id": f"{name}-{number}", "title": f"{name} word{number}"}
            try:
                statuses["add", session.post(f"{address}/reports", json=report, timeout=50).status_code] += 1
                acknowledged.append(report["issue_id"])
                found = session.post(f"{address}/search", json={"title": report["title"]}, timeout=50)
                statuses["search", found.status_code] += 1
            except (requests.ConnectionError, requests.exceptions.ChunkedEncodingError):
                in_doubt.append(report["issue_id"])
                return

    with served(folders[0], *options) as killed, served(folders[1], *options) as other, ThreadPoolExecutor(16) as pool:
        clients = [pool.submit(client, service, f"{service.port}-{n}") for service in (killed, other) for n in range(8)]
        until(lambda: len(acknowledged) >= 64, 60)
        killed.end(signal.SIGKILL)
        for one in clients:
            one.result()
        assert "Traceback" not in killed.logged() + other.logged()
    assert {status for _, status in statuses} == {200}
    assert len(in_doubt) == 8  # those of the killed service
    assert all(name.startswith(f"{killed.port}-") for name in in_doubt)
    assert sum(name.startswith(f"{other.port}-") for name in acknowledged) == 8 * 20
    store = PostgresStore(url, create=False)
    stored = [name for (name,) in store.query("SELECT issue_id FROM reports") if "-" in name]
    store.close()
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored) <= {*acknowledged, *in_doubt}
    assert_whole(url)


def test_two_writers_take_turns(url):
    fill_store(url, as_corpus([some_report(number) for number in range(20)]), numbers_for)
    indexes = [open_store(url, numbers_for) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        done = [threads.submit(index.add, batch(number, "1")) for number, index in enumerate(indexes) for _ in range(3)]
        said = [one.result() for one in done]
    assert sum("added" in one.values() for one in said) == 4
    assert [len(index) for index in indexes] == [20 + 4 * SIZE] * 4
    assert_whole(url)
    for index in indexes:
        index.close()


def test_a_model_that_another_process_has_replaced_is_loaded(url):
    corpus = as_corpus([some_report(number) for number in range(20)])
    fill_store(url, corpus, numbers_for)
    index = open_store(url, numbers_for)
    before = index.search(some_report(3), 3)
    # Vectors of another size.
    longer = lambda reports: np.pad(numbers_for(reports), ((0, 0), (0, 2)))  # noqa: E731
    index.store._load_model = lambda store: (longer, index.matching)
    fill_store(url, corpus, longer, "second")
    assert [match.best for match in index.search(some_report(3), 3)] == [match.best for match in before]
    index.add([some_report(20)])
    assert index.vectors()[1].shape == (21, 5)
    index.close()


def test_one_process_stores_a_corpus_at_a_time(url):
    first, second = PostgresStore(url), PostgresStore(url)
    with first.sole_builder(), pytest.raises(ValueError, match="updated with a corpus by another process"):
        second.sole_builder().__enter__()
    with second.sole_builder():
        pass
    for store in (first, second):
        store.close()
