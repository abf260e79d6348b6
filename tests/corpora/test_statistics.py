from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.relevance import Links
from gedbd.corpora.statistics import describe_corpus


def small_corpus() -> Corpus:
    reports = pd.DataFrame("", index=range(6), columns=list(BUG_FIELDS), dtype=str)
    reports["created_at"] = pd.date_range("2024-01-01", periods=6, tz="UTC")
    reports["title"] = ["one", "one two", "one two  three", "", "one\ntwo three four five", "one"]
    return Corpus.of_table("small", reports, np.array([0, 0, 0, 3, 3, 5]))


def test_counts_worked_out_by_hand():
    assert describe_corpus(small_corpus()) == {
        "reports": 6,
        "without duplicate": 1,
        "in a group": 5,
        "in a group (%)": pytest.approx(83.333, abs=1e-3),
        "groups": 2,
        "pairs": 3 + 1,
        "largest group": 3,
        "first created": pd.Timestamp("2024-01-01", tz="UTC"),
        "last created": pd.Timestamp("2024-01-06", tz="UTC"),
        "median words of a title": 2.0,
        "median words of a description": None,
        "with a web address": 0,
    }


def test_a_corpus_without_dates_and_groups():
    corpus = small_corpus()
    corpus.reports["created_at"] = pd.NaT
    numbers = describe_corpus(Corpus.of_table("small", corpus.reports, np.arange(6)))
    assert (numbers["first created"], numbers["largest group"], numbers["pairs"]) == (None, 0, 0)


def test_addresses_labels_and_links_are_counted_each_pair_once_a_source():
    corpus = small_corpus()
    table = pd.DataFrame({"query": [0, 1, 2, 2], "document": [1, 0, 1, 0], "source": ["link", "link", "link", "note"]})
    labelled = corpus.reports.assign(component="gui", labels=["a;b", "B", "", "", "a", ""])
    labelled.loc[[1, 4], "url"] = "https://b.org/1"
    documents = replace(corpus.documents, table=labelled)
    numbers = describe_corpus(replace(corpus, documents=documents, links=Links(table, len(corpus), len(corpus))))
    assert (numbers["links: link"], numbers["links: note"]) == (2, 1)
    assert (numbers["labels"], numbers["with a label"], numbers["with a web address"]) == (2, 3, 2)
