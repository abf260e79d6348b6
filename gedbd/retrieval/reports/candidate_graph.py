"""The graph among a query's candidates, as further features of a ranker.

Its nodes are the reports of the candidate groups. Edges are of four kinds: close vectors, shared rare identifiers and
error lines, the same component at about the same time, and known duplicate links. The sums of the first stage are
spread over the edges; personalised PageRank is Haveliwala's (2002), with the restart at the softmax of the sums. The
comparison of neighbourhoods is that of k-reciprocal re-ranking (Zhong et al., 2017), and ``csls`` is the similarity of
Conneau et al. (2018), one-sided.
"""

from typing import NamedTuple

import numpy as np

from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.first_stage import COMPONENT, FirstStage, quick_sums
from gedbd.retrieval.reports.report_features import ReportFeatures
from gedbd.retrieval.reports.term_index import SharedTerms

MAX_MEMBERS = 5  # of a group, those with the highest sums
NEIGHBOURS = 10  # of each node, by cosine
RECIPROCAL = 20  # neighbours that are compared with the query's
RARE = 0.01  # share of the reports that have an identifier, at most, if it makes an edge
MIN_RARE = 3  # reports that may always have it
TIME_SCALE_DAYS = 14.0
RESTART = 0.5
STEPS = 10
MIN_PROBABILITY = 1e-9  # avoids the logarithm of zero
EDGES = ("dense", "identifiers", "component", "all")
SPREAD = ("degree", "neighbours", "best neighbour", "ppr", "gain")
GROUP_KINDS = ("title", "identifiers", "errors")
GRAPH_FEATURES = (
    *(f"graph {kind} {what}" for kind in EDGES for what in SPREAD),
    *("graph closer", "graph csls", "graph jaccard", "graph group dense"),
    *(f"graph group {kind} {what}" for kind in GROUP_KINDS for what in ("shared", "rarest shared")),
)


class Nodes(NamedTuple):
    """The M nodes of C candidates.

    Attributes:
        row: ``(M,)`` the reports.
        candidate: ``(M,)`` the candidate of each, ascending.
        starts: ``(C,)`` the first node of each candidate.
        sums: ``(M,)`` sums of the first stage.
    """

    row: np.ndarray
    candidate: np.ndarray
    starts: np.ndarray
    sums: np.ndarray


def graph_features(store: FeatureStore, query: ReportFeatures, found: FirstStage) -> np.ndarray:
    """The graph's features of candidates, ``(C, F)`` float32 in the order of ``GRAPH_FEATURES``.

    NaN where a candidate has no neighbour. The features of a group are the best ones of its nodes.
    """
    if not len(found.row):
        return np.empty((0, len(GRAPH_FEATURES)), dtype=np.float32)
    nodes = _nodes(store, query, found)
    vectors = store.vectors.take(nodes.row)
    cosines = vectors @ vectors.T
    columns: list[np.ndarray] = []
    for weights in _edges(store, nodes, cosines, found.scores.count).values():
        columns += _spread(nodes, weights)
    columns += _neighbourhoods(nodes, cosines, found.scores("dense", nodes.row))
    for kind in GROUP_KINDS:
        shared = SharedTerms.of(store.terms(kind), found.scores.words[kind], nodes.row).columns(kind)
        columns += [_best(nodes, shared[f"{kind} {what}"]) for what in ("shared", "rarest shared")]
    return np.column_stack(columns).astype(np.float32)


def _nodes(store: FeatureStore, query: ReportFeatures, found: FirstStage) -> Nodes:
    sizes = np.array([len(members) for members in found.members], dtype=np.int64)
    flat = np.concatenate(found.members)
    candidate = np.repeat(np.arange(len(sizes)), sizes)
    sums = quick_sums(store, query, found.scores, flat)
    order = np.lexsort((-sums, candidate))
    place = np.arange(len(flat)) - np.repeat(np.cumsum(sizes) - sizes, sizes)  # sizes 2, 3: 0 1, 0 1 2
    kept = order[place < MAX_MEMBERS]
    starts = np.searchsorted(candidate[kept], np.arange(len(sizes)))
    return Nodes(flat[kept], candidate[kept], starts, sums[kept])


def _best(nodes: Nodes, values: np.ndarray) -> np.ndarray:
    """The highest value of the nodes of each candidate, ``(M,) -> (C,)``; NaN only if all are."""
    return np.asarray(np.fmax.reduceat(values, nodes.starts))


