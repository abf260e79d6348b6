"""What had happened before a question was asked: links made, questions asked, similar questions."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pandas as pd

from gedbd.encoders.encoder import unit_rows

RECENT_LINKS = (10, 50, 200)
TAG_LINKS = 20
WINDOW_DAYS = (1, 7, 30)
NEIGHBOURS = 10
DAY = np.timedelta64(1, "D")


class LinkHistory:
    """Confirmations in the order in which they were made; each method reads only those before a moment.

    Args:
        anchors: The table of ``find_anchors``.
        tags: Tags of all N documents.
    """

    def __init__(self, anchors: pd.DataFrame, tags: Sequence[tuple[str, ...]]) -> None:
        ordered = anchors.sort_values(["made_at", "anchor"], kind="stable")
        self.made_at = naive(ordered["made_at"])
        self.anchor = ordered["anchor"].to_numpy()
        self.master = ordered["master"].to_numpy()
        self.target = ordered["target"].to_numpy()
        self.by_tag: dict[str, list[int]] = defaultdict(list)
        for place, row in enumerate(self.anchor):
            for tag in tags[row]:
                self.by_tag[tag].append(place)

    def count(self, moment: np.datetime64) -> int:
        """Number of links made before a moment."""
        return int(np.searchsorted(self.made_at, moment, side="left"))

    def recent(self, moment: np.datetime64) -> dict[str, float]:
        """Number of recent links, and medians of the log10 hours of the last ones; NaN without any."""
        before = self.count(moment)
        found = {f"median_of_last_{n}_links": median(self.target[max(before - n, 0) : before]) for n in RECENT_LINKS}
        for days in WINDOW_DAYS[1:]:
            first = int(np.searchsorted(self.made_at, moment - days * DAY, side="left"))
            found[f"links_in_{days}_days"] = before - first
        last = self.made_at[before - 1] if before else np.datetime64("NaT")
        return found | {"days_since_last_link": float((moment - last) / DAY)}

    def of_tags(self, tags: tuple[str, ...], moment: np.datetime64) -> dict[str, float]:
        """Number of links of questions with one of the tags, the median of the last ones, and days since the last."""
        before = self.count(moment)
        places = sorted({place for tag in tags for place in self.by_tag.get(tag, ()) if place < before})
        last = self.made_at[places[-1]] if places else np.datetime64("NaT")
        return {
            "links_of_tags": float(len(places)),
            "median_of_tags": median(self.target[places[-TAG_LINKS:]]),
            "days_since_link_of_tags": float((moment - last) / DAY),
        }

    def of_document(self, row: int, moment: np.datetime64) -> int:
        """Number of links to or from a document that were made before a moment."""
        before = self.count(moment)
        return int(((self.anchor[:before] == row) | (self.master[:before] == row)).sum())


class TagIndex:
    """Which documents have a tag.

    Args:
        tags: Tags of all N documents.
    """

    def __init__(self, tags: Sequence[tuple[str, ...]]) -> None:
        self.rows: dict[str, list[int]] = defaultdict(list)
        for row, names in enumerate(tags):
            for name in names:
                self.rows[name].append(row)

    def before(self, tags: tuple[str, ...], row: int) -> list[int]:
        """Documents before a row that have one of the tags, ascending."""
        found = {other for tag in tags for other in self.rows[tag][: bisect_left(self.rows[tag], row)]}
        return sorted(found)


def arrivals(created_at: np.ndarray, rows: Sequence[int], moment: np.datetime64) -> dict[str, float]:
    """How many of some documents, in chronological order, were created within some days before a moment.

    Args:
        created_at: ``(N,)`` datetime64 of all documents.
        rows: The documents to count, none of them later than the moment.
        moment: The moment.
    """
    found = {}
    for days in WINDOW_DAYS:
        first = bisect_left(rows, moment - days * DAY, key=created_at.__getitem__)
        found[f"documents_in_{days}_days"] = float(len(rows) - first)
    return found


class Titles:
    """Cosines of titles with those of earlier documents.

    Args:
        vectors: ``(N, H)`` vectors of the titles of all documents; none depends on another document.
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

    def rank(self, row: int, other: int) -> int:
        """Number of documents before a row that are more similar to it than an earlier one is."""
        cosines = self.cosines(row)
        return int((cosines > cosines[other]).sum())

    def neighbours(self, row: int, moment: np.datetime64) -> dict[str, float]:
        """Mean log10 hours of the most similar questions that had been confirmed, weighted by cosine."""
        anchors = self.history.anchor[: self.history.count(moment)]
        # A link may have been made after the moment for a later document only; those before it are all earlier rows.
        cosines = self.vectors[anchors] @ self.vectors[row]
        if not len(cosines):
            return {"neighbours_hours": float("nan"), "neighbours_cosine": float("nan")}
        top = np.argsort(-cosines, kind="stable")[:NEIGHBOURS]
        weights = cosines[top].clip(1e-3)
        hours = float(np.average(self.history.target[top], weights=weights))
        return {"neighbours_hours": hours, "neighbours_cosine": float(cosines[top].mean())}


def naive(dates: pd.Series) -> np.ndarray:
    """UTC dates as ``(N,) datetime64``."""
    return np.asarray(dates.dt.tz_convert("UTC").dt.tz_localize(None).to_numpy())


def median(values: np.ndarray) -> float:
    """The median; NaN of no value."""
    return float(np.median(values)) if len(values) else float("nan")
