"""What an encoder is worth below a ranker: validation queries, ranked by boosted trees over its vectors."""

import numpy as np

from gedbd.corpora.corpus import Corpus
from gedbd.retrieval.reports.history import Replayed, ReportHistory
from gedbd.retrieval.reports.ranker import ReportRanker
from gedbd.retrieval.reports.training import RankerOptions, fit_ranker

METRICS = ("ranker_rr@10", "ranker_mrr")
FOLDS = 2


class RankerOnTop:
    """Ranks the queries of a part by rankers that are trained on the other ones, ``FOLDS`` parts by duplicate group.

    An encoder scores the duplicates that it was trained on too high, so the rankers learn from the part itself.

    Args:
        corpus: The reports.
        wanted: ``(N,)`` bool, the reports of the part.
        options: How rankers are trained; None for the default ones.
    """

    def __init__(self, corpus: Corpus, wanted: np.ndarray, options: RankerOptions | None = None) -> None:
        self.corpus = corpus
        self.options = options or RankerOptions(num_seeds=1)
        self.rows = np.flatnonzero(wanted & (corpus.group < np.arange(len(corpus))))
        self._history: ReportHistory | None = None

    def metrics(self, vectors: np.ndarray) -> dict[str, float]:
        """RR@10 and MRR by the names ``METRICS``; a query whose duplicate is no candidate counts as 0.

        Args:
            vectors: ``(N, D)`` unit rows.

        Raises:
            ValueError: If a fold has no query to learn from.
        """
        if self._history is None:
            self._history = ReportHistory.of_corpus(self.corpus, vectors)
        history = self._history.with_vectors(vectors)
        examples = list(history.replay(self.rows, "rank validation"))
        fold = fold_of(self.corpus.group[self.rows], FOLDS)
        found = np.zeros(len(examples))
        for number in range(FOLDS):
            others = [one for one, of in zip(examples, fold, strict=True) if of != number]
            ranker = fit_ranker(others, self.options)
            for place in np.flatnonzero(fold == number).tolist():
                found[place] = _reciprocal_rank(ranker, examples[place])
        return {"ranker_rr@10": float((found >= 0.1).mean()), "ranker_mrr": float(found.mean())}


def fold_of(group: np.ndarray, num_folds: int) -> np.ndarray:
    """A fold for each of some groups, ``(Q,) -> (Q,)`` from 0; neighbouring groups, of one age, are spread over all."""
    order = np.unique(group, return_inverse=True)[1]
    return np.asarray(order % num_folds)


def _reciprocal_rank(ranker: ReportRanker, one: Replayed) -> float:
    """1 / rank of the first right group; 0 if none is a candidate."""
    if not one.right.any():
        return 0.0
    scores = ranker.scores(one.features)
    order = np.argsort(-scores, kind="stable")
    return float(1 / (1 + np.flatnonzero(one.right[order])[0]))
