"""Ranks the commits of a history for a report."""

from typing import NamedTuple

import numpy as np

from gedbd.retrieval.changes.history import ChangeHistory, ChangeQuery
from gedbd.retrieval.vocabulary import words


class Suspect(NamedTuple):
    """A commit that may have induced the bug of a report.

    Attributes:
        row: Its row in the history.
        score: Its score: only the order of the scores of one query says something.
        contributions: What the features add to the score, by name; the sum of all is the score less a constant.
    """

    row: int
    score: float
    contributions: dict[str, float]


class ChangeRanker:
    """Scores all commits before a report."""

    def scores(self, history: ChangeHistory, query: ChangeQuery) -> np.ndarray:
        """``(n,)`` scores of the n commits before the query; higher is more suspect."""
        text = history.vocabulary(words([f"{query.title}\n{query.description}"]), learn=False)[0]
        return history.index.scores(text, history.num_before(query.created_at))

    def find(self, history: ChangeHistory, query: ChangeQuery, top_k: int = 10) -> list[Suspect]:
        """The most suspect commits, the first one first; of equal scores the newer commit comes first."""
        scores = self.scores(history, query)
        order = np.lexsort((-np.arange(len(scores)), -scores))[:top_k]
        return [Suspect(int(row), float(scores[row]), {"bm25": float(scores[row])}) for row in order]

    def to_text(self) -> str:
        """The ranker as text, to store it."""
        return "bm25\n"

    @classmethod
    def from_text(cls, text: str) -> "ChangeRanker":
        """The ranker that ``to_text`` was called on.

        Raises:
            ValueError: If the text is damaged.
        """
        return cls()


def default_ranker() -> ChangeRanker:
    """The ranker for repositories whose tracker taught none."""
    return ChangeRanker()
