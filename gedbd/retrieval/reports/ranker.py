"""Ranks the candidates of a query by their features."""

import json
from collections.abc import Mapping
from importlib.resources import files as package_files

import numpy as np

from gedbd.retrieval.ranking_models import Model, read_model
from gedbd.retrieval.reports.candidate_features import FEATURES

FORMAT = 1
DEFAULT = "default_ranker.json"


class ReportRanker:
    """Scores the candidates of a query; only the order of the scores of one query says something.

    Args:
        model: Scores rows of features.
        kind: Of the model: ``boosted`` or ``linear``.
        extra: Names of the features that are given from elsewhere, behind ``FEATURES``.
    """

    def __init__(self, model: Model, kind: str = "boosted", extra: tuple[str, ...] = ()) -> None:
        self.model = model
        self.kind = kind
        self.extra = extra

    @property
    def names(self) -> tuple[str, ...]:
        """The features that the model reads, in order."""
        return (*FEATURES, *self.extra)

    def scores(self, features: np.ndarray) -> np.ndarray:
        """Scores of candidates, ``(C, F) -> (C,)``; higher is better."""
        if not len(features):
            return np.empty(0)
        return self.model.predict(features)

    def contributions(self, features: np.ndarray) -> list[dict[str, float]]:
        """What each feature adds to the score of each candidate, by name; their sum is the score less a constant."""
        if not len(features):
            return []
        shares = self.model.contributions(features)
        return [dict(zip(self.names, row[:-1].tolist(), strict=True)) for row in shares]

    def to_text(self) -> str:
        """The ranker as text, to store it."""
        content = {
            "format": FORMAT,
            "kind": self.kind,
            "features": list(self.names),
            "extra": list(self.extra),
            "model": self.model.to_text().splitlines(),
        }
        return json.dumps(content, indent=0) + "\n"

    @classmethod
    def from_text(cls, text: str) -> "ReportRanker":
        """The ranker that ``to_text`` was called on.

        Raises:
            ValueError: If the text is damaged, or the ranker was trained on other features than this version computes.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError("ranker of reports: no JSON; train it again") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError(f"ranker of reports: not of format {FORMAT}; train it again")
        lines, extra, names = (_strings(content, name) for name in ("model", "extra", "features"))
        ranker = cls(read_model(str(content.get("kind")), "\n".join(lines) + "\n"), content["kind"], tuple(extra))
        if tuple(names) != ranker.names:
            raise ValueError("ranker of reports: it was trained on other features; train it again")
        try:
            ranker.model.predict(np.zeros((1, len(ranker.names)), dtype=np.float32))
        except ValueError as error:
            raise ValueError(f"ranker of reports: {error}; train it again") from error
        return ranker


def _strings(content: Mapping[str, object], name: str) -> list[str]:
    """A list of strings that JSON held."""
    value = content.get(name)
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise ValueError(f"ranker of reports: {name!r} is not a list of texts; train it again")
    return value


def default_ranker() -> ReportRanker:
    """The ranker for trackers without duplicates of their own to learn from, see ``default_ranker.md``."""
    text = (package_files("gedbd.retrieval.reports") / DEFAULT).read_text(encoding="utf-8")
    return ReportRanker.from_text(text)
