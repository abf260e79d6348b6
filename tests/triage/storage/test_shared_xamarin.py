"""A real tracker: searches on a server find what searches of files find."""

import os
from contextlib import closing

import numpy as np
import pytest
from postgres_server import open_store
from small_tracker import model, open_folder

from gedbd.api.corpora import load_corpus
from gedbd.corpora.bug_report import report_from_row
from gedbd.triage.index_building import synchronise
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.storage.postgres_store import PostgresStore

QUERIES = 706
NUMBERS = np.random.default_rng(0).standard_normal((997, 64))


def hashed_words(reports):
    """Sums of a random vector for each word: similar texts have similar vectors."""
    texts = [f"- {one.title} {one.description[:500]}".lower().split() for one in reports.itertuples()]
    sums = np.array([NUMBERS[[sum(word.encode()) % 997 for word in text]].sum(axis=0) for text in texts])
    return (sums / np.linalg.norm(sums, axis=1, keepdims=True)).astype(np.float32)


@pytest.mark.slow
@pytest.mark.skipif("GEDBD_DATA" not in os.environ, reason="set GEDBD_DATA to a folder with xamarin/reports.csv.xz")
def test_ranks_are_those_of_files(tmp_path, url):
    corpus = load_corpus(f"{os.environ['GEDBD_DATA']}/xamarin/reports.csv.xz")
    for store in (IndexStore(tmp_path / FILE), PostgresStore(url)):
        with closing(store):
            synchronise(store, corpus, model(), hashed_words)
    file, shared = open_folder(tmp_path, hashed_words), open_store(url, hashed_words)
    rows = np.random.default_rng(0).choice(len(corpus), QUERIES, replace=False)
    reports = [report_from_row(row) for row in corpus.reports.iloc[rows].itertuples(index=False)]
    found, expected = (
        [[(match.best.issue_id, match.members) for match in index.search(report)] for report in reports]
        for index in (shared, file)
    )
    assert found == expected
    file.close()
    shared.close()
