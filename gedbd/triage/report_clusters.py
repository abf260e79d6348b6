"""Finds clusters of open reports in an index that are probable duplicates, and writes a page for human verdicts."""

import math
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from heapq import heapify, heappop, heappush
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from gedbd.corpora.bug_report import Report, state_of
from gedbd.corpora.feedback import ACCEPT, FEEDBACK_FILE, REJECT, FeedbackEvent, FeedbackStore, feedback_table
from gedbd.corpora.urls import with_urls
from gedbd.experiments.report.judging import UNCLEAR, VERDICT, Judging
from gedbd.experiments.report.report_page import Section, write_report
from gedbd.io.command_output import print_table, record
from gedbd.io.console import print_line, print_path, stage
from gedbd.retrieval.inverted_index import Vocabulary
from gedbd.retrieval.report_ranking.feature_store import FeatureEncoder
from gedbd.retrieval.report_ranking.report_training import Replayed, ReportHistory
from gedbd.triage.backtesting.judgements import JUDGEMENTS, read_judgements
from gedbd.triage.storage.in_memory import features_of, find_known_groups
from gedbd.triage.storage.index_folder import CLUSTERS, FILE
from gedbd.triage.storage.index_store import IndexStore
from gedbd.triage.triage_model import TriageModel

MAX_CANDIDATES = 10  # of a report
NUM_CLOSEST = 3  # pairs that are listed if there is no cluster
OPEN_STATES = ("open", "unknown")

Pair = tuple[int, int]
COLUMNS = ("group", "open reports", "probability", "report", "title of report", "suggested", "title of suggested")
PRINTED = tuple(name for name in COLUMNS if name != "open reports")
CLUSTERS_TEXT = (
    "Groups of open reports that are probably the same, the largest first. Each row is a report and the oldest one of"
    " its group, with the probability that the two belong together; every other pair of the group has at least the"
    " probability {threshold:g} as well. Reports that are already marked as duplicates of each other count as one, and"
    " the oldest open one is listed. In the column verdict, say which are duplicates, then download {file} (at the end"
    " of the page) and run {command}: rejected pairs are left out the next time, accepted ones count as marked"
    " duplicates. Nothing changes in the tracker."
)
UNMEASURED = (
    "The probabilities were learnt from other trackers: gedbd backtest has not measured them on this one, so check"
    " each group yourself."
)


@dataclass(frozen=True)
class Backlog:
    """The reports of an index in chronological order."""

    name: str  # the tracker's name
    model: TriageModel  # the ranker and its probabilities
    # N rows: ``id``, ``title``, ``url``, ``created_at`` (as 2024-01-31, empty if unknown), ``is_open``
    reports: pd.DataFrame
    history: ReportHistory  # the features of the reports
    group: np.ndarray  # ``(N,)`` the lowest row of each group of marked or accepted duplicates
    rejected: frozenset[Pair]  # pairs of groups, the lower first, that people have rejected as duplicates
    num_unknown: int  # number of reports of unknown state; they count as open

    @property
    def open_rows(self) -> np.ndarray:
        """Rows of the open reports, ascending."""
        return np.flatnonzero(self.reports["is_open"].to_numpy())


class LikelyPairs(NamedTuple):
    """P pairs: rows of a later report and of the most similar report of an earlier group, and probability, ``(P,)``."""

    later: np.ndarray
    earlier: np.ndarray
    probability: np.ndarray

    def take(self, index: np.ndarray) -> "LikelyPairs":
        """The pairs at some positions, or of a mask."""
        return LikelyPairs(*(values[index] for values in self))


class Cluster(NamedTuple):
    """Open reports that are probably duplicates."""

    rows: tuple[int, ...]  # the oldest open report of each group of known duplicates, oldest first
    marked: tuple[int, ...]  # number of further open reports that are marked as duplicates of each
    probability: tuple[float, ...]  # probability that each report but the oldest is a duplicate of the oldest
    lowest: float  # the lowest probability of all pairs

    @property
    def size(self) -> int:
        """Number of open reports."""
        return len(self.rows) + sum(self.marked)


class Clusters(NamedTuple):
    """The clusters, largest first, and counts of the pairs at or above the threshold that are in no cluster."""

    clusters: list[Cluster]  # of equal sizes, the one with the higher ``lowest`` comes first
    num_closed: int  # number of pairs whose earlier report and all its known duplicates are closed
    num_rejected: int  # number of pairs that people have rejected
    num_apart: int  # number of pairs in no cluster because a third report is similar to only one of them
    closest: tuple[Cluster, ...] = ()  # the most probable pairs below the threshold, if there is no cluster


