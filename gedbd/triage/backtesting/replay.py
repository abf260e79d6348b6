"""Replays a tracker's history: every report is a query against those filed before it, as if it had just come in."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gedbd.retrieval.feature_store import Columns, Numbers
from gedbd.retrieval.features import best_groups, raw_scores
from gedbd.triage.calibration import SHOWN, SIGNALS, signals_of

ENOUGH = 20


def replay(
    columns: Columns, numbers: Numbers, group: np.ndarray, weights: Mapping[str, float], rows: np.ndarray
) -> pd.DataFrame:
    """The best groups for some reports of a corpus. Nothing later is seen, nor counted in word statistics.

    Groups are those of today: an export does not say when two reports were found to be duplicates.

    Args:
        columns: All reports, in chronological order.
        numbers: The same reports.
        group: ``(N,)`` group of each.
        weights: See ``best_groups``.
        rows: The queries.

    Returns:
        A row for each of up to ``SHOWN`` candidates of each query: ``query``, ``candidate`` (rows), ``place`` (1 is
        best), ``right`` (they are of one group), ``score``, and the signals of ``SIGNALS``.
    """
    blocks, names = [], ["query", "candidate", "place", "right", *SIGNALS]
    bar = (TextColumn("replay"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    with Progress(*bar, TimeRemainingColumn(), disable=len(rows) < ENOUGH) as progress:
        task = progress.add_task("replay", total=len(rows), rate="")
        for row in rows.tolist():
            query = numbers[row]
            found = best_groups(raw_scores(columns, query, row, replayed=True), weights, group[:row], None, SHOWN)
            copies = [columns.text.self_score(query.text[0], row), columns.title.self_score(query.title[0], row)]
            places = np.arange(1, len(found.row) + 1)
            right = group[found.row] == group[row]
            blocks.append(
                np.column_stack([np.full(len(places), row), found.row, places, right, signals_of(found, copies)])
            )
            progress.update(task, advance=1, rate=f"{progress.tasks[0].speed or 0:.0f} reports/s")
    table = pd.DataFrame(np.concatenate([np.empty((0, len(names))), *blocks]), columns=names)
    whole = {"query": np.int64, "candidate": np.int64, "place": np.int64, "right": bool}
    return table.astype(whole)
