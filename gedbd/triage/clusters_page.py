"""Records verdicts, finds the clusters of an index, and writes their page and table."""

import math
import os
import shlex
from collections.abc import Sequence
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import pandas as pd
from rich.console import Console

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import FeedbackEvent, FeedbackStore
from gedbd.corpora.urls import with_urls
from gedbd.experiments.report.judging import UNCLEAR, VERDICT, Judging
from gedbd.experiments.report.report_page import Section, write_report
from gedbd.io.command_output import print_table, record
from gedbd.io.console import print_line, print_path
from gedbd.triage.backtesting.judgements import JUDGEMENTS, read_judgements
from gedbd.triage.clusters import Backlog, Cluster, Clusters, find_clusters, read_backlog
from gedbd.triage.storage.index_folder import CLUSTERS, FILE
from gedbd.triage.storage.index_store import IndexStore

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
    "The probabilities were learnt from other trackers: gedbd backtest has not measured them on this one, so read each"
    " group before you trust the next."
)


def run_clusters(folder: Path, threshold: float, top_k: int, file: Path | None, console: Console) -> None:
    """Finds the clusters of an index, lists them, and writes their page into the index folder.

    Args:
        folder: The folder of the index.
        threshold: Lowest probability of a pair.
        top_k: Number of clusters that are listed.
        file: File of verdicts to record first, or None.
        console: Console for the table.

    Raises:
        ValueError: If there is no index, a file is damaged, or no verdict is on two reports of the index.
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
        raise ValueError(f"file={file}: it has no verdict on two reports of {folder}; is it of another index?")
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
    """Pairs of each report of a cluster and the oldest: ``COLUMNS`` and addresses."""
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
        shown = f"{math.floor(lowest / unit) * unit:.2g}"
        lines.append(f"threshold={shown} includes the most probable pairs.{default}")
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
        "reports whose state the tracker does not say: {:,}, counted as open": backlog.num_unknown,
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
