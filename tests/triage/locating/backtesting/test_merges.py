"""A replay without the merges: rows, links and counts on a history of five commits."""

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.corpora.documents import Documents
from gedbd.corpora.relevance import Links
from gedbd.triage.locating.backtesting.labelled_reports import without_merges


def links(pairs, num_documents):
    return Links(pd.DataFrame(pairs, columns=["query", "document"]), 2, num_documents)


def history(merges):
    commits = pd.DataFrame({"id": list("abcde"), "commit": range(5), "is_merge": [row in merges for row in range(5)]})
    files = pd.DataFrame({"id": ["a:x", "b:x", "c:x", "c:y", "e:y"], "commit": [0, 1, 2, 2, 4]})
    hunks = pd.DataFrame({"id": ["a1", "b1", "c1", "c2", "e1"], "commit": [0, 1, 2, 2, 4], "file": [0, 1, 2, 3, 4]})
    tables = [Documents("small", table) for table in (commits, files, hunks)]
    inducing = {"commit": links([(0, 0), (0, 1), (1, 2)], 5), "hunk": links([(0, 1), (1, 3)], 5)}
    return ChangeCorpus("small", None, *tables, links([(0, 2), (1, 4)], 5), inducing)


def test_rows_and_links_are_numbered_again():
    reduced, told = without_merges(history({1, 3}))
    assert reduced.commits.table["id"].tolist() == ["a", "c", "e"]
    assert reduced.commits.table["commit"].tolist() == [0, 1, 2]
    assert reduced.files.table["id"].tolist() == ["a:x", "c:x", "c:y", "e:y"]
    assert reduced.files.table["commit"].tolist() == [0, 1, 1, 2]
    assert reduced.hunks.table["file"].tolist() == [0, 1, 2, 3]
    np.testing.assert_array_equal(reduced.fixing.pairs, [[0, 1], [1, 2]])
    np.testing.assert_array_equal(reduced.inducing["commit"].pairs, [[0, 1], [0, 1]])
    np.testing.assert_array_equal(reduced.inducing["hunk"].pairs, [[1], [2]])
    assert reduced.inducing["commit"].num_documents == 3
    assert told == (
        "merges left out of the candidates, as gedbd locate leaves them out: 2",
        "links to inducing commits left out, as these are merges: 1",
    )


def test_a_history_without_merges_stays():
    corpus = history(set())
    assert without_merges(corpus) == (corpus, ())
