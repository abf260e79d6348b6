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
    numbers = describe_corpus(small_corpus())
    assert numbers["reports"] == 6
    assert numbers["without duplicate"] == 1
    assert numbers["in a group"] == 5
    assert numbers["in a group (%)"] == pytest.approx(83.333, abs=1e-3)
    assert numbers["groups"] == 2
    assert numbers["pairs"] == 3 + 1
    assert numbers["with a web address"] == 0
    assert numbers["largest group"] == 3
    assert numbers["first created"] == pd.Timestamp("2024-01-01", tz="UTC")
    assert numbers["last created"] == pd.Timestamp("2024-01-06", tz="UTC")


def test_words_are_counted_where_there_are_any():
    numbers = describe_corpus(small_corpus())
    assert numbers["median words of a title"] == 2.0
    assert numbers["median words of a description"] is None


def test_a_corpus_without_dates_and_groups():
    corpus = small_corpus()
    corpus.reports["created_at"] = pd.NaT
    numbers = describe_corpus(Corpus.of_table("small", corpus.reports, np.arange(6)))
    assert numbers["first created"] is None
    assert numbers["largest group"] == 0
    assert numbers["pairs"] == 0


def test_links_are_counted_by_source_and_each_pair_once():
    table = pd.DataFrame({"query": [0, 1, 2, 2], "document": [1, 0, 1, 0], "source": ["link", "link", "link", "note"]})
    corpus = small_corpus()
    numbers = describe_corpus(replace(corpus, links=Links(table, len(corpus), len(corpus))))
    assert (numbers["links: link"], numbers["links: note"]) == (2, 1)
    assert not [metric for metric in describe_corpus(corpus) if metric.startswith("links")]


def test_reports_with_an_address_are_counted():
    corpus = small_corpus()
    corpus.reports.loc[[1, 4], "url"] = "https://b.org/1"
    assert describe_corpus(corpus)["with a web address"] == 2


def test_labels_are_counted_where_there_are_any():
    corpus = small_corpus()
    assert "labels" not in describe_corpus(corpus)
    labelled = corpus.reports.assign(component="gui", labels=["a;b", "B", "", "", "a", ""])
    numbers = describe_corpus(replace(corpus, documents=replace(corpus.documents, table=labelled)))
    assert numbers["labels"] == 2
    assert numbers["with a label"] == 3
