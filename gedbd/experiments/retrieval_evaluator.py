"""Evaluation of report vectors: scores of pairs, the threshold, and rankings."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd
from torch import Tensor

from gedbd.evaluation.pairwise import best_threshold, pairwise_metrics
from gedbd.losses.loss import Loss
from gedbd.retrieval.ranking_tasks import RankingTask
from gedbd.retrieval.reports.report_training import RankerOnTop
from gedbd.retrieval.task_ranking import Ranking, rank_all
from gedbd.retrieval.vectors import Embedded, score_pairs, spread


class ScoredPairs(NamedTuple):
    """The pairs of a part with their columns of scores, and their loss."""

    table: pd.DataFrame
    loss: Tensor

    def best_threshold(self) -> float:
        """The threshold with the best F1 on these pairs."""
        return best_threshold(self.table["score"].to_numpy(), self.table["label"].to_numpy())

    def metrics(self, threshold: float) -> dict[str, float]:
        """Metrics of the column ``score``; a pair is called a duplicate from ``threshold`` on."""
        return pairwise_metrics(self.table["score"].to_numpy(), self.table["label"].to_numpy(), threshold)


class RetrievalEvaluator:
    """Scores pairs and ranks queries by the vectors of reports.

    Args:
        group: ``(N,)`` duplicate group of every report.
        pairs: Pairs with ``earlier``, ``later``, ``label`` and ``part``.
        queries: What is ranked, by part and protocol.
        on_top: Ranks the validation queries by a ranker over the vectors, if this is asked for.
    """

    def __init__(
        self,
        group: np.ndarray,
        pairs: pd.DataFrame,
        queries: Mapping[str, Mapping[str, RankingTask]],
        on_top: RankerOnTop | None = None,
    ) -> None:
        self.group = group
        self.pairs = pairs
        self.queries = queries
        self.on_top = on_top

    def score(self, reports: Embedded, part: str, loss: Loss) -> ScoredPairs:
        """Scores the pairs of a part by the vectors of the reports that they name."""
        pairs = self.pairs[self.pairs["part"] == part]
        return ScoredPairs(*score_pairs(reports, pairs, self.group, loss))

    def ranker_metrics(self, reports: Embedded) -> dict[str, float]:
        """Metrics of a ranker over the text vectors on the validation queries, see ``RankerOnTop``."""
        if self.on_top is None:
            return {}
        vectors = np.zeros((len(self.group), reports.z_text.shape[1]), dtype=np.float32)
        vectors[reports.n_id.cpu().numpy()] = reports.z_text.float().cpu().numpy()
        return self.on_top.metrics(vectors)

    def rank(self, reports: Embedded, part: str, text_too: bool = False) -> dict[str, dict[str, Ranking]]:
        """Ranks the queries of a part, if there are any.

        Args:
            reports: Vectors of the queries and all their candidates.
            part: The part.
            text_too: Whether to rank by the text vectors too, as ``score_text``.

        Returns:
            Rankings by protocol and score.
        """
        queries = self.queries.get(part, {})
        if not queries:
            return {}
        vectors = {"score": reports.z}
        if text_too:
            vectors["score_text"] = reports.z_text
        # Rows that were not encoded get zeros: queries name all rows they need, so none of these is ranked.
        rows = reports.n_id.cpu().numpy()
        scorers = {name: spread(rows, z.cpu().numpy(), len(self.group)) for name, z in vectors.items()}
        return rank_all(queries, scorers)
