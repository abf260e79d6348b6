"""Ranks the candidates of a query by their features."""

from collections.abc import Mapping
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gedbd.corpora.tracker_samples import count_shared
from gedbd.retrieval.feature_ranker import FeatureRanker, RankingModel, ranker_text, read_ranker
from gedbd.retrieval.report_ranking.candidate_features import FEATURES, RELATIVE, relative

SEEN = "the default ranker was trained on this tracker and knows its duplicates"
MIN_SHARE = 0.5  # of a sample that the reports of the same tracker contain
DEFAULT = "default_ranker.json"
BASE_FEATURES = tuple(f"base{kind}" for kind in RELATIVE)


class ReportRanker:
    """Scores the candidates of a query; scores are comparable within a query only.

    ``extra`` names features from elsewhere, behind ``FEATURES``; the scores of ``base``, a ranker that was trained on
    other trackers, are the last features. ``trained_on`` are samples of the trackers' reports, see ``sample_of``.
    """

    def __init__(
        self,
        model: RankingModel,
        extra: tuple[str, ...] = (),
        base: "ReportRanker | None" = None,
        trained_on: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        self.ranker = FeatureRanker((*FEATURES, *extra, *(BASE_FEATURES if base else ())), model)
        self.extra = extra
        self.base = base
        self.trained_on = trained_on

    @property
    def model(self) -> RankingModel:
        """The model."""
        return self.ranker.model

    def has_seen(self, reports: pd.DataFrame) -> bool:
        """Whether the ranker, or its base, was trained on these reports or an earlier state of their tracker."""
        samples = [sample for sample in self.trained_on if sample]
        counts = zip(count_shared(reports, samples), samples, strict=True)
        shared = any(count >= MIN_SHARE * len(sample) for count, sample in counts)
        return shared or (self.base is not None and self.base.has_seen(reports))

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Scores of candidates, ``(C, F) -> (C,)``; higher is better."""
        return self.ranker.scores(with_base(features, self.base))

    def contributions(self, features: np.ndarray) -> list[dict[str, float]]:
        """What each feature adds to the score of each candidate, by name; their sum is the score less a constant.

        The contribution of the base's scores is divided among the features that the base read, in proportion to
        their contributions there, if these have the same sign.
        """
        rows = self.ranker.contributions(with_base(features, self.base))
        if self.base is not None:
            for row, inner in zip(rows, self.base.contributions(features[:, : len(FEATURES)]), strict=True):
                total = sum(row.pop(name) for name in BASE_FEATURES)
                same_sign = {name: value for name, value in inner.items() if value * total > 0}
                whole = sum(same_sign.values())
                for name, value in same_sign.items():
                    row[name] += total * value / whole
        return rows

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {
            **self.ranker.as_dict(),
            "extra": list(self.extra),
            "trained_on": [list(sample) for sample in self.trained_on],
            "base": None if self.base is None else self.base.as_dict(),
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ReportRanker":
        """Builds the ranker of ``as_dict``. Raises ValueError, TypeError or LookupError if it is damaged."""
        stored = FeatureRanker.from_dict(plain)
        base = None if plain["base"] is None else cls.from_dict(plain["base"])
        samples = tuple(tuple(map(int, sample)) for sample in plain["trained_on"])
        ranker = cls(stored.model, tuple(plain["extra"]), base, samples)
        if stored.names != ranker.ranker.names:
            raise ValueError("it was trained on other features")
        return ranker

    def to_text(self) -> str:
        """The ranker as text, to store it."""
        return ranker_text(self.as_dict())

    @classmethod
    def from_text(cls, text: str) -> "ReportRanker":
        """Reads the ranker that ``to_text`` wrote.

        Raises:
            ValueError: If the text is damaged, or the ranker was trained on other features than this version computes.
        """
        return read_ranker(text, "ranker of reports", cls.from_dict)


def with_base(features: np.ndarray, base: ReportRanker | None) -> np.ndarray:
    """Features of candidates of one query, then those of a base, ``(C, F) -> (C, F + 4)``."""
    if base is None or not len(features):
        return features
    (columns,) = relative(base.scores(features[:, : len(FEATURES)])[None], np.array([len(features)]))
    return np.column_stack([features, *columns]).astype(np.float32)


def default_ranker() -> ReportRanker:
    """The ranker for trackers without duplicates of their own to learn from, see ``default_ranker.md``."""
    text = (package_files("gedbd.retrieval.report_ranking") / DEFAULT).read_text(encoding="utf-8")
    return ReportRanker.from_text(text)


def is_default(ranker: ReportRanker) -> bool:
    """Whether a ranker is the default ranker itself, not one that was trained on top of it."""
    return ranker.base is None and ranker.trained_on == default_ranker().trained_on


def read_base(base: str | None) -> ReportRanker | None:
    """The ranker that an option names: ``default`` is the default ranker, null none, everything else a file.

    Raises:
        ValueError: If there is no such file, or it holds no ranker.
    """
    if base is None:
        return None
    if base == "default":
        return default_ranker()
    if not Path(base).is_file():
        raise ValueError(f"base={base} of a ranker: there is no such file; give a file, default, or null for none")
    try:
        return ReportRanker.from_text(Path(base).read_text(encoding="utf-8", errors="replace"))
    except ValueError as error:
        raise ValueError(f"base={base}: {error}") from error
