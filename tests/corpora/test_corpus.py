from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.corpus import Corpus, keep_last
from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.relevance import Groups, Links
from gedbd.corpora.statistics import describe_corpus


def test_the_newest_reports_are_kept_and_groups_renamed_after_the_oldest_that_is_left(make_corpus):
    corpus = make_corpus([0, 1, 0, 3, 1, 0, 6, 3, 1], days=range(9))
    newest = keep_last(corpus, 6)  # 3, 1, 0, 6, 3, 1: the masters 0 and 1 are gone
    assert newest.documents.ids.tolist() == ["1003", "1004", "1005", "1006", "1007", "1008"]
    assert newest.group.tolist() == [0, 1, 2, 3, 0, 1]
    assert newest.relevance.in_group.tolist() == [True, True, False, False, True, True]
    assert newest.group.dtype == np.int64
    assert newest.reports.index.tolist() == list(range(6))
    assert newest.reports["created_at"].tolist() == corpus.reports["created_at"].tolist()[3:]
    assert (newest.name, newest.warnings) == (
        "small",
        ("only the newest 6 of 9 reports are kept (dataset.last_n)",),
    )
    assert corpus.group.tolist() == [0, 1, 0, 3, 1, 0, 6, 3, 1]


def test_to_keep_as_many_as_there_are_or_more_changes_nothing(make_corpus):
    corpus = make_corpus([0, 1, 0, 3])
    assert keep_last(corpus, 4) is corpus
    assert keep_last(corpus, 1000) is corpus
    assert keep_last(corpus, 1).group.tolist() == [0]


@pytest.mark.parametrize("count", [0, -4])
def test_to_keep_no_report_is_refused(make_corpus, count):
    with pytest.raises(ValueError, match=f"dataset.last_n={count} must be 1 or more, or null for all reports"):
        keep_last(make_corpus([0, 0]), count)


def test_the_fingerprint_depends_on_texts_and_groups(make_corpus):
    first = make_corpus([0, 1, 0])
    assert first.fingerprint == make_corpus([0, 1, 0]).fingerprint != make_corpus([0, 1, 1]).fingerprint


def links_of(pairs: list[tuple[int, int]], num_queries: int, num_documents: int) -> Links:
    table = pd.DataFrame(pairs, columns=["query", "document"], dtype=np.int64).assign(source="link", made_at=pd.NaT)
    return Links(table, num_queries, num_documents)


def test_the_other_members_of_a_group_are_relevant():
    groups = Groups(np.array([0, 1, 0, 3, 1, 0]))
    assert [groups.relevant(row).tolist() for row in range(6)] == [[2, 5], [4], [0, 5], [], [1], [0, 2]]
    assert groups.sizes.tolist() == [3, 2, 3, 1, 2, 3]
    assert groups.in_group.tolist() == [True, True, True, False, True, True]


def test_documents_that_are_linked_to_a_query_are_relevant():
    links = links_of([(1, 4), (1, 0), (0, 2), (1, 4)], num_queries=3, num_documents=5)
    assert [links.relevant(row).tolist() for row in range(3)] == [[2], [0, 4], []]
    with pytest.raises(IndexError):
        links.relevant(3)


def test_groups_are_the_components_of_links():
    groups = Groups.from_links(links_of([(3, 1), (4, 3), (5, 0)], 6, 6))
    assert groups.group.tolist() == [0, 1, 2, 1, 1, 0]


def test_links_since_a_row_are_numbered_from_it():
    links = links_of([(3, 1), (4, 3), (5, 0)], 6, 6).between(2, 6)
    assert links.pairs.tolist() == [[2], [1]]
    assert (links.num_queries, links.num_documents) == (4, 4)


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
