"""A second look at the first candidates: a cross-encoder over the top of another baseline's ranking."""

from pathlib import Path

import numpy as np
import pandas as pd
import torch
from rich.progress import track
from torch.nn.functional import cross_entropy

from gedbd.corpora.documents import Corpus
from gedbd.encoders.encoder import Encoder
from gedbd.retrieval.cross_encoder import CrossEncoder
from gedbd.retrieval.linear_ranker import learn_weights, standardise
from gedbd.retrieval.scorers import Baseline
from gedbd.retrieval.scorers.lexical import MAX_CHARACTERS
from gedbd.retrieval.scorers.textless import linked_groups
from gedbd.text.templates import Text

HELD_OUT = 0.2


class Reranker:
    """Orders the first ``depth`` candidates of a baseline anew; those below keep their places below.

    The cross-encoder learns on training queries: the right report against ``negatives`` drawn from the first
    baseline's top, softmax over the list. The last fifth of these queries is held out; on it the weights of its score
    and the first baseline's are learnt.

    Args:
        first: The baseline whose top is looked at.
        encoder: Encoder to start from.
        text: How reports become texts.
        max_tokens: Length that two texts together are cut to.
        depth: Candidates that are looked at.
        negatives: Wrong candidates to each right one in training.
        epochs: Passes over the training queries.
        lr: Learning rate, with linear decay to 0.
        batch_size: Training queries of a step.
        seed: Fixes draws, order and dropout.
        checkpoint: A run's trained weights to start from, in place of the pretrained ones.
    """

    looks_back = True

    def __init__(
        self,
        first: Baseline,
        encoder: Encoder,
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
        self.first, self.text, self.depth, self.negatives = first, text, depth, negatives
        self.epochs, self.lr, self.batch_size, self.seed = epochs, lr, batch_size, seed
        self.tokenizer, self.max_tokens = encoder.tokenizer, max_tokens
        if checkpoint is not None:
            encoder.load_weights(checkpoint)
        torch.manual_seed(seed)
        self.model = CrossEncoder(encoder.model, encoder.tokenizer, max_tokens)

    def fit(self, corpus: Corpus, train: pd.DataFrame) -> None:
        """Fits the first baseline, trains the cross-encoder on its mistakes, and learns how to weigh both."""
        self.first.fit(corpus, train)
        reports = corpus.reports.assign(description=corpus.reports["description"].str[:MAX_CHARACTERS])
        self.texts_ = self.text(reports, self.tokenizer, self.max_tokens // 2)
        group = linked_groups(train, len(corpus))
        queries = np.unique(train.loc[train["label"] == 1, "later"].to_numpy())
        held_out = max(1, round(HELD_OUT * len(queries)))
        self.model.to("cuda" if torch.cuda.is_available() else "cpu")
        self._train([self._example(row, group) for row in queries[:-held_out]])
        self.weights_ = self._weigh(queries[-held_out:], group)

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """``(B,) -> (B, N)``."""
        scores = np.stack([standardise(scores, row) for scores, row in zip(self.first(rows), rows, strict=True)])
        for place, row in enumerate(rows):
            top = _top(scores[place, :row], self.depth)
            if len(top):
                fresh = self._mix(scores[place, top], self._read(np.full(len(top), row), top))
                rest = np.delete(scores[place, :row], top)
                floor = rest.max() if len(rest) else 0.0
                scores[place, top] = fresh - fresh.min() + floor + 1
        return scores

    def score_pairs(self, earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
        """Scores of single pairs, ``(P,), (P,) -> (P,)``, on one scale whatever their places in the ranking."""
        first = np.empty(len(later), dtype=np.float32)
        for row in np.unique(later):
            mine = later == row
            first[mine] = standardise(self.first(np.array([row]))[0], row)[earlier[mine]]
        return self._mix(first, self._read(later, earlier))

    def _read(self, queries: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        first, second = ([self.texts_[row] for row in rows] for rows in (queries, candidates))
        return self.model.predict(first, second).numpy()

    def _mix(self, first: np.ndarray, second: np.ndarray) -> np.ndarray:
        return np.asarray(self.weights_[0] * first + self.weights_[1] * second, dtype=np.float32)

    def _example(self, row: int, group: np.ndarray) -> tuple[int, int, np.ndarray]:
        """A training query, its best relevant candidate, and wrong ones near the top."""
        scores = self.first(np.array([row]))[0, :row]
        right = np.flatnonzero(group[:row] == group[row])
        top = _top(scores, self.depth)
        return row, int(right[np.argmax(scores[right])]), top[group[top] != group[row]]

    def _train(self, examples: list[tuple[int, int, np.ndarray]]) -> None:
        torch.manual_seed(self.seed)
        rng = np.random.default_rng(self.seed)
        order = [rng.permutation(len(examples)) for _ in range(self.epochs)]
        batches = [
            list(part[at : at + self.batch_size]) for part in order for at in range(0, len(part), self.batch_size)
        ]
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.lr)
        decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, max(1, len(batches)))
        self.model.train()
        for batch in track(batches, "train cross-encoder", transient=True, disable=len(batches) < 10):
            losses = []
            for place in batch:
                row, right, near = examples[place]
                wrong = rng.choice(near, min(self.negatives, len(near)), replace=False)
                texts = [self.texts_[other] for other in (right, *wrong)]
                scores = self.model([self.texts_[row]] * len(texts), texts)
                losses.append(cross_entropy(scores[None], torch.zeros(1, dtype=torch.long, device=scores.device)))
            optimizer.zero_grad()
            torch.autograd.backward(torch.stack(losses).mean())
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            optimizer.step()
            decay.step()

    def _weigh(self, rows: np.ndarray, group: np.ndarray) -> np.ndarray:
        """Weights of both scores, learnt on held-out queries."""
        lists = np.full((len(rows), self.depth + 1, 2), np.nan)
        relevant = np.zeros((len(rows), self.depth + 1), dtype=bool)
        for place, row in enumerate(track(rows, "weigh cross-encoder", transient=True, disable=len(rows) < 10)):
            scores = standardise(self.first(np.array([row]))[0], row)
            right = np.flatnonzero(group[:row] == group[row])
            top = np.union1d(_top(scores[:row], self.depth), right[[np.argmax(scores[right])]])
            lists[place, : len(top)] = np.stack([scores[top], self._read(np.full(len(top), row), top)], axis=1)
            relevant[place, : len(top)] = group[top] == group[row]
        return learn_weights(lists, relevant, l2=0.001)


def _top(scores: np.ndarray, depth: int) -> np.ndarray:
    return np.argsort(-scores, kind="stable")[:depth]
