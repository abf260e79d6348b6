"""An index on a PostgreSQL server, at the address in BENCHMARK_STORE: loading, size, recall, searches, memory."""

import os
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from functools import partial
from multiprocessing import get_context

import numpy as np
from measure import Row, peak_mb, seconds
from million import QUERIES, made_up_corpus, made_up_model, made_up_vectors
from prepared_data import configuration

from gedbd.corpora.bug_report import Filters, Report
from gedbd.encoders.loaded_encoder import unit_rows
from gedbd.triage.index_building import synchronise
from gedbd.triage.storage.postgres_search import ServerSearch
from gedbd.triage.storage.postgres_store import PostgresStore
from gedbd.triage.stored_index import open_index

COUNT = 1_000_000
ADDED = 60
NOISE = 0.5 / 384**0.5  # of a query's vector: its cosine with the report's is about 0.9


def main() -> list[Row]:
    """Made-up reports, as in the section ``million``; each part in a process of its own, which tells its memory."""
    rows = []
    for part in (_build, _search):
        with ProcessPoolExecutor(1, get_context("spawn")) as pool:
            rows += pool.submit(part, os.environ["BENCHMARK_STORE"]).result()
    return rows


_row = partial(Row, f"{COUNT:,} reports on a server")


def _build(url: str) -> list[Row]:
    rng = np.random.default_rng(0)
    corpus, vectors = made_up_corpus(rng, COUNT), made_up_vectors(rng, COUNT)
    with closing(PostgresStore(url)) as store:
        spent = seconds(lambda: synchronise(store, corpus, made_up_model(), lambda _: vectors))
        tidied = seconds(store.tidy)
        size = store.server.query("SELECT pg_database_size(current_database()) / 1048576")[0][0]
        recall, number = _recall(store, vectors, rng)
    note = f"{size:,} MB, peak of this process {peak_mb():,.0f} MB, VACUUM {tidied:.0f} s more"
    return [
        _row("building, vectors at hand", COUNT / spent, "reports/s", note=note),
        _row(f"of the {number} nearest vectors found", recall, "recall", note=f"{QUERIES} queries near to a report"),
    ]


def _recall(store: PostgresStore, vectors: np.ndarray, rng: np.random.Generator) -> tuple[float, int]:
    """The share of the nearest vectors that the server finds, and how many it is asked for."""
    near = vectors[rng.integers(0, len(vectors), QUERIES)]
    queries = unit_rows(near + NOISE * rng.standard_normal(near.shape, dtype=np.float32))
    shares = []
    for query in queries:
        with store.snapshot():
            found = ServerSearch(store, Filters()).nearest(query)
        # The keys of an index that was just built are the rows of the corpus.
        nearest = np.argsort(-(vectors @ query), kind="stable")[: len(found)]
        shares.append(len(np.intersect1d(found, nearest)) / len(nearest))
    return float(np.mean(shares)), len(found)


def _search(url: str) -> list[Row]:
    texts = made_up_corpus(np.random.default_rng(1), QUERIES).reports
    asked = [Report(title, text) for title, text in zip(texts["title"], texts["description"], strict=True)]
    index = open_index(".", configuration().cache_dir, url=url)
    for report in asked:
        index.search(report)
    waits = [1000 * seconds(partial(index.search, report)) for report in asked]
    memory = peak_mb()
    fresh = [Report(f"one more {number}", f"word5 word{number} new{number}", f"new{number}") for number in range(ADDED)]
    added = [1000 * seconds(partial(index.add, [report])) for report in fresh]
    index.close()
    return [
        _row("search, p50", float(np.median(waits)), "ms", note=f"p95 {np.percentile(waits, 95):.0f} ms"),
        _row("peak memory of the process that searches", memory, "MB"),
        _row("adding one, p50", float(np.median(added)), "ms", note=f"max {max(added):.0f} ms"),
    ]