def _edges(store: FeatureStore, nodes: Nodes, cosines: np.ndarray, count: int) -> dict[str, np.ndarray]:
    """Weights of each kind of edge, ``(M, M)``, in the order of ``EDGES``."""
    same_group = nodes.candidate[:, None] == nodes.candidate
    code = store.code(COMPONENT)[nodes.row]
    day = store.day[nodes.row]
    near = np.exp(-np.abs(day[:, None] - day) / TIME_SCALE_DAYS)
    same_component = (code[:, None] == code) & (code >= 0) & ~np.isnan(near)
    kinds = {
        "dense": _nearest(cosines, same_group),
        "identifiers": np.where(same_group, 0, _shared_identifiers(store, nodes.row, count)),
        "component": np.where(same_component & ~same_group, near, 0),
    }
    links = same_group & ~np.eye(len(same_group), dtype=bool)
    return kinds | {"all": sum(map(_stochastic, kinds.values()), _stochastic(links.astype(float)))}


def _nearest(cosines: np.ndarray, same_group: np.ndarray) -> np.ndarray:
    """Cosines between each node and its nearest ones of other groups, 0 elsewhere; an edge of one holds for both."""
    number = min(NEIGHBOURS, len(cosines) - 1)
    if not number:
        return np.zeros_like(cosines)
    others = np.where(same_group, -1, cosines)
    lowest = np.partition(others, -number, axis=1)[:, -number, None]
    chosen = np.where(others >= lowest, np.maximum(others, 0), 0)
    return np.maximum(chosen, chosen.T)


def _shared_identifiers(store: FeatureStore, rows: np.ndarray, count: int) -> np.ndarray:
    """The sum of the idf of the rare identifiers and error lines that two reports share, ``(M, M)``."""
    from scipy.sparse import csr_array

    total = np.zeros((len(rows), len(rows)))
    for kind in ("identifiers", "errors"):
        flat, sizes = store.terms(kind).terms_of(rows)
        of = np.repeat(np.arange(len(rows)), sizes)
        terms, places, here = np.unique(flat, return_inverse=True, return_counts=True)
        several = here > 1
        frequency = store.terms(kind).frequency(terms[several], count)
        rare = frequency <= max(MIN_RARE, RARE * count)
        idf = np.zeros(len(terms))
        idf[several] = np.where(rare, np.log(1 + (count - frequency + 0.5) / (frequency + 0.5)), 0)
        has = csr_array((np.sqrt(idf[places]), (of, places)), shape=(len(rows), len(terms)))
        total += (has @ has.T).toarray()
    return total


def _stochastic(weights: np.ndarray) -> np.ndarray:
    """Rows that sum to 1, or 0 for a node without neighbours."""
    degree = weights.sum(axis=1, keepdims=True)
    return np.asarray(np.divide(weights, degree, out=np.zeros(weights.shape), where=degree > 0))


def _spread(nodes: Nodes, weights: np.ndarray) -> list[np.ndarray]:
    """The columns ``SPREAD`` of one kind of edge."""
    degree = weights.sum(axis=1)
    steps = _stochastic(weights)
    scores = (nodes.sums - nodes.sums.mean()) / (nodes.sums.std() or 1.0)
    mean = np.where(degree > 0, steps @ scores, np.nan)
    best = (weights / (weights.max() or 1.0) * np.exp(scores)).max(axis=1)
    restart = np.exp(nodes.sums - nodes.sums.max())
    restart /= restart.sum()
    rank = restart
    for _ in range(STEPS):
        rank = RESTART * restart + (1 - RESTART) * (steps.T @ rank + rank * (degree == 0))
    before, after = (np.log(np.add.reduceat(one, nodes.starts) + MIN_PROBABILITY) for one in (restart, rank))
    found = [_best(nodes, column) for column in (np.log1p(degree), mean, best)]
    return [*found, after - after.max(), after - before]


def _neighbourhoods(nodes: Nodes, cosines: np.ndarray, query: np.ndarray) -> list[np.ndarray]:
    """How the nodes' neighbourhoods compare with the query, whose cosines are ``(M,)``."""
    same_group = nodes.candidate[:, None] == nodes.candidate
    others = np.where(same_group, -1, cosines)
    closer = np.log1p((others > query[:, None]).sum(axis=1))
    number = min(NEIGHBOURS, len(query) - 1)
    nearest = np.sort(others, axis=1)[:, -number:].mean(axis=1) if number else np.zeros(len(query))
    size = min(RECIPROCAL, len(query))
    with_query = np.hstack([cosines, query[:, None]])
    theirs = with_query >= np.partition(with_query, -size, axis=1)[:, -size, None]
    own = np.append(query >= np.sort(query)[-size], True)
    jaccard = (theirs & own).sum(axis=1) / (theirs | own).sum(axis=1)
    return [-_best(nodes, -closer), _best(nodes, query - nearest), _best(nodes, jaccard), _best(nodes, query)]
