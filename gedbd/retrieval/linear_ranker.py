"""A linear ranker: a weighted sum of standardised scores, its weights learned on training queries.

Scores are standardised over the candidates of each query. The weights maximise the softmax probability of the relevant
documents among the best candidates, a *listwise* loss. A pairwise loss over sampled negatives would learn to
separate obviously different reports, and fail at the top of the list.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from gedbd.corpora.relevance import Relevance
from gedbd.retrieval.feature_ranker import learn_weights
from gedbd.retrieval.scorers.scorer_contract import BLOCK, Scorer, ScorerInputs

SHORTLIST = 200


@dataclass(eq=False)
class LinearRanker(Scorer):
    """A weighted sum of per-query z-scores over earlier documents."""

    earlier_only = True

    features: Mapping[str, Scorer]  # scorers to sum, by name
    l2: float = 0.001  # weight of the penalty on squared weights
    # number of times that the shortlist is chosen and weights are learned on it, starting from equal weights
    rounds: int = 2
    # share of the training queries, the latest ones, for learning the weights; features are fitted on the others, so
    # that features that overfit their training pairs do not get too large weights. 0: weights and features share all
    # training queries
    held_out: float = 0.0
    # number of random candidates below the shortlist for each training query; needed if most relevant documents are
    # below it
    random_candidates: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.held_out < 1:
            raise ValueError(f"held_out={self.held_out} must be at least 0 and below 1")
        self.features = dict(self.features)

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the features, then learns their weights.

        Raises:
            ValueError: If there is no feature, or no training pair with a relevant document to learn from.
        """
        positive = inputs.train.loc[inputs.train["label"] == 1, "query"].to_numpy()
        if not self.features or not len(positive):
            raise ValueError(
                "fusion needs at least one feature, and a duplicate pair in the training split to learn from"
            )
        rows = np.unique(positive)
        feature_inputs = inputs
        if self.held_out:
            # Rows are in the order of time: of queries 2, 5, 7, 9 and held_out=0.5, the weights are learned on 7 and 9.
            first = rows[round(len(rows) * (1 - self.held_out)) :][:1]
            older = inputs.train[inputs.train["query"] < first.max(initial=-1)]
            if not (older["label"] == 1).any():
                raise ValueError(
                    "held_out leaves no training query to fit the features, or none to learn their weights: lower it"
                )
            feature_inputs = replace(inputs, train=older)
            rows = rows[rows >= first]
        for feature in self.features.values():
            feature.fit(feature_inputs)
        self.warnings_ = tuple(warning for feature in self.features.values() for warning in feature.warnings_)
        self.num_earlier_ = inputs.num_earlier
        relevance = inputs.relevance()
        weights = np.ones(len(self.features))
        # The hardest candidates depend on the weights.
        for _ in range(self.rounds):
            lists, relevant = self._shortlists(rows, relevance, weights)
            weights = learn_weights(lists, relevant, self.l2)
        self.weights_ = dict(zip(self.features, weights.tolist(), strict=True))

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        weights = np.array(list(self.weights_.values()), dtype=np.float32)
        # In single precision, ``(F,), (F, B, N) -> (B, N)``.
        return np.asarray(np.einsum("f,fbn->bn", weights, self._standardised(rows)))

    def _standardised(self, rows: np.ndarray) -> np.ndarray:
        """Scores of all features, standardised over each query's candidates, ``(F, B, N)``."""
        stacked = np.stack([feature.scores(rows) for feature in self.features.values()]).astype(np.float32)
        for position, row in enumerate(rows):
            for scores in stacked[:, position]:
                candidates = scores[: self.num_earlier_[row]].astype(np.float64)
                # Not "deviation is 0", as the mean of equal numbers may be rounded.
                if not len(candidates) or candidates.min() == candidates.max():
                    scores[:] = 0
                else:
                    scores[:] = (scores - candidates.mean()) / candidates.std()
        return stacked

    def _shortlists(self, rows: np.ndarray, relevance: Relevance, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The best candidates of each query: features ``(Q, S, F)``, NaN-padded, and which are relevant, ``(Q, S)``.

        Relevant candidates are always included, at most the latest 100. Queries without any are left out.
        """
        lists, is_relevant = [], []
        rng = np.random.default_rng(0)
        length = SHORTLIST + self.random_candidates
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            scores = self._standardised(block)
            for position, row in enumerate(block):
                count = self.num_earlier_[row]
                candidates = scores[:, position, :count]
                relevant_rows = relevance.relevant(int(row))
                relevant_rows = relevant_rows[relevant_rows < count]
                if not len(relevant_rows):
                    continue
                # Stable: older documents first among ties, as in the ranking.
                order = np.argsort(-(weights @ candidates), kind="stable")
                irrelevant_rows = order[~np.isin(order, relevant_rows)]
                kept = relevant_rows[-SHORTLIST // 2 :]
                num_irrelevant = SHORTLIST - len(kept)
                rest = irrelevant_rows[num_irrelevant:]
                sample = rng.choice(rest, min(self.random_candidates, len(rest)), replace=False)
                shortlist = np.concatenate([kept, irrelevant_rows[:num_irrelevant], sample])
                padded = np.full((length, len(weights)), np.nan, dtype=np.float32)
                padded[: len(shortlist)] = candidates[:, shortlist].T
                lists.append(padded)
                # Relevant candidates come first: True True False False ... for 2.
                is_relevant.append(np.arange(length) < len(kept))
        if not lists:
            raise ValueError("fusion needs a training query with a relevant candidate to learn from")
        return np.stack(lists), np.stack(is_relevant)
