"""A cross-encoder: it reads two reports at once, which is slower than comparing their vectors, and more accurate.

``sentence_transformers.CrossEncoder`` wraps a sequence-classification model with a head of its own: it does not start
from the pooling and the trained weights of the text encoder, which are what is compared here.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from transformers import PreTrainedTokenizerBase

from gedbd.encoders.backend import PreparedBackend, encode_texts
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import track
from gedbd.text.tokens import CHUNK_TEXTS, TokenTable

MIN_PROGRESS_ITEMS = 10
Texts = Sequence[str] | Mapping[int, str]  # by row


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
        with self._precision(device):
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

    def _precision(self, device: torch.device) -> AbstractContextManager[object]:
        enabled = self.reduced_precision and device.type == "cpu" and cpu_has_bfloat16()
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=enabled)


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
