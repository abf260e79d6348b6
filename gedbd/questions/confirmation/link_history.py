"""Features from the history before a question: links, arrivals, resolutions and similar questions."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd

from gedbd.encoders.loaded_encoder import unit_rows

NEAREST = 5
SIMILAR = 20
HIGH_COSINE = 0.8
RECENT_COSINE = 0.6
DAY = np.timedelta64(1, "D")
MONTH = 30 * DAY
MIN_HOURS = 1 / 60
RECENT_LINKS = (10, 50, 200)
TAG_LINKS = 20
WINDOW_DAYS = (1, 7, 30)
NEIGHBOURS = 10


class LinkHistory:
    """Confirmations in chronological order; each method reads only those before a moment."""

    def __init__(self, anchors: pd.DataFrame, tags: Sequence[tuple[str, ...]]) -> None:
        ordered = anchors.sort_values(["made_at", "anchor"], kind="stable")
        self.made_at = naive(ordered["made_at"])
        self.anchor = ordered["anchor"].to_numpy()
        self.master = ordered["master"].to_numpy()
        self.target = ordered["target"].to_numpy()
        self.by_tag = TagIndex([tags[row] for row in self.anchor])

    def count(self, moment: np.datetime64) -> int:
        """Number of links made before a moment."""
        return int(np.searchsorted(self.made_at, moment, side="left"))

    def recent(self, moment: np.datetime64) -> dict[str, float]:
        """Numbers of recent links, and medians of the log10 hours of the last ones; NaN without links."""
        before = self.count(moment)
        features = {f"median_of_last_{n}_links": median(self.target[max(before - n, 0) : before]) for n in RECENT_LINKS}
        for days in WINDOW_DAYS[1:]:
            first = int(np.searchsorted(self.made_at, moment - days * DAY, side="left"))
            features[f"links_in_{days}_days"] = before - first
        last = self.made_at[before - 1] if before else np.datetime64("NaT")
        return features | {"days_since_last_link": float((moment - last) / DAY)}

    def of_tags(self, tags: tuple[str, ...], moment: np.datetime64) -> dict[str, float]:
        """Number of links of questions with one of the tags, the median of the last ones, and days since the last."""
        links = self.by_tag.before(tags, self.count(moment))
        last = self.made_at[links[-1]] if links else np.datetime64("NaT")
        return {
            "links_of_tags": float(len(links)),
            "median_of_tags": median(self.target[links[-TAG_LINKS:]]),
            "days_since_link_of_tags": float((moment - last) / DAY),
        }

    def of_document(self, row: int, moment: np.datetime64) -> int:
        """Number of links to or from a document that were made before a moment."""
        before = self.count(moment)
        return int(((self.anchor[:before] == row) | (self.master[:before] == row)).sum())


class TagIndex:
    """Inverted index of the tags of documents, or of links."""

    def __init__(self, tags: Sequence[tuple[str, ...]]) -> None:
        self.rows: dict[str, list[int]] = defaultdict(list)
        for row, names in enumerate(tags):
            for name in names:
                self.rows[name].append(row)

    def before(self, tags: tuple[str, ...], row: int) -> list[int]:
        """Documents before a row that have one of the tags, ascending."""
        earlier = {match for tag in tags for match in self.rows[tag][: bisect_left(self.rows[tag], row)]}
        return sorted(earlier)


def arrivals(created_at: np.ndarray, rows: Sequence[int], moment: np.datetime64) -> dict[str, float]:
    """Counts documents that were created within windows of days before a moment.

    Args:
        created_at: ``(N,)`` datetime64 of all documents.
        rows: The documents to count in chronological order, none later than ``moment``.
        moment: End of the windows.
    """
    features = {}
    for days in WINDOW_DAYS:
        first = bisect_left(rows, moment - days * DAY, key=created_at.__getitem__)
        features[f"documents_in_{days}_days"] = float(len(rows) - first)
    return features


class Titles:
    """Cosines of titles with those of earlier documents.

    Args:
        vectors: ``(N, H)`` title vectors of all documents, each independent of the others.
        history: The confirmations.
    """

    def __init__(self, vectors: np.ndarray, history: LinkHistory) -> None:
        self.vectors = unit_rows(vectors)
        self.history = history

    def cosines(self, row: int) -> np.ndarray:
        """``(row,)`` cosines with all earlier documents."""
        return np.asarray(self.vectors[:row] @ self.vectors[row])

    def nearest(self, row: int) -> tuple[int, float]:
        """The most similar earlier document and its cosine; -1 and NaN for the first document."""
        if row == 0:
            return -1, float("nan")
        cosines = self.cosines(row)
        best = int(cosines.argmax())
        return best, float(cosines[best])

    def rank(self, row: int, master: int) -> int:
        """Number of earlier documents that are more similar to a row than its master."""
        cosines = self.cosines(row)
        return int((cosines > cosines[master]).sum())

    def neighbours(self, row: int, moment: np.datetime64) -> dict[str, float]:
        """Mean log10 hours of the most similar confirmed questions, weighted by cosine."""
        anchors = self.history.anchor[: self.history.count(moment)]
        # Anchors with a link before the moment are earlier rows.
        cosines = self.vectors[anchors] @ self.vectors[row]
        if not len(cosines):
            return {"neighbours_hours": float("nan"), "neighbours_cosine": float("nan")}
        top = np.argsort(-cosines, kind="stable")[:NEIGHBOURS]
        weights = cosines[top].clip(1e-3)
        hours = float(np.average(self.history.target[top], weights=weights))
        return {"neighbours_hours": hours, "neighbours_cosine": float(cosines[top].mean())}


def naive(dates: pd.Series) -> np.ndarray:
    """Converts dates to UTC ``(N,) datetime64`` without time zone."""
    return np.asarray(dates.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())


def median(values: np.ndarray) -> float:
    """The median; NaN without values."""
    return float(np.median(values)) if len(values) else float("nan")


class Resolutions:
    """Resolutions of documents; each method reads only those before a moment.

    Args:
        table: N documents in chronological order with ``created_at`` and optionally ``resolved_at`` (UTC, ``NaT`` if
            open or unknown), without which all documents count as open.
    """

    def __init__(self, table: pd.DataFrame) -> None:
        self.created_at = naive(table["created_at"])
        unknown = np.full(len(table), np.datetime64("NaT"), dtype=self.created_at.dtype)
        # A comparison with NaT is false, so the document always counts as open.
        self.resolved_at = naive(table["resolved_at"]) if "resolved_at" in table else unknown
        self.hours = log_hours(self.resolved_at - self.created_at)

    def of_tags(self, rows: np.ndarray, moment: np.datetime64) -> dict[str, float]:
        """Fractions of documents that were open or resolved; NaN without documents."""
        is_resolved = self.resolved_at[rows] < moment
        age = moment - self.created_at[rows]
        day_old = (age > DAY) & (age <= 2 * MONTH)
        within_day = self.resolved_at[rows] - self.created_at[rows] <= DAY
        return {
            "same_tag_open": 1 - _mean(is_resolved),
            "same_tag_resolved_of_last_30_days": _mean(is_resolved[age <= MONTH]),
            "same_tag_resolved_of_last_100": _mean(is_resolved[-100:]),
            "same_tag_resolved_within_a_day": _mean(within_day[day_old]),
        }

    def of_similar(self, cosines: np.ndarray, moment: np.datetime64) -> dict[str, float]:
        """Resolutions of the most similar documents, and numbers of similar ones; NaN without documents.

        Args:
            cosines: ``(R,)`` cosines of the R documents before ``moment``.
            moment: Later resolutions do not count.
        """
        top = np.argsort(-cosines, kind="stable")[:SIMILAR]
        is_resolved = self.resolved_at[top] < moment
        age = log_hours(moment - self.created_at[top])
        hours_so_far = np.where(is_resolved, self.hours[top], age)
        weights = cosines[top].clip(1e-3)
        recent = self.created_at[: len(cosines)] >= moment - MONTH
        return {
            "similar_open": 1 - _mean(is_resolved),
            "similar_hours": float(np.average(hours_so_far[is_resolved], weights=weights[is_resolved]))
            if is_resolved.any()
            else float("nan"),
            "similar_hours_so_far": _mean(hours_so_far),
            "nearest_resolved": _mean(is_resolved[:1]),
            "nearest_hours": float(hours_so_far[0]) if is_resolved[:1].any() else float("nan"),
            "nearest_lead": float(cosines[top[0]] - cosines[top[1]]) if len(top) > 1 else float("nan"),
            "nearest_5_resolved": _mean(is_resolved[:NEAREST]),
            "nearest_5_age": float(np.median(age[:NEAREST])) if len(top) else float("nan"),
            "very_similar": float((cosines >= HIGH_COSINE).sum()),
            "similar_in_30_days": float((cosines[recent] >= RECENT_COSINE).sum()),
        }

    def of_document(self, row: int, moment: np.datetime64) -> dict[str, float]:
        """Whether a document was resolved, log10 of the hours since then and until then; NaN if open."""
        if not self.resolved_at[row] < moment:
            return {"resolved": 0.0, "hours_since_resolved": float("nan"), "hours_to_resolve": float("nan")}
        since = log_hours(moment - self.resolved_at[row : row + 1])
        return {"resolved": 1.0, "hours_since_resolved": float(since[0]), "hours_to_resolve": float(self.hours[row])}


def log_hours(gaps: np.ndarray | np.timedelta64) -> np.ndarray:
    """log10 of durations in hours, at least a minute; NaN for ``NaT``."""
    return np.asarray(np.log10(np.maximum(gaps / np.timedelta64(1, "h"), MIN_HOURS)))


def _mean(values: np.ndarray) -> float:
    """The mean; NaN without values."""
    return float(np.mean(values)) if len(values) else float("nan")
