"""Edges of shared identifiers, by hand: in these texts they are the names in camel or snake case."""

from collections.abc import Callable
from dataclasses import replace
from math import log

import pytest
import torch

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.title_graph import SharedIdentifiers

TEXTS = ["openFile readLine", "the openFile", "openFile saveAll", "saveAll", "plain words", "common_name"]


@pytest.fixture
def corpus_of(make_corpus) -> Callable[[list[str]], Corpus]:
    def make(texts: list[str]) -> Corpus:
        made = make_corpus(range(len(texts)))
        table = made.reports.assign(title=texts, description="nothing")
        return replace(made, documents=replace(made.documents, table=table))

    return make


def edges_of(rule: SharedIdentifiers, corpus: Corpus, inside: list[bool] | None = None) -> dict[tuple[int, int], float]:
    graph = rule.graph(corpus, torch.tensor(inside or [True] * len(corpus))).adjacency
    index, weight = graph.get_buffer("raw_index"), graph.get_buffer("raw_weight")
    return dict(zip(zip(*index.tolist(), strict=True), weight.tolist(), strict=True))


def test_weights_are_cosines_of_idf(corpus_of):
    idf = {name: log((1 + 6) / (1 + count)) + 1 for name, count in (("open", 3), ("read", 1), ("save", 2))}
    first = (idf["open"] ** 2 + idf["read"] ** 2) ** 0.5
    third = (idf["open"] ** 2 + idf["save"] ** 2) ** 0.5
    expected = {
        (0, 1): idf["open"] / first,
        (0, 2): idf["open"] ** 2 / first / third,
        (1, 2): idf["open"] / third,
        (2, 3): idf["save"] / third,
    }
    both = expected | {(target, source): weight for (source, target), weight in expected.items()}
    assert edges_of(SharedIdentifiers(k=5, max_reports=3), corpus_of(TEXTS)) == pytest.approx(both, abs=1e-6)


def test_frequent_identifiers_make_no_edge(corpus_of):
    found = edges_of(SharedIdentifiers(k=5, max_reports=2), corpus_of(TEXTS))
    assert found == pytest.approx({(2, 3): 1.0, (3, 2): 1.0})


def test_k_keeps_the_most_similar(corpus_of):
    found = edges_of(SharedIdentifiers(k=1, max_reports=3), corpus_of(TEXTS))
    # Report 0 is nearest to 1, 1 to 2 (saveAll is less rare than readLine), 2 to 3, 3 to 2.
    assert set(found) == {(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)}


def test_reports_outside_only_receive(corpus_of):
    inside = [True, True, True, False, True, True]
    found = edges_of(SharedIdentifiers(k=5, max_reports=3), corpus_of(TEXTS), inside)
    assert (2, 3) in found
    assert (3, 2) not in found


@pytest.mark.parametrize("texts", [["plain", "words"], ["openFile", "readLine"]])
def test_reports_that_share_nothing_are_refused(corpus_of, texts):
    with pytest.raises(ValueError, match=r"rare identifier: choose another graph"):
        edges_of(SharedIdentifiers(k=5, max_reports=3), corpus_of(texts))
