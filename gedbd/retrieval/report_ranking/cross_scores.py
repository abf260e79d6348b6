"""A cross-encoder's scores of the first candidates of another ranker, a feature of a learned ranker.

A cross-encoder reads two reports at once, which is slower than comparing their vectors, and more accurate.
``sentence_transformers.CrossEncoder`` wraps a sequence-classification model with a head of its own: it does not start
from the pooling and the trained weights of the text encoder, as the model here does.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backend import Backend, PreparedBackend, encode_texts
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import track
from gedbd.retrieval.report_ranking.report_scorer import RankedList, ReportText
from gedbd.text.tokens import CHUNK_TEXTS, TokenTable

NAME = "cross"
DEPTH = 30
MAX_TOKENS = 128
MAX_QUERIES = 1500
MIN_FOLDS = 2
MIN_QUERIES = 2
MIN_PROGRESS_BATCHES = 10


class CrossEncoder(nn.Module):
    """score = w . pool(backbone([a; b])) + c, from the same pretrained weights as the text branch.

    Args:
        encoder: Its backbone and pooling are used; training changes the backbone. Its prefix and
            ``truncate_dim`` are not used for pairs.
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
        # The tokenizer separates the texts of a pair as in the pretraining of its model.
        tokens = self.tokenizer(
            first, second, truncation=True, max_length=self.max_tokens, padding=True, return_tensors="pt"
        )
        device = self.head.weight.device
        # Other CPUs are slower in bfloat16 than in float32.
        has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        is_reduced = self.reduced_precision and device.type == "cpu" and has_bfloat16
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
        order = sorted(range(len(first)), key=lambda position: -len(first[position]) - len(second[position]))
        scores = torch.empty(len(first))
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            scores[chosen] = self(
                [first[position] for position in chosen], [second[position] for position in chosen]
            ).cpu()
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


class PairExample(NamedTuple):
    """A training query."""

    query: int
    relevant: int  # row of its relevant candidate
    irrelevant: np.ndarray  # ``(C,)`` rows of irrelevant candidates that another ranker places near the top


class CrossEncoderOptions(NamedTuple):
    """How a cross-encoder is trained."""

    negatives: int = 7  # irrelevant candidates for each relevant one, drawn in each epoch
    epochs: int = 1  # passes over the training queries
    lr: float = 2e-5  # learning rate, with linear decay to 0
    batch_size: int = 4  # training queries in a batch
    seed: int = 0  # seed of draws, order and dropout


# Training on a CPU affords few steps, so the learning rate is higher than that of a long training.
OPTIONS = CrossEncoderOptions(negatives=3, epochs=1, lr=1e-4, batch_size=8)