@stage("read the index")
def read_backlog(folder: Path) -> Backlog:
    """Reads the reports of an index, their links and the feedback, without an encoder. Raises ValueError if damaged."""
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
        table = []
        for report in store.each_report(ids):
            day = f"{report.created_at:%Y-%m-%d}" if report.created_at else ""
            table.append((report.issue_id, report.title, report.url, day, state_of(report)))
        facts = pd.DataFrame(table, columns=["id", "title", "url", "created_at", "state"], dtype=object)
    accepted, rejected = _verdicts(folder)
    links += [(report, candidate, "feedback") for report, candidate in accepted]
    row_of = {issue_id: row for row, issue_id in enumerate(ids)}
    # Deleted reports still connect others.
    group = find_known_groups(links, row_of).group
    known = [[row_of[issue_id] for issue_id in pair] for pair in rejected if row_of.keys() >= set(pair)]
    rejected_groups = {(int(min(group[pair])), int(max(group[pair]))) for pair in known}
    members = np.flatnonzero(group != np.arange(len(group)))
    history = ReportHistory(features.take(order.tolist()), np.stack([members, group[members]]), group)
    unknown = int((facts["state"] == "unknown").sum())
    reports = facts.drop(columns="state").assign(is_open=facts["state"].isin(OPEN_STATES))
    return Backlog(about.get("name", ""), model, reports, history, group, frozenset(rejected_groups), unknown)


def _verdicts(folder: Path) -> list[list[tuple[str, str]]]:
    """The pairs of ids that people have accepted, and that they have rejected."""
    if not (folder / FEEDBACK_FILE).is_file():
        return [[], []]
    table = feedback_table(folder / FEEDBACK_FILE)
    named = table[table["issue_id"] != ""]
    tables = [named[named["verdict"] == verdict] for verdict in (ACCEPT, REJECT)]
    return [list(zip(pairs["issue_id"], pairs["candidate"], strict=True)) for pairs in tables]


