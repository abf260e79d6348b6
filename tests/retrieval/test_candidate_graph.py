"""The graph among a query's candidates: its features equal those of loops over pairs of reports."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.relevance import find_groups
from gedbd.retrieval.reports.candidate_features import FEATURES
from gedbd.retrieval.reports.candidate_graph import GRAPH_FEATURES, MIN_PROBABILITY, graph_features
from gedbd.retrieval.reports.first_stage import quick_sums
from gedbd.retrieval.reports.history import ReportHistory
from gedbd.retrieval.reports.scorer import LearntReports
from gedbd.retrieval.scorers.dense import DenseScorer
from gedbd.retrieval.scorers.scorer import ScorerInputs

COUNT = 24
LINKS = np.array([[5, 9, 14, 20, 22, 23], [2, 5, 3, 11, 11, 7]])


def some_reports() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    reports = pd.DataFrame("", index=range(COUNT), columns=list(BUG_FIELDS), dtype=str)
    reports["title"] = [" ".join(rng.choice(["mail", "crash", "print", "sync"], 2)) for _ in range(COUNT)]
    names = ["openStore()", "draft_count", "pasteTable.run", "sync_now"]
    reports["description"] = ["call " + " ".join(rng.choice(names, 2)) for _ in range(COUNT)]
    reports["component"] = rng.choice(["one", "two", ""], COUNT)
    reports["created_at"] = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(np.arange(COUNT) * 3, unit="D")
    return reports


@pytest.fixture(scope="module")
def history() -> ReportHistory:
    vectors = np.random.default_rng(1).normal(size=(COUNT, 4)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return ReportHistory(some_reports(), vectors, LINKS, find_groups(LINKS, COUNT), graph=True)


def component_graph(history: ReportHistory, rows: list[int], group: np.ndarray) -> nx.Graph:
    """Nearness in time between reports of one component and two groups."""
    graph = nx.Graph()
    graph.add_nodes_from(rows)
    component = some_reports()["component"]
    for first in rows:
        for second in rows:
            if first < second and component[first] == component[second] != "" and group[first] != group[second]:
                graph.add_edge(first, second, weight=float(np.exp(-3 * (second - first) / 14)))
    return graph


def test_the_component_graph_equals_loops(history):
    row = COUNT - 1
    found = history.find(row)
    columns = dict(zip(GRAPH_FEATURES, graph_features(history.store, history.features[row], found).T, strict=True))
    rows = list(range(row))
    group = history.known_before(row).group
    graph = component_graph(history, rows, group)
    sums = quick_sums(history.store, history.features[row], found.scores, np.arange(row))
    scores = (sums - sums.mean()) / sums.std()
    restart = dict(enumerate(np.exp(sums - sums.max()) / np.exp(sums - sums.max()).sum()))
    rank = dict(restart)
    for _ in range(10):
        spread = dict.fromkeys(rows, 0.0)
        for node in rows:
            degree = graph.degree(node, weight="weight")
            if not degree:
                spread[node] += rank[node]
            for other, edge in graph[node].items():
                spread[other] += rank[node] * edge["weight"] / degree
        rank = {node: 0.5 * restart[node] + 0.5 * spread[node] for node in rows}
    mean = {}
    for node in rows:
        edges = graph[node].items()
        total = sum(edge["weight"] for _, edge in edges)
        mean[node] = sum(edge["weight"] * scores[other] for other, edge in edges) / total if total else np.nan
    members = [one.tolist() for one in found.members]
    degrees = [max(np.log1p(graph.degree(node, weight="weight")) for node in one) for one in members]
    before = np.log([sum(restart[node] for node in one) + MIN_PROBABILITY for one in members])
    after = np.log([sum(rank[node] for node in one) + MIN_PROBABILITY for one in members])
    np.testing.assert_allclose(columns["graph component degree"], degrees, rtol=1e-4)
    expected = [np.fmax.reduce([mean[node] for node in one]) for one in members]
    np.testing.assert_allclose(columns["graph component neighbours"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(columns["graph component ppr"], after - after.max(), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(columns["graph component gain"], after - before, rtol=1e-3, atol=1e-4)


def test_neighbourhoods_equal_loops(history):
    row = COUNT - 1
    found = history.find(row)
    columns = dict(zip(GRAPH_FEATURES, graph_features(history.store, history.features[row], found).T, strict=True))
    group = history.known_before(row).group
    vectors = history.store.vectors.filled
    own = vectors[:row] @ vectors[row]
    for place, members in enumerate(found.members):
        closer, csls = [], []
        for node in members:
            others = [float(vectors[node] @ vectors[other]) for other in range(row) if group[other] != group[node]]
            closer.append(np.log1p(sum(cosine > own[node] for cosine in others)))
            csls.append(own[node] - np.mean(sorted(others)[-10:]))
        assert columns["graph closer"][place] == pytest.approx(min(closer), abs=1e-5)
        assert columns["graph csls"][place] == pytest.approx(max(csls), abs=1e-5)
        assert columns["graph group dense"][place] == pytest.approx(max(own[members]), abs=1e-5)


def test_shared_identifiers_weigh_their_idf(history):
    row = COUNT - 1
    found = history.find(row)
    columns = dict(zip(GRAPH_FEATURES, graph_features(history.store, history.features[row], found).T, strict=True))
    store, group = history.store, history.known_before(row).group
    terms, sizes = store.identifiers.terms_of(np.arange(row))
    lists = np.split(terms, np.cumsum(sizes)[:-1])
    frequency = {term: sum(term in one for one in lists) for one in lists for term in one.tolist()}
    for place, members in enumerate(found.members):
        degrees = []
        for node in members:
            others = [other for other in range(row) if group[other] != group[node]]
            shared = [term for other in others for term in set(lists[node].tolist()) & set(lists[other].tolist())]
            counts = [frequency[term] for term in shared if frequency[term] <= 3]
            degrees.append(np.log1p(sum(np.log(1 + (row - count + 0.5) / (count + 0.5)) for count in counts)))
        assert columns["graph identifiers degree"][place] == pytest.approx(max(degrees), abs=1e-4)


@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_short_history_has_features_too(history, row):
    replayed = history.replay_one(row)
    assert replayed.features.shape == (len(replayed.group), len(FEATURES) + len(GRAPH_FEATURES))


def test_names_are_distinct():
    assert len(set(FEATURES + GRAPH_FEATURES)) == len(FEATURES) + len(GRAPH_FEATURES)


def test_a_ranker_learns_from_the_graph(history):
    class StoredVectors(DenseScorer):
        """Vectors that are there already."""

        checkpoint = None

        def __init__(self) -> None:
            pass

        def fit(self, inputs):
            self.documents_ = history.store.vectors.filled
            self.warnings_ = ()

    reports = some_reports()
    pairs = pd.DataFrame({"earlier": LINKS[1], "later": LINKS[0], "label": 1})
    scorer = LearntReports(StoredVectors(), kind="linear", graph=True)
    scorer.fit(ScorerInputs.of_reports(reports, pairs))
    assert scorer.ranker_.names == FEATURES + GRAPH_FEATURES
    assert np.isfinite(scorer.scores(np.array([20]))[0, :20]).all()


def test_the_default_ranker_reads_no_graph():
    with pytest.raises(ValueError, match="graph=true needs a ranker that learns here"):
        LearntReports(None, kind="default", graph=True)
