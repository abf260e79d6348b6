"""A cross-encoder: it reads two reports at once, which is slower than comparing their vectors, and more accurate.

``sentence_transformers.CrossEncoder`` wraps a sequence-classification model with a head of its own: it does not start
from the pooling and the trained weights of the text encoder, which are what is compared here.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.templates import Text
from gedbd.encoders.backend import PreparedBackend, encode_texts
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import track
from gedbd.retrieval.feature_ranker import learn_weights
from gedbd.retrieval.linear_ranker import standardise
from gedbd.retrieval.scorers.scorer_contract import Scorer, ScorerInputs, linked_groups
from gedbd.retrieval.vocabulary import MAX_CHARACTERS
from gedbd.text.tokens import CHUNK_TEXTS, TokenTable

MIN_PROGRESS_ITEMS = 10
Texts = Sequence[str] | Mapping[int, str]  # by row
HELD_OUT = 0.2


class CrossEncoder(nn.Module):
    """score = w . pool(backbone([a; b])) + c, from the same pretrained weights as the text branch.

    Args:
        encoder: Its backbone and pooling are used; training changes the backbone. A prefix of single texts and
            ``truncate_dim`` are not for pairs: neither is used.
        tokenizer: The tokenizer of the encoder.
        max_tokens: Length that both texts together are cut to, the longer one first.
        reduced_precision: Compute in bfloat16 where the CPU has instructions for it; the weights stay float32.
    """

    def __init__(
        self, encoder: TextEncoder, tokenizer: PreTrainedTokenizerBase, max_tokens: int, reduced_precision: bool = False
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.reduced_precision = reduced_precision
        self.head = nn.Linear(int(encoder.backbone.config.hidden_size), 1)

    def forward(self, first: list[str], second: list[str]) -> Tensor:
        """Scores of pairs of texts, ``(P,)`` float32."""
        # Pairs of texts are separated by the tokenizer in the way that its model was pretrained with.
        tokens = self.tokenizer(
            first, second, truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        device = self.head.weight.device
        is_reduced = self.reduced_precision and device.type == "cpu" and cpu_has_bfloat16()
        with torch.autocast(device.type, dtype=torch.bfloat16, enabled=is_reduced):
            pooled = self.encoder.pool(tokens["input_ids"].to(device), tokens["attention_mask"].to(device))
        scores: Tensor = self.head(pooled).squeeze(-1)
        return scores

    @torch.no_grad()
    def predict(self, first: list[str], second: list[str], batch_size: int = 32) -> Tensor:
        """As ``forward``, in batches of similar length and in evaluation mode."""
        was_training = self.training
        self.eval()
        # The longest first: batches of similar length have little padding.
        order = sorted(range(len(first)), key=lambda place: -len(first[place]) - len(second[place]))
        scores = torch.empty(len(first))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            scores[chosen] = self([first[place] for place in chosen], [second[place] for place in chosen]).cpu()
        self.train(was_training)
        return scores

    def tokenize(self, first: list[str], second: list[str]) -> TokenTable:
        """Token ids of P pairs of texts, as the model reads them."""
        ids: list[np.ndarray] = []
        for start in range(0, len(first), CHUNK_TEXTS):
            chunk = slice(start, start + CHUNK_TEXTS)
            encoded = self.tokenizer(
                first[chunk], second[chunk], truncation=True, max_length=self.max_tokens, return_attention_mask=False
            )
            ids += [np.asarray(pair, dtype=np.int32) for pair in encoded["input_ids"]]
        starts = np.cumsum([0, *map(len, ids)])
        pad_id = self.tokenizer.pad_token_id
        return TokenTable(np.concatenate([*ids, np.empty(0, dtype=np.int32)]), starts, int(pad_id))

    @torch.no_grad()
    def predict_with(self, prepared: PreparedBackend, first: list[str], second: list[str]) -> np.ndarray:
        """As ``predict``, by a backend that was prepared with this model's encoder, ``(P,)`` float32."""
        if not first:
            return np.empty(0, dtype=np.float32)
        pooled = torch.from_numpy(encode_texts(self.tokenize(first, second), prepared, "score pairs of reports"))
        device = self.head.weight.device
        scores: np.ndarray = self.head(pooled.to(device)).squeeze(-1).cpu().numpy()
        return scores


def cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies matrices in bfloat16 (AVX-512 BF16 or AMX); others are slower in it."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


class PairExample(NamedTuple):
    """A training query.

    Attributes:
        query: Its row.
        relevant: Row of its relevant candidate.
        irrelevant: ``(C,)`` rows of irrelevant candidates that another ranker places near the top.
    """

    query: int
    relevant: int
    irrelevant: np.ndarray


class CrossEncoderOptions(NamedTuple):
    """How a cross-encoder is trained.

    Attributes:
        negatives: Irrelevant candidates for each relevant one, drawn in each epoch.
        epochs: Passes over the training queries.
        lr: Learning rate, with linear decay to 0.
        batch_size: Training queries in a batch.
        seed: Seed of draws, order and dropout.
    """

    negatives: int = 7
    epochs: int = 1
    lr: float = 2e-5
    batch_size: int = 4
    seed: int = 0


def train_cross_encoder(
    model: CrossEncoder, texts: Texts, examples: Sequence[PairExample], options: CrossEncoderOptions
) -> None:
    """Minimises -log of the softmax probability of the relevant report in each list.

    The trainer of sentence-transformers (``ListNetLoss``) has the same softmax, but takes fixed lists from a dataset:
    it does not draw other negatives in each epoch.

    Args:
        model: The cross-encoder, changed in place and left in training mode.
        texts: Texts by row.
        examples: Training queries.
        options: See ``CrossEncoderOptions``.
    """
    torch.manual_seed(options.seed)
    rng = np.random.default_rng(options.seed)
    size = options.batch_size
    batches = []
    for _ in range(options.epochs):
        order = rng.permutation(len(examples))
        batches += [order[start : start + size] for start in range(0, len(order), size)]
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, max(1, len(batches)))
    model.train()
    few = len(batches) < MIN_PROGRESS_ITEMS
    for batch in track(batches, "train cross-encoder", transient=True, disable=few):
        loss = _loss(model, texts, [examples[place] for place in batch], options.negatives, rng)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()


def _loss(
    model: CrossEncoder, texts: Texts, batch: Sequence[PairExample], negatives: int, rng: np.random.Generator
) -> torch.Tensor:
    """Mean -log of the softmax probability of each relevant report among negatives drawn near the top."""
    queries: list[str] = []
    listed: list[str] = []
    sizes = []
    for example in batch:
        wrong = rng.choice(example.irrelevant, min(negatives, len(example.irrelevant)), replace=False)
        rows = [example.relevant, *wrong.tolist()]
        queries += [texts[example.query]] * len(rows)
        listed += [texts[row] for row in rows]
        sizes.append(len(rows))
    # One batch of all lists: many short ones would use the processor less well.
    scores = model(queries, listed)
    target = torch.zeros(1, dtype=torch.long, device=scores.device)  # the relevant report is the first
    losses = [cross_entropy(own[None], target) for own in scores.split(sizes)]
    return torch.stack(losses).mean()


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
        """Weights of both scores, learned on held-out queries."""
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
