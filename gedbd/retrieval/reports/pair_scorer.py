"""The contract of scorers that read a new report and one of its first candidates together."""

from typing import NamedTuple, Protocol

import numpy as np

MAX_CHARACTERS = 2000


class ReportText(NamedTuple):
    """The text of a report."""

    title: str
    description: str

    def joined(self, max_characters: int = MAX_CHARACTERS) -> str:
        """Title and description with a line break between, the description cut to ``max_characters``."""
        return f"{self.title.strip()}\n{self.description[:max_characters].strip()}".strip()


class ReportPairScorer(Protocol):
    """Scores the first candidates of a query; too slow for all of them.

    Attributes:
        name: Name of the score, such as ``cross``.
        depth: Number of candidates that are scored at most; the others get NaN.
    """

    name: str
    depth: int

    def score(self, query: ReportText, candidates: list[ReportText]) -> np.ndarray:
        """Scores of C candidates, the best first: ``(C,)`` float32, NaN where there is none."""
        ...
