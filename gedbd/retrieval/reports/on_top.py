"""What an encoder is worth below a ranker: validation queries, ranked by boosted trees over its vectors."""

import numpy as np

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TRAIN, VAL
from gedbd.retrieval.reports.history import Replayed, ReportHistory
from gedbd.retrieval.reports.ranker import ReportRanker
from gedbd.retrieval.reports.training import RankerOptions, fit_ranker

METRICS = ("ranker_rr@10", "ranker_mrr")


class RankerOnTop:
    """Ranks the validation queries by one and the same ranker over the vectors of each epoch.

    The ranker is trained on the training queries over the vectors of the encoder before its training: a trained
    encoder scores the duplicates that it has learnt from too high.

    Args:
        corpus: The reports.
        parts: ``(N,)`` part of each.
        untrained: ``(N, D)`` unit vectors of the encoder before its training.
        options: How the ranker is trained; None for the default ones with one training.
    """

    def __init__(
        self, corpus: Corpus, parts: np.ndarray, untrained: np.ndarray, options: RankerOptions | None = None
    ) -> None:
        self.corpus = corpus
        self.parts = parts
        self.untrained = untrained
        self.options = options or RankerOptions(num_seeds=1)
        self._fitted: tuple[ReportHistory, ReportRanker] | None = None

    def metrics(self, vectors: np.ndarray) -> dict[str, float]:
        """RR@10 and MRR by the names ``METRICS``; a query whose duplicate is no candidate counts as 0.

        Args:
            vectors: ``(N, D)`` unit rows.

        Raises:
            ValueError: If the training part has no query to learn from.
        """
        if self._fitted is None:
            self._fitted = self._fit()
        history, ranker = self._fitted
        queries = self._queries(history, VAL)
        replayed = history.with_vectors(vectors).replay(queries, "rank validation")
        found = np.array([_reciprocal_rank(ranker, one) for one in replayed])
        return {"ranker_rr@10": float((found >= 0.1).mean()), "ranker_mrr": float(found.mean())}

    def _fit(self) -> tuple[ReportHistory, ReportRanker]:
        history = ReportHistory.of_corpus(self.corpus, self.untrained)
        examples = list(history.replay(self._queries(history, TRAIN), "learn to rank"))
        return history, fit_ranker(examples, self.options)

    def _queries(self, history: ReportHistory, part: int) -> np.ndarray:
        is_of_part = self.parts[history.duplicates] == part
        return np.asarray(history.duplicates[is_of_part])


def _reciprocal_rank(ranker: ReportRanker, one: Replayed) -> float:
    """1 / rank of the first right group; 0 if none is a candidate."""
    if not one.right.any():
        return 0.0
    scores = ranker.scores(one.features)
    order = np.argsort(-scores, kind="stable")
    return float(1 / (1 + np.flatnonzero(one.right[order])[0]))
