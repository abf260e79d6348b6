"""Re-ranks the first candidates of another scorer with a cross-encoder."""

from pathlib import Path

import numpy as np
import torch

from gedbd.corpora.templates import Text
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.io.console import track
from gedbd.retrieval.cross_encoder import CrossEncoder, CrossEncoderOptions, PairExample, train_cross_encoder
from gedbd.retrieval.feature_ranker import learn_weights
from gedbd.retrieval.linear_ranker import standardise
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs, linked_groups
from gedbd.retrieval.vocabulary import MAX_CHARACTERS

HELD_OUT = 0.2
MIN_PROGRESS_ITEMS = 10


class Reranker(Scorer):
    """Changes the order of the first ``depth`` candidates of another scorer; those below keep their places.

    The cross-encoder learns on training queries: the relevant report against ``negatives`` drawn from the first
    scorer's top, with a softmax over the list. The last fifth of these queries is held out; on it the weights of its
    score and of the first scorer's are learned.

    Args:
        first: The scorer whose top is re-ranked.
        encoder: LoadedEncoder to start from.
        text: How reports become texts.
        max_tokens: Length that two texts together are cut to.
        depth: Number of candidates to re-rank.
        negatives: Irrelevant candidates for each relevant one in training.
        epochs: Passes over the training queries.
        lr: Learning rate, with linear decay to 0.
        batch_size: Training queries in a batch.
        seed: Seed of draws, order and dropout.
        checkpoint: Trained weights of a run to start from, instead of the pretrained ones.
    """

    earlier_only = True

    def __init__(
        self,
        first: Scorer,
        encoder: LoadedEncoder,
        text: Text,
        max_tokens: int,
        depth: int = 100,
        negatives: int = 7,
        epochs: int = 1,
        lr: float = 2e-5,
        batch_size: int = 4,
        seed: int = 0,
        checkpoint: str | Path | None = None,
    ) -> None:
        self.first = first
        self.text = text
        self.depth = depth
        self.options = CrossEncoderOptions(negatives, epochs, lr, batch_size, seed)
        self.tokenizer = encoder.tokenizer
        self.max_tokens = max_tokens
        if checkpoint is not None:
            encoder.load_weights(checkpoint)
        torch.manual_seed(seed)  # the head is initialised at random
        self.model = CrossEncoder(encoder.model, encoder.tokenizer, max_tokens)

    def fit(self, inputs: ScorerInputs) -> None:
        """Fits the first scorer, trains the cross-encoder on its mistakes, and learns how to weigh both."""
        inputs.check_one_table("reranker")
        self.first.fit(inputs)
        reports = inputs.documents
        reports = reports.assign(description=reports["description"].str[:MAX_CHARACTERS])
        self.texts_, _ = self.text(reports, self.tokenizer, self.max_tokens // 2)
        self.warnings_ = self.first.warnings_
        train = inputs.train
        group = linked_groups(train, len(reports))
        queries = np.unique(train.loc[train["label"] == 1, "query"].to_numpy())
        held_out = max(1, round(HELD_OUT * len(queries)))
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        examples = [self._example(row, group) for row in queries[:-held_out]]
        train_cross_encoder(self.model, self.texts_, examples, self.options)
        self.weights_ = self._weigh(queries[-held_out:], group)

    def scores(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        first = self.first.scores(rows)
        scores = np.stack([standardise(row_scores, row) for row_scores, row in zip(first, rows, strict=True)])
        for place, row in enumerate(rows):
            top = _top(scores[place, :row], self.depth)
            if len(top):
                mixed = self._mix(scores[place, top], self._cross_scores(np.full(len(top), row), top))
                rest = np.delete(scores[place, :row], top)
                highest_rest = rest.max() if len(rest) else 0.0
                # The lowest of the top stays 1 above the rest, whose scores are on another scale.
                scores[place, top] = mixed - mixed.min() + highest_rest + 1
        return scores

    def score_pairs(self, queries: np.ndarray, documents: np.ndarray) -> np.ndarray:
        """Scores of single pairs, ``(P,), (P,) -> (P,)``, on one scale whatever their places in the ranking."""
        first = np.empty(len(queries), dtype=np.float32)
        for row in np.unique(queries):
            mine = queries == row
            first[mine] = self._first_scores(row)[documents[mine]]
        return self._mix(first, self._cross_scores(queries, documents))

    def _first_scores(self, row: int) -> np.ndarray:
        """The first scorer's scores of one query, standardised over the earlier reports, ``(N,)``."""
        return standardise(self.first.scores(np.array([row]))[0], row)

    def _cross_scores(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        """The cross-encoder's scores of pairs, ``(P,), (P,) -> (P,)``."""
        first = [self.texts_[row] for row in queries]
        second = [self.texts_[row] for row in candidates]
        return self.model.predict(first, second).numpy()

    def _mix(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(self.weights_[0] * first + self.weights_[1] * second, dtype=np.float32)

    def _example(self, row: int, group: np.ndarray) -> PairExample:
        """A training query, its relevant candidate with the highest score, and irrelevant ones near the top."""
        scores = self.first.scores(np.array([row]))[0, :row]
        right = np.flatnonzero(group[:row] == group[row])
        top = _top(scores, self.depth)
        return PairExample(row, int(right[np.argmax(scores[right])]), top[group[top] != group[row]])

    def _weigh(self, rows: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Weights of both scores, learnt on held-out queries."""
        lists = np.full((len(rows), self.depth + 1, 2), np.nan)
        relevant = np.zeros((len(rows), self.depth + 1), dtype=bool)
        few = len(rows) < MIN_PROGRESS_ITEMS
        for place, row in enumerate(track(rows, "weigh cross-encoder", transient=True, disable=few)):
            scores = self._first_scores(row)
            right = np.flatnonzero(group[:row] == group[row])
            # The best relevant report belongs to the list even where it is below the top: at most depth + 1 places.
            top = np.union1d(_top(scores[:row], self.depth), right[[np.argmax(scores[right])]])
            both = scores[top], self._cross_scores(np.full(len(top), row), top)
            lists[place, : len(top)] = np.stack(both, axis=1)
            relevant[place, : len(top)] = group[top] == group[row]
        return learn_weights(lists, relevant, l2=0.001)


def _top(scores: np.ndarray, depth: int) -> np.ndarray:
    """Rows of the highest scores, the highest first."""
    return np.argsort(-scores, kind="stable")[:depth]
