"""What had become of earlier documents before a question was asked: which were resolved by then, and how quickly.

An export holds the last resolution of a document. Before that moment the document counts as open, even if it had been
resolved and reopened.
"""

import numpy as np
import pandas as pd

from gedbd.tasks.confirmation.history import DAY, naive

NEAREST = 5
SIMILAR = 20
HIGH_COSINE = 0.8
RECENT_COSINE = 0.6
MONTH = 30 * DAY
MIN_HOURS = 1 / 60


class Resolutions:
    """When documents were resolved; each method reads only what had happened before a moment.

    Args:
        table: N documents in chronological order with ``created_at`` and, where the tracker tells, ``resolved_at``
            (UTC, ``NaT`` if open or unknown); without this column every document counts as open.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.created_at = naive(table["created_at"])
        unknown = np.full(len(table), np.datetime64("NaT"), dtype=self.created_at.dtype)
        # A comparison with NaT is false: such a document is open at every moment.
        self.resolved_at = naive(table["resolved_at"]) if "resolved_at" in table else unknown
        self.hours = log_hours(self.resolved_at - self.created_at)

    def of_tags(self, rows: np.ndarray, moment: np.datetime64) -> dict[str, float]:
        """How many of some documents were still open, and how soon the recent ones were resolved; NaN without any.

        Args:
            rows: Documents created before the moment, ascending: those with a tag in common.
            moment: The moment.
        """
        done = self.resolved_at[rows] < moment
        age = moment - self.created_at[rows]
        day_old = (age > DAY) & (age <= 2 * MONTH)
        within_day = self.resolved_at[rows] - self.created_at[rows] <= DAY
        return {
            "same_tag_open": 1 - _mean(done),
            "same_tag_resolved_of_last_30_days": _mean(done[age <= MONTH]),
            "same_tag_resolved_of_last_100": _mean(done[-100:]),
            "same_tag_resolved_within_a_day": _mean(within_day[day_old]),
        }

    def of_similar(self, cosines: np.ndarray, moment: np.datetime64) -> dict[str, float]:
        """What had become of the most similar documents, and how many are very similar; NaN without any.

        Args:
            cosines: ``(R,)`` of the first R documents, all those before the moment.
            moment: The moment.
        """
        top = np.argsort(-cosines, kind="stable")[:SIMILAR]
        done = self.resolved_at[top] < moment
        age = log_hours(moment - self.created_at[top])
        waited = np.where(done, self.hours[top], age)
        weights = cosines[top].clip(1e-3)
        recent = self.created_at[: len(cosines)] >= moment - MONTH
        return {
            "similar_open": 1 - _mean(done),
            "similar_hours": float(np.average(waited[done], weights=weights[done])) if done.any() else float("nan"),
            "similar_hours_so_far": _mean(waited),
            "nearest_resolved": _mean(done[:1]),
            "nearest_hours": float(waited[0]) if done[:1].any() else float("nan"),
            "nearest_lead": float(cosines[top[0]] - cosines[top[1]]) if len(top) > 1 else float("nan"),
            "nearest_5_resolved": _mean(done[:NEAREST]),
            "nearest_5_age": float(np.median(age[:NEAREST])) if len(top) else float("nan"),
            "very_similar": float((cosines >= HIGH_COSINE).sum()),
            "similar_in_30_days": float((cosines[recent] >= RECENT_COSINE).sum()),
        }

    def of_document(self, row: int, moment: np.datetime64) -> dict[str, float]:
        """Whether a document was resolved, log10 of the hours since then, and of those that it took; NaN if open."""
        if not self.resolved_at[row] < moment:
            return {"resolved": 0.0, "hours_since_resolved": float("nan"), "hours_to_resolve": float("nan")}
        since = log_hours(moment - self.resolved_at[row : row + 1])
        return {"resolved": 1.0, "hours_since_resolved": float(since[0]), "hours_to_resolve": float(self.hours[row])}


def log_hours(gaps: np.ndarray) -> np.ndarray:
    """log10 of times in hours, at least a minute; NaN of ``NaT``."""
    return np.asarray(np.log10(np.maximum(gaps / np.timedelta64(1, "h"), MIN_HOURS)))


def _mean(values: np.ndarray) -> float:
    """The mean; NaN of no value."""
    return float(np.mean(values)) if len(values) else float("nan")
