"""Replays a tracker's history: every report is a query against those created before it, as if it had just come in."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gedbd.retrieval.feature_store import FeatureStore
from gedbd.retrieval.features import best_groups, feature_scores
from gedbd.retrieval.report_features import ReportFeatures
from gedbd.triage.calibration import MATCH_FEATURES, NUM_COMPARED, match_features

MIN_PROGRESS_REPORTS = 20
COLUMNS = ("query", "candidate", "place", "right", *MATCH_FEATURES)


def replay(
    store: FeatureStore, features: ReportFeatures, group: np.ndarray, weights: Mapping[str, float], rows: np.ndarray
) -> pd.DataFrame:
    """The best groups for some reports of a corpus. No later report is a candidate, nor counts in word statistics.

    Groups are those of today: an export does not say when two reports were found to be duplicates.

    Args:
        store: All reports, in chronological order.
        features: The same reports.
        group: ``(N,)`` group of each.
        weights: See ``best_groups``.
        rows: The queries.

    Returns:
        A row for each of up to ``NUM_COMPARED`` candidates of each query: ``query``, ``candidate`` (rows), ``place`` (1
        is best), ``right`` (both are of one group), and the match features.
    """
    blocks = [np.empty((0, len(COLUMNS)))]
    bar = (TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*bar, TimeRemainingColumn(), disable=len(rows) < MIN_PROGRESS_REPORTS) as progress:
        task = progress.add_task("replay", total=len(rows), rate="")
        for row in rows.tolist():
            blocks.append(_replay_one(store, features[row], group, weights, row))
            progress.update(task, advance=1, rate=f"{progress.tasks[0].speed or 0:.0f} reports/s")
    table = pd.DataFrame(np.concatenate(blocks), columns=list(COLUMNS))
    return table.astype({"query": np.int64, "candidate": np.int64, "place": np.int64, "right": bool})


def _replay_one(
    store: FeatureStore, query: ReportFeatures, group: np.ndarray, weights: Mapping[str, float], row: int
) -> np.ndarray:
    """The candidates of the report in a row, in the order of ``COLUMNS``."""
    # The row number is also the number of reports that existed: rows are in chronological order.
    scores = feature_scores(store, query, row, replayed=True)
    found = best_groups(scores, weights, group[:row], None, NUM_COMPARED)
    self_scores = [store.text.self_score(query.text[0], row), store.title.self_score(query.title[0], row)]
    num_found = len(found.row)
    places = np.arange(1, num_found + 1)
    # A member of the right group counts as right: a triager links the report to the whole group.
    right = group[found.row] == group[row]
    return np.column_stack(
        [np.full(num_found, row), found.row, places, right, match_features(found, self_scores)],
    )
