"""Training of a cross-encoder on lists: a relevant report against irrelevant ones near the top of another ranker."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from gedbd.io.progress import track
from gedbd.retrieval.cross_encoder import CrossEncoder

MIN_PROGRESS_ITEMS = 10


class Example(NamedTuple):
    """A training query.

    Attributes:
        query: Its row.
        relevant: Row of its relevant candidate.
        irrelevant: ``(C,)`` rows of irrelevant candidates that another ranker places near the top.
    """

    query: int
    relevant: int
    irrelevant: np.ndarray


class TrainingOptions(NamedTuple):
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
    model: CrossEncoder, texts: Sequence[str], examples: Sequence[Example], options: TrainingOptions
) -> None:
    """Minimises -log of the softmax probability of the relevant report in each list.

    The trainer of sentence-transformers (``ListNetLoss``) has the same softmax, but takes fixed lists from a dataset:
    it does not draw other negatives in each epoch.

    Args:
        model: The cross-encoder, changed in place and left in training mode.
        texts: Texts by row.
        examples: Training queries.
        options: See ``TrainingOptions``.
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
    model: CrossEncoder, texts: Sequence[str], batch: Sequence[Example], negatives: int, rng: np.random.Generator
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