def find_likely_pairs(history: ReportHistory, rows: Sequence[int], model: TriageModel, least: float) -> LikelyPairs:
    """Pairs of the reports in ascending ``rows`` and their best earlier candidates, from a minimum probability on.

    Later reports are not candidates, as in the backtest that the probabilities were calibrated on.
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
    """Clusters of open reports in which every pair has at least the probability ``threshold``.

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
    """Complete-link clustering of P pairs of different items, each pair once in any order.

    Agglomerative clustering: merges the two clusters with the highest probability until no pair is left. The
    probability of two clusters is the lowest of all pairs between them, and 0 if one of these is missing. Of equal
    probabilities, the clusters with the lowest members come first. Time and memory are proportional to the number of
    pairs, not to the square of the items.

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


def run_clusters(folder: Path, threshold: float, top_k: int, file: Path | None, console: Console) -> None:
    """Finds the clusters of an index, lists the first ``top_k``, and writes their page into the index folder.

    ``threshold`` is the lowest probability of a pair. The verdicts of ``file`` are recorded first; raises ValueError if
    none is on two reports of the index.
    """
    recorded = [] if file is None else record_verdicts(folder, file)
    backlog = read_backlog(folder)
    result = find_clusters(backlog, threshold)
    listed = result.clusters[:top_k]
    table = pairs_table(backlog, listed)
    summary = summary_of(backlog, result, threshold)
    page = write_page(folder, backlog, table, " ".join(summary), threshold)
    if listed:
        print_table(console, table[list(PRINTED)], f"{backlog.name}: groups of open reports")
    elif result.closest:
        closest = pairs_table(backlog, result.closest)
        print_table(console, closest[list(PRINTED[1:])], f"{backlog.name}: the most probable pairs of open reports")
    for line in (*recorded, *summary, *left_out(backlog, result)):
        print_line(console, line)
    if len(result.clusters) > len(listed):
        print_line(console, f"listed: the first {len(listed):,} groups; top_k= sets how many")
    print_path(console, "page:", page)
    record(
        index=folder,
        page=page,
        threshold=threshold,
        measured="other trackers" if backlog.model.has_default_confidence else "this tracker",
        reports=len(backlog.reports),
        open_reports=len(backlog.open_rows),
        pairs_with_closed=result.num_closed,
        pairs_rejected=result.num_rejected,
        pairs_in_no_group=result.num_apart,
        unknown_state=backlog.num_unknown,
        clusters=[plain_cluster(backlog, cluster) for cluster in result.clusters],
        closest_pairs=[plain_cluster(backlog, cluster) for cluster in result.closest],
    )


def record_verdicts(folder: Path, file: Path) -> list[str]:
    """Adds the verdicts of a file to the feedback of an index; returns counts in sentences.

    Raises:
        ValueError: If the file is invalid, or has no pair of two reports of the index.
    """
    verdicts = {pair: verdict.verdict for pair, verdict in read_judgements(file).verdicts.items()}
    clear = {pair: verdict for pair, verdict in verdicts.items() if verdict != UNCLEAR}
    with closing(IndexStore(folder / FILE, create=False)) as store:
        stored = store.reports(sorted({issue_id for pair in clear for issue_id in pair}))
    known = {pair: verdict for pair, verdict in clear.items() if stored.keys() >= set(pair)}
    if not known:
        raise ValueError(f"file={file}: it has no verdict on two reports of {folder}; is it from another index?")
    with closing(FeedbackStore(folder)) as feedback:
        added = [
            feedback.record(FeedbackEvent(Report(issue_id=report), suggested, verdict, "web"))
            for (report, suggested), verdict in known.items()
        ]
    lines = [f"verdicts: {sum(added):,} recorded, {len(added) - sum(added):,} known already"]
    if len(known) < len(clear):
        lines.append(f"verdicts on reports that are not in the index: {len(clear) - len(known):,}, left out")
    if len(clear) < len(verdicts):
        lines.append(f"verdicts that are {UNCLEAR}: {len(verdicts) - len(clear):,}, not recorded")
    return lines


def pairs_table(backlog: Backlog, clusters: Sequence[Cluster]) -> pd.DataFrame:
    """Pairs of each report of a cluster with the oldest one: ``COLUMNS`` and addresses."""
    rows = []
    ids = backlog.reports["id"].tolist()
    titles = backlog.reports["title"].tolist()
    for number, cluster in enumerate(clusters, start=1):
        first, *rest = cluster.rows
        for row, probability in zip(rest, cluster.probability, strict=True):
            rows.append((number, cluster.size, probability, ids[row], titles[row], ids[first], titles[first]))
    return with_urls(pd.DataFrame(rows, columns=list(COLUMNS)), backlog.reports)


def plain_cluster(backlog: Backlog, cluster: Cluster) -> dict[str, Any]:
    """A cluster for the JSON document."""
    reports = []
    for row, marked, probability in zip(cluster.rows, cluster.marked, (None, *cluster.probability), strict=True):
        report = backlog.reports.iloc[row]
        facts = {name: report[name] or None for name in ("id", "title", "url", "created_at")}
        reports.append(facts | {"marked_duplicates": marked, "probability_with_first": probability})
    return {"open_reports": cluster.size, "lowest_probability": cluster.lowest, "reports": reports}


def summary_of(backlog: Backlog, result: Clusters, threshold: float) -> list[str]:
    """The result in sentences."""
    together = f"belong together with a probability of {100 * threshold:g}% or more"
    num_open = f"{len(backlog.open_rows):,} of {len(backlog.reports):,} reports are open"
    if result.clusters:
        in_groups = sum(cluster.size for cluster in result.clusters)
        groups = "1 group" if len(result.clusters) == 1 else f"{len(result.clusters):,} groups"
        lines = [f"{num_open}; {in_groups:,} of them are in {groups}, in which every two reports {together}."]
    else:
        lines = [f"{num_open}; no two of them {together}."]
    if result.closest:
        # Two digits of the lowest probability, rounded down.
        lowest = min(cluster.lowest for cluster in result.closest)
        unit = 10.0 ** (math.floor(math.log10(lowest)) - 1)
        default = " The default, 0.3, was chosen on two large trackers." if backlog.model.has_default_confidence else ""
        lines.append(f"threshold={math.floor(lowest / unit) * unit:.2g} includes the most probable pairs.{default}")
    if backlog.model.has_default_confidence:
        lines.append(UNMEASURED)
    return lines


def left_out(backlog: Backlog, result: Clusters) -> list[str]:
    """Counts of the pairs that are in no cluster, in sentences."""
    counts = {
        "pairs with a closed report, left out: {:,} (gedbd search shows them)": result.num_closed,
        "pairs that people have rejected, left out: {:,}": result.num_rejected,
        "pairs of open reports in no group because a third report is like one of the two only: {:,}": (
            result.num_apart
        ),
        "reports without a state in the tracker: {:,}, counted as open": backlog.num_unknown,
    }
    return [text.format(count) for text, count in counts.items() if count]


def write_page(folder: Path, backlog: Backlog, table: pd.DataFrame, summary: str, threshold: float) -> Path:
    """Writes the page into the index folder and returns its path."""
    out = folder / CLUSTERS
    out.mkdir(0o700, exist_ok=True)
    command = f"gedbd clusters index={shlex.quote(os.path.relpath(folder))}"
    judge = f"{command} file={JUDGEMENTS}"
    table = table.copy()
    table.insert(0, VERDICT, "")
    text = CLUSTERS_TEXT.format(threshold=threshold, file=JUDGEMENTS, command=judge)
    judging = Judging(f"gedbd clusters {backlog.name}", JUDGEMENTS, "the current folder", judge)
    return write_report(
        out,
        f"Open reports that are probably the same: {backlog.name}",
        summary,
        [Section("Groups", text, [table], asks_verdicts=True)],
        command=f"{command} threshold={threshold:g}",
        date=datetime.now().astimezone(),
        judging=judging if len(table) else None,
        subject=backlog.name,
    )
