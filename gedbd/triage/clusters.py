"""Clusters of open reports of an index that are probable duplicates, with the verdicts of people."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from gedbd.corpora.bug_report import state_of
from gedbd.corpora.feedback import ACCEPT, FEEDBACK_FILE, REJECT, feedback_table
from gedbd.io.console import stage
from gedbd.retrieval.reports.report_features import FeatureEncoder
from gedbd.retrieval.reports.report_history import Replayed, ReportHistory
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.storage.in_memory import features_of, find_known_groups
from gedbd.triage.storage.index_folder import FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.triage_model import TriageModel

READ_AT_ONCE = 5_000  # reports with their texts
MAX_CANDIDATES = 10  # of a report
NUM_CLOSEST = 3  # pairs that are listed if there is no cluster
OPEN_STATES = ("open", "unknown")

Pair = tuple[int, int]


@dataclass(frozen=True)
class Backlog:
    """The reports of an index in chronological order.

    Attributes:
        name: The tracker's name.
        model: The ranker and its probabilities.
        reports: N rows: ``id``, ``title``, ``url``, ``created_at`` (as 2024-01-31, empty if unknown), ``is_open``.
        history: The features of the reports.
        group: ``(N,)`` the lowest row of each group of marked or accepted duplicates.
        rejected: Pairs of groups, the lower first, that people have rejected as duplicates.
        num_unknown: Number of reports of unknown state; they count as open.
    """

    name: str
    model: TriageModel
    reports: pd.DataFrame
    history: ReportHistory
    group: np.ndarray
    rejected: frozenset[Pair]
    num_unknown: int

    @property
    def open_rows(self) -> np.ndarray:
        """Rows of the open reports, ascending."""
        return np.flatnonzero(self.reports["is_open"].to_numpy())


class LikelyPairs(NamedTuple):
    """P pairs of a report and an earlier one.

    Attributes:
        later: ``(P,)`` rows of the later reports.
        earlier: ``(P,)`` rows of the earlier reports: the most similar one of each group of known duplicates.
        probability: ``(P,)`` that the later report belongs to the group of the earlier one.
    """

    later: np.ndarray
    earlier: np.ndarray
    probability: np.ndarray

    def take(self, index: np.ndarray) -> "LikelyPairs":
        """The pairs at some positions, or of a mask."""
        return LikelyPairs(*(values[index] for values in self))


class Cluster(NamedTuple):
    """Open reports that are probably duplicates.

    Attributes:
        rows: The oldest open report of each group of known duplicates, oldest first.
        marked: Number of further open reports that are marked as duplicates of each.
        probability: Probability that each report but the oldest is a duplicate of the oldest.
        lowest: The lowest probability of all pairs.
    """

    rows: tuple[int, ...]
    marked: tuple[int, ...]
    probability: tuple[float, ...]
    lowest: float

    @property
    def size(self) -> int:
        """Number of open reports."""
        return len(self.rows) + sum(self.marked)


class Clusters(NamedTuple):
    """The clusters of a backlog, and counts of the pairs at or above the threshold that are in no cluster.

    Attributes:
        clusters: Largest first; ties by the higher lowest probability.
        num_closed: Number of pairs whose earlier report and all its known duplicates are closed.
        num_rejected: Number of pairs that people have rejected.
        num_apart: Number of pairs that are apart because a third report is similar to only one of them.
        closest: The most probable pairs below the threshold, if there is no cluster.
    """

    clusters: list[Cluster]
    num_closed: int
    num_rejected: int
    num_apart: int
    closest: tuple[Cluster, ...] = ()


@stage("read the index")
def read_backlog(folder: Path) -> Backlog:
    """Reads the reports of an index, their links and the feedback, without loading an encoder.

    Raises:
        ValueError: If there is no index, or a file is damaged.
        StoreUnavailable: If the index cannot be read at the moment.
    """
    with closing(IndexStore(folder / FILE, create=False)) as store, store.snapshot():
        if store.is_empty:
            raise ValueError(f"{folder / FILE} is empty because building it was interrupted: build it again")
        about = store.about()
        model = TriageModel.from_json(about.get("matching", ""), str(folder))
        _, rows = store.features()
        encoder = FeatureEncoder(Vocabulary())
        features = features_of(rows, encoder, store.dim(), store.num_terms(), store.path)
        days = features.columns["day"]
        order = np.arange(len(days)) if np.isnan(days).any() else np.argsort(days, kind="stable")
        ids = [rows[row].issue_id for row in order.tolist()]
        links = store.links()
        facts = _facts_of(store, ids)
    accepted, rejected = _verdicts(folder)
    links += [(report, candidate, "feedback") for report, candidate in accepted]
    row_of = {issue_id: row for row, issue_id in enumerate(ids)}
    # Deleted reports still connect others.
    group = find_known_groups(links, row_of).group
    known = [[row_of[issue_id] for issue_id in pair] for pair in rejected if row_of.keys() >= set(pair)]
    apart = {(int(min(group[pair])), int(max(group[pair]))) for pair in known}
    members = np.flatnonzero(group != np.arange(len(group)))
    history = ReportHistory(features.take(order.tolist()), np.stack([members, group[members]]), group)
    unknown = int((facts["state"] == "unknown").sum())
    reports = facts.drop(columns="state").assign(is_open=facts["state"].isin(OPEN_STATES))
    return Backlog(about.get("name", ""), model, reports, history, group, frozenset(apart), unknown)


def _facts_of(store: IndexStore, ids: Sequence[str]) -> pd.DataFrame:
    """The columns of ``Backlog.reports``, with ``state`` instead of ``is_open``."""
    facts = []
    for start in range(0, len(ids), READ_AT_ONCE):
        batch = ids[start : start + READ_AT_ONCE]
        reports = store.reports(batch)
        for report in (reports[issue_id] for issue_id in batch):
            day = f"{report.created_at:%Y-%m-%d}" if report.created_at else ""
            facts.append((report.issue_id, report.title, report.url, day, state_of(report)))
    return pd.DataFrame(facts, columns=["id", "title", "url", "created_at", "state"], dtype=object)


def _verdicts(folder: Path) -> list[list[tuple[str, str]]]:
    """The pairs of ids that people have accepted, and that they have rejected."""
    if not (folder / FEEDBACK_FILE).is_file():
        return [[], []]
    table = feedback_table(folder / FEEDBACK_FILE)
    named = table[table["issue_id"] != ""]
    tables = [named[named["verdict"] == verdict] for verdict in (ACCEPT, REJECT)]
    return [list(zip(pairs["issue_id"], pairs["candidate"], strict=True)) for pairs in tables]


def find_likely_pairs(history: ReportHistory, rows: Sequence[int], model: TriageModel, least: float) -> LikelyPairs:
    """Pairs of reports and their best earlier candidates.

    Later reports are no candidates, as in the backtest that the probabilities were calibrated on.

    Args:
        history: All reports in chronological order.
        rows: The reports, ascending.
        model: The ranker and its probabilities.
        least: The lowest probability of a pair.
    """
    blocks = [np.empty((0, 3)), *history.replay_with(partial(_best_pairs, model, least), rows, "compare reports")]
    table = np.concatenate(blocks)
    return LikelyPairs(table[:, 0].astype(np.int64), table[:, 1].astype(np.int64), table[:, 2])


def _best_pairs(model: TriageModel, least: float, query: Replayed) -> np.ndarray:
    """The pairs of a report as rows: later report, earlier report, probability."""
    best = model.best(query.features, MAX_CANDIDATES)
    table = np.column_stack([np.full(len(best.position), query.row), query.best[best.position], best.probability])
    return table[best.probability >= least]


@stage("find the clusters")
def find_clusters(backlog: Backlog, threshold: float) -> Clusters:
    """Clusters of open reports, every two of which are a pair with at least this probability.

    Reports that are marked as duplicates of each other count as one, whose probability with another is that of its
    most probable pair.
    """
    pairs = find_likely_pairs(backlog.history, backlog.open_rows.tolist(), backlog.model, 0.0)
    clusters = cluster_pairs(backlog, pairs.take(pairs.probability >= threshold))
    if clusters.clusters:
        return clusters
    probability, _, _ = _open_pairs(backlog, pairs)
    likely = [pair for pair, value in probability.items() if value > 0]
    closest = sorted(likely, key=lambda pair: (-probability[pair], pair))[:NUM_CLOSEST]
    members = _open_members(backlog)
    return clusters._replace(closest=tuple(_cluster(members, pair, probability) for pair in closest))


def cluster_pairs(backlog: Backlog, pairs: LikelyPairs) -> Clusters:
    """The clusters of pairs of open reports and earlier reports."""
    probability, num_closed, num_rejected = _open_pairs(backlog, pairs)
    linked = complete_link(list(probability), list(probability.values()))
    members = _open_members(backlog)
    clusters = [_cluster(members, groups, probability) for groups in linked]
    clusters.sort(key=lambda cluster: (-cluster.size, -cluster.lowest, cluster.rows))
    num_together = sum(len(groups) * (len(groups) - 1) // 2 for groups in linked)
    return Clusters(clusters, num_closed, num_rejected, len(probability) - num_together)


def _open_pairs(backlog: Backlog, pairs: LikelyPairs) -> tuple[dict[Pair, float], int, int]:
    """The probability of each pair of open groups, and the numbers of pairs with closed groups and of rejected ones."""
    group = backlog.group
    is_open = np.zeros(len(group), dtype=bool)
    is_open[group[backlog.open_rows]] = True
    to_closed = ~is_open[group[pairs.earlier]]
    probability: dict[Pair, float] = {}
    rejected = set()
    for later, earlier, value in zip(*(values[~to_closed].tolist() for values in pairs), strict=True):
        ends = sorted((int(group[later]), int(group[earlier])))
        pair = (ends[0], ends[1])
        if pair in backlog.rejected:
            rejected.add(pair)
        elif ends[0] != ends[1]:
            probability[pair] = max(value, probability.get(pair, 0.0))
    return probability, int(to_closed.sum()), len(rejected)


def _open_members(backlog: Backlog) -> dict[int, list[int]]:
    """The open reports of each group, the oldest first."""
    members: dict[int, list[int]] = {}
    for row in backlog.open_rows.tolist():
        members.setdefault(int(backlog.group[row]), []).append(row)
    return members


def _cluster(members: Mapping[int, list[int]], groups: Sequence[int], probability: Mapping[Pair, float]) -> Cluster:
    """The cluster of ``groups``, whose open reports are ``members``."""
    first, *rest = sorted(groups, key=members.__getitem__)  # the oldest open report first
    with_first = tuple(probability[min(first, group), max(first, group)] for group in rest)
    lowest = min(probability[pair] for pair in combinations(sorted(groups), 2))
    rows = [members[group] for group in (first, *rest)]
    return Cluster(tuple(row[0] for row in rows), tuple(len(row) - 1 for row in rows), with_first, lowest)


def complete_link(pairs: Sequence[Pair], probability: Sequence[float]) -> list[list[int]]:
    """Complete-link clustering of sparse pairs.

    Agglomerative clustering: merges the two clusters with the highest probability until no pair is left. The
    probability of two clusters is the lowest of all pairs between them, and 0 if one of these is missing. Of equal
    probabilities, the clusters with the lowest members come first. Time and memory are proportional to the number of
    pairs, not to the square of the items.

    Args:
        pairs: P pairs of different items, each pair once in any order.
        probability: The probability of each pair.

    Returns:
        The clusters of two or more items, each ascending, in the order of their lowest members.
    """
    # For the lowest member of each cluster, the probability of the clusters that may be merged with it.
    neighbours: dict[int, dict[int, float]] = {}
    heap: list[tuple[float, int, int]] = []
    for (first, second), value in zip(pairs, probability, strict=True):
        neighbours.setdefault(first, {})[second] = value
        neighbours.setdefault(second, {})[first] = value
        heap.append((-value, min(first, second), max(first, second)))
    heapify(heap)
    members = {item: [item] for item in neighbours}
    while heap:
        negative, first, second = heappop(heap)
        # An entry is outdated if one of the clusters has changed.
        if neighbours.get(first, {}).get(second) != -negative:
            continue
        members[first] += members.pop(second)
        second_neighbours = neighbours.pop(second)
        first_neighbours = neighbours[first]
        del first_neighbours[second]
        for third in second_neighbours:
            if third != first:
                del neighbours[third][second]
        for third in list(first_neighbours):
            if third not in second_neighbours:
                del first_neighbours[third], neighbours[third][first]
            else:
                value = min(first_neighbours[third], second_neighbours[third])
                first_neighbours[third] = neighbours[third][first] = value
                heappush(heap, (-value, min(first, third), max(first, third)))
    return sorted(sorted(cluster) for cluster in members.values() if len(cluster) > 1)
