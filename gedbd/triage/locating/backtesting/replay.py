"""Replays the reports of a tracker: each is a query against the commits before it, as if it had just come in."""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from gedbd.corpora.changes import ChangeCorpus
from gedbd.io.progress import item_progress
from gedbd.retrieval.changes.history import ChangeHistory
from gedbd.triage.locating.backtesting.labelled import LabelledReports
from gedbd.triage.locating.backtesting.systems import System

NEAR = 10  # the place whose score the first one is compared with


def replay(
    corpus: ChangeCorpus,
    history: ChangeHistory,
    labelled: LabelledReports,
    places: np.ndarray,
    systems: Mapping[str, System],
) -> pd.DataFrame:
    """Where each system ranks the inducing commits of some reports.

    Args:
        corpus: Reports and commits.
        history: The commits of the corpus, in its order.
        labelled: The reports with inducing commits.
        places: Which of them are replayed.
        systems: The systems by name.

    Returns:
        A row for each report and system: ``report`` (its row), ``system``, ``rank`` of the best inducing commit from 1,
        ``candidates`` (number of commits before the report), ``first`` (row of the most suspect commit), ``right``
        (it is an inducing one) and ``margin`` (its score less that of the commit in place ``NEAR``).
    """
    rows: list[dict[str, object]] = []
    with item_progress("reports") as progress:
        for place in progress.track(places.tolist(), description="replay"):
            query = labelled.query(corpus, place)
            for name, system in systems.items():
                found = rank_one(system.scores(history, query), labelled.inducing[place])
                rows.append({"report": int(labelled.rows[place]), "system": name, **found})
    columns = ("report", "system", "rank", "candidates", "first", "right", "margin")
    return pd.DataFrame(rows, columns=list(columns))


def rank_one(scores: np.ndarray, inducing: np.ndarray) -> dict[str, object]:
    """The result of one report; of equal scores the newer commit comes first.

    Args:
        scores: ``(n,)`` scores of the commits in chronological order.
        inducing: Rows of the inducing ones.
    """
    num_near = min(NEAR, len(scores))
    # Reversed and sorted stably by falling score: newer commits of one score come first.
    order = len(scores) - 1 - np.argsort(-scores[::-1], kind="stable")
    rank_of = np.empty(len(scores), dtype=np.int64)
    rank_of[order] = np.arange(1, len(scores) + 1)
    first = int(order[0])
    return {
        "rank": int(rank_of[inducing].min()),
        "candidates": len(scores),
        "first": first,
        "right": first in inducing,
        "margin": float(scores[first] - scores[order[num_near - 1]]),
    }
