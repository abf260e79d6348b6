"""A linear ranker: a weighted sum of standardised scores, its weights learned on training queries.

Every score is standardised over the candidates of its query. The weights maximise the softmax probability of the
relevant documents among the candidates that rank highest: a *listwise* loss. A pairwise loss over sampled negatives
learns to separate duplicates from reports that are obviously different, and fails at the top of the list.
"""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from gedbd.corpora.relevance import Relevance
from gedbd.retrieval.feature_ranker import learn_weights
from gedbd.retrieval.scorers.scorer_contract import BLOCK, Scorer, ScorerInputs

SHORTLIST = 200


class LinearRanker(Scorer):
    """A weighted sum of per-query z-scores over the documents that exist when the query is made.

    Args:
        features: Scorers to sum, by name.
        l2: Weight of the penalty on squared weights.
        rounds: How often the shortlist is chosen with the weights learned so far; the first one has equal weights.
        held_out: Share of the training queries, the latest ones, that the weights are learned on; features are fitted
            to the pairs of the older ones. Features that are trained on pairs score these pairs too high, so that their
            weight would be too large. 0: weights and features share all training queries.
        random_candidates: Further candidates of each training query, drawn from those below its shortlist. Where most
            relevant documents are below it too, weights that are learned without them favour whatever the shortlist
            lacks.

    Attributes:
        weights_: Learned weight of each feature, by name.
    """

    earlier_only = True

    def __init__(
        self,
        features: Mapping[str, Scorer],
        l2: float = 0.001,
        rounds: int = 2,
        held_out: float = 0.0,
        random_candidates: int = 0,
    ) -> None:
        if not 0 <= held_out < 1:
            raise ValueError(f"held_out={held_out} must be at least 0 and below 1")
        self.features = dict(features)
        self.l2 = l2
        self.rounds = rounds
        self.held_out = held_out
        self.random_candidates = random_candidates

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the features, then learns their weights.

        Raises:
            ValueError: If there is no feature, or no training pair with a relevant document to learn from.
        """
        positive = inputs.train.loc[inputs.train["label"] == 1, "query"].to_numpy()
        if not self.features or not len(positive):
            raise ValueError(
                "fusion needs at least one feature, and a duplicate pair in the training part to learn from"
            )
        rows = np.unique(positive)
        feature_inputs = inputs
        if self.held_out:
            # Rows are in the order of time: of queries 2, 5, 7, 9 and held_out=0.5, the weights are learned on 7 and 9.
            first = rows[round(len(rows) * (1 - self.held_out)) :][:1]
            feature_inputs = _before(inputs, first)
            rows = rows[rows >= first]
        for feature in self.features.values():
            feature.fit(feature_inputs)
        self.warnings_ = tuple(warning for feature in self.features.values() for warning in feature.warnings_)
        self.num_earlier_ = inputs.num_earlier
        relevance = inputs.relevance()
        weights = np.ones(len(self.features))
        # Which candidates are hard depends on the weights: they are chosen again with better weights.
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
        """Scores of all features, with mean 0 and deviation 1 over each query's candidates, ``(F, B, N)``."""
        stacked = np.stack([feature.scores(rows) for feature in self.features.values()]).astype(np.float32)
        for place, row in enumerate(rows):
            for scores in stacked[:, place]:
                scores[:] = standardise(scores, self.num_earlier_[row])
        return stacked

    def _shortlists(self, rows: np.ndarray, relevance: Relevance, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The highest candidates of each query: features ``(Q, S, F)``, and which are relevant, ``(Q, S)``.

        Relevant ones are always among them, of very many the latest. A query without a relevant candidate is left out.
        Shorter lists are filled up with places of no probability (NaN).
        """
        lists, is_relevant = [], []
        rng = np.random.default_rng(0)
        length = SHORTLIST + self.random_candidates
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            scores = self._standardised(block)
            for place, row in enumerate(block):
                count = self.num_earlier_[row]
                candidates = scores[:, place, :count]
                right = relevance.relevant(int(row))
                right = right[right < count]
                if not len(right):
                    continue
                # Stable: of equal sums the older document comes first, as in the ranking.
                order = np.argsort(-(weights @ candidates), kind="stable")
                wrong = order[~np.isin(order, right)]
                kept = right[-SHORTLIST // 2 :]
                num_wrong = SHORTLIST - len(kept)
                rest = wrong[num_wrong:]
                drawn = rng.choice(rest, min(self.random_candidates, len(rest)), replace=False)
                chosen = np.concatenate([kept, wrong[:num_wrong], drawn])
                padded = np.full((length, len(weights)), np.nan, dtype=np.float32)
                padded[: len(chosen)] = candidates[:, chosen].T
                lists.append(padded)
                # The relevant ones come first: with 2 of them, True True False False ...
                is_relevant.append(np.arange(length) < len(kept))
        if not lists:
            raise ValueError("fusion needs a training query with a relevant candidate to learn from")
        return np.stack(lists), np.stack(is_relevant)


def _before(inputs: ScorerInputs, first: np.ndarray) -> ScorerInputs:
    """The inputs with the training pairs of the queries before a row alone.

    Raises:
        ValueError: If no duplicate pair is before it, or it is none.
    """
    older = inputs.train[inputs.train["query"] < first.max(initial=-1)]
    if not (older["label"] == 1).any():
        raise ValueError(
            "held_out leaves no training query to fit the features, or none to learn their weights: lower it"
        )
    return replace(inputs, train=older)


def standardise(scores: np.ndarray, count: int) -> np.ndarray:
    """Scores ``(N,)`` with mean 0 and deviation 1 over the first ``count``; all 0 if those are equal."""
    candidates = scores[:count].astype(np.float64)
    # Not "deviation is 0": the mean of equal numbers may round to another number, and the deviation is tiny then.
    if not count or candidates.min() == candidates.max():
        return np.zeros_like(scores)
    return np.asarray((scores - candidates.mean()) / candidates.std(), dtype=np.float32)