def train_cross_encoder(
    model: CrossEncoder, texts: Mapping[int, str], examples: Sequence[PairExample], options: CrossEncoderOptions
) -> None:
    """Minimises -log of the softmax probability of the relevant report in each list.

    The trainer of sentence-transformers (``ListNetLoss``) has the same softmax, but takes fixed lists from a dataset:
    it cannot draw new negatives in each epoch. The model is changed in place and left in training mode.
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
    few = len(batches) < MIN_PROGRESS_BATCHES
    for batch in track(batches, "train cross-encoder", transient=True, disable=few):
        loss = _loss(model, texts, [examples[position] for position in batch], options.negatives, rng)
        optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        decay.step()


def _loss(
    model: CrossEncoder,
    texts: Mapping[int, str],
    batch: Sequence[PairExample],
    negatives: int,
    rng: np.random.Generator,
) -> Tensor:
    """Mean -log of the softmax probability of each relevant report among negatives drawn near the top."""
    queries: list[str] = []
    candidate_texts: list[str] = []
    sizes = []
    for example in batch:
        negative_rows = rng.choice(example.irrelevant, min(negatives, len(example.irrelevant)), replace=False)
        rows = [example.relevant, *negative_rows.tolist()]
        queries += [texts[example.query]] * len(rows)
        candidate_texts += [texts[row] for row in rows]
        sizes.append(len(rows))
    # One batch of all lists, which is faster than many short ones.
    scores = model(queries, candidate_texts)
    target = torch.zeros(1, dtype=torch.long, device=scores.device)  # the relevant report is the first
    losses = [cross_entropy(own[None], target) for own in scores.split(sizes)]
    return torch.stack(losses).mean()


class CrossScores:
    """Trains a cross-encoder on the hard candidates of another ranker, and scores its first candidates.

    ``conf/cross/trained.yaml`` describes the options; a copy of the encoder's weights is trained, from the same initial
    ones each time. Without a backend, PyTorch runs the trained model, in bfloat16 on CPUs that have instructions for
    it.
    """

    name = NAME
    warnings: tuple[str, ...] = ()

    def __init__(
        self,
        encoder: LoadedEncoder,
        max_tokens: int = MAX_TOKENS,
        depth: int = DEPTH,
        max_queries: int = MAX_QUERIES,
        folds: int = MIN_FOLDS,
        options: CrossEncoderOptions = OPTIONS,
        backend: Backend | None = None,
    ) -> None:
        if backend is not None and backend.calibrated:
            raise ValueError("cross: a calibrated backend cannot run a cross-encoder: choose backend=openvino_bf16")
        if folds != 0 and folds < MIN_FOLDS:
            raise ValueError(f"cross.folds={folds} must be 0, or {MIN_FOLDS} or more")
        self.depth = depth
        self.max_queries = max_queries
        self.folds = folds
        self.options = options
        self.backend = backend
        self._prepared: PreparedBackend | None = None
        torch.manual_seed(options.seed)  # the head is initialised at random
        model = CrossEncoder(deepcopy(encoder.model), encoder.tokenizer, max_tokens, reduced_precision=True)
        self.model = model.to("cuda" if torch.cuda.is_available() else "cpu").eval()
        self._initial = deepcopy(self.model.state_dict())

    def fit(self, texts: Sequence[ReportText], lists: Sequence[RankedList]) -> None:
        """Trains the cross-encoder, from the same initial weights each time.

        Raises:
            ValueError: If no list has both a relevant and an irrelevant candidate.
        """
        examples = [example for example in map(self._example, lists) if example]
        if not examples:
            raise ValueError("the cross-encoder needs a training query with a duplicate and an irrelevant candidate")
        self._prepared = None  # it may hold a converted copy of the old weights
        self.model.load_state_dict(self._initial)
        latest = examples[-self.max_queries :]
        rows = {row for query, relevant, irrelevant in latest for row in (query, relevant, *irrelevant.tolist())}
        train_cross_encoder(self.model, {row: texts[row].joined() for row in rows}, latest, self.options)
        self.model.eval()

    def fit_held_out(
        self, texts: Sequence[ReportText], lists: Sequence[RankedList], groups: np.ndarray
    ) -> list[np.ndarray]:
        """As ``fit``, and scores training queries by a cross-encoder that did not learn from them.

        A cross-encoder scores what it was trained on too high: a ranker that learned from such scores would give them
        too large a weight. The queries before the latest ``max_queries`` get NaN.

        With ``folds`` = 0, the older half of the queries trains, and the newer half is scored; the older half gets NaN.
        Otherwise each fold is scored by a cross-encoder trained on the others, and the last training uses all queries,
        so that it takes ``folds`` + 1 times as long. The queries of a group share a fold.

        Returns:
            For each list the scores of its candidates, ``(C,)`` float32.

        Raises:
            ValueError: If there are too few queries or groups to split.
        """
        if len(lists) < MIN_QUERIES:
            raise ValueError(f"the cross-encoder needs {MIN_QUERIES} training queries or more to hold some out")
        latest = lists[-self.max_queries :]
        older = [_no_scores(listed) for listed in lists[: -self.max_queries]]
        if self.folds == 0:
            half = len(latest) // 2
            self.fit(texts, latest[:half])
            return [*older, *map(_no_scores, latest[:half]), *self.score_lists(texts, latest[half:])]
        fold = _group_folds(latest, groups, self.folds)
        scores = [_no_scores(listed) for listed in latest]
        for number in range(self.folds):
            self.fit(texts, [listed for listed, own in zip(latest, fold, strict=True) if own != number])
            positions = np.flatnonzero(fold == number).tolist()
            for position, scored in zip(
                positions, self.score_lists(texts, [latest[position] for position in positions]), strict=True
            ):
                scores[position] = scored
        self.fit(texts, latest)
        return [*older, *scores]

    def score_lists(self, texts: Sequence[ReportText], lists: Sequence[RankedList]) -> list[np.ndarray]:
        """For each list the scores of its candidates, ``(C,)`` float32; NaN below ``depth``.

        Many queries at once are faster: pairs of similar length are scored together.
        """
        first = [texts[listed.query].joined() for listed in lists for _ in listed.candidates[: self.depth]]
        second = [texts[row].joined() for listed in lists for row in listed.candidates[: self.depth].tolist()]
        if self.backend is None:
            scored = self.model.predict(first, second).numpy()
        else:
            self._prepared = self._prepared or self.backend.prepare(self.model.encoder, None)
            scored = self.model.predict_with(self._prepared, first, second)
        scores = []
        start = 0
        for listed in lists:
            list_scores = _no_scores(listed)
            count = min(self.depth, len(list_scores))
            list_scores[:count] = scored[start : start + count]
            start += count
            scores.append(list_scores)
        return scores

    def _example(self, listed: RankedList) -> PairExample | None:
        """The relevant candidate that is ranked highest, and the irrelevant ones near the top."""
        if not len(listed.relevant):
            return None
        right = np.isin(listed.candidates, listed.relevant)
        irrelevant = listed.candidates[: self.depth][~right[: self.depth]]
        if not len(irrelevant):
            return None
        relevant = listed.candidates[np.argmax(right)] if right.any() else listed.relevant[0]
        return PairExample(listed.query, int(relevant), irrelevant)


def _no_scores(listed: RankedList) -> np.ndarray:
    return np.full(len(listed.candidates), np.nan, dtype=np.float32)


def _group_folds(lists: Sequence[RankedList], groups: np.ndarray, folds: int) -> np.ndarray:
    """The fold of each list, ``(Q,)``. Folds are assigned to groups in turn, in the order of their first query."""
    group_of_list = groups[[listed.query for listed in lists]]
    _, first, position = np.unique(group_of_list, return_index=True, return_inverse=True)
    if not MIN_FOLDS <= folds <= len(first):
        raise ValueError(
            f"cross.folds={folds} of the cross-encoder: choose 0, or {MIN_FOLDS} to {len(first)}, the number of groups"
        )
    # Groups by their first queries: with first = [4, 0, 2], the second group comes first.
    turn = np.argsort(np.argsort(first))
    return np.asarray(turn[position] % folds)
