"""A small model of duplicate detection on sixty reports of random words, its data, and small graphs."""

from functools import partial

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn.functional import normalize

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.bug_reports import BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.graph.adjacency import DenseAdjacency, SparseAdjacency
from gedbd.duplicates.graph.gcn import GraphBranch, TextOnly, WeightedSum
from gedbd.duplicates.graph.title_graph import TitleGraph
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.experiments.optimizers import adamw, constant
from gedbd.experiments.prepare import PreparedData
from gedbd.losses import CosineEmbeddingLoss
from gedbd.sampling.batches import PairBatches
from gedbd.sampling.pairs import PairSampler
from gedbd.sampling.splits import TimeSplit, split_corpus
from gedbd.text.tokens import tokenize

WORDS = ["mail", "folder", "crash", "search", "printer", "calendar", "reply", "theme", "update", "password"]
COUNT, MAX_TOKENS = 60, 24
OPTIMIZER = partial(adamw, lr=1e-3, head_lr=1e-2, weight_decay=0.01, fused=True)


def assemble(features="text", *, batches=None, loss=None, optimizer=OPTIMIZER, lambda_text=0.5, dropout=0.0):
    """Data with ``title_vectors``, and a model; without features it has no graph."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    titles = [" ".join(rng.choice(WORDS, rng.integers(1, 20))) for _ in range(COUNT)]
    dates = pd.date_range("2020-01-01", periods=COUNT, tz="UTC")
    reports = pd.DataFrame({"id": range(COUNT), "title": titles, "description": "", "created_at": dates})
    corpus, split = Corpus.of_table("toy", reports, np.arange(COUNT) % 20), TimeSplit()
    sizes = {"dim": 8, "max_tokens": MAX_TOKENS, "hidden": 16, "layers": 2, "seed": 0}
    encoder = load_tiny_encoder("tiny", "mean", dropout=dropout, **sizes)
    pairs = PairSampler().sample(corpus, split).table.assign(score_frozen=0.0)
    prepared = PreparedData(corpus, split_corpus(split, corpus), corpus.group, pairs, {})
    data = BugReports(prepared, encoder, batches=batches or PairBatches(8, 0))
    data.tokens = tokenize(titles, encoder.tokenizer, MAX_TOKENS)
    data.title_vectors = normalize(torch.randn(COUNT, 4), dim=1)
    data.remember(np.arange(COUNT), normalize(torch.randn(COUNT, 8), dim=1).numpy())
    model = DuplicateDetector(
        encoder,
        fusion=WeightedSum(lambda_text) if features else TextOnly(),
        loss=loss or CosineEmbeddingLoss(0.5),
        optimizer=optimizer,
        scheduler=partial(constant, warmup_steps=0),
    )
    if features:
        adjacency = DenseAdjacency(data.title_vectors, torch.ones(COUNT, dtype=torch.bool))
        data.title_graph = TitleGraph(adjacency)
        model.branch = GraphBranch(adjacency, COUNT, 8, features)
        model.branch.node_features.write(torch.arange(COUNT), torch.randn(COUNT, 8))
    data.model = model
    return data, model


def make_trainer(**options) -> pl.Trainer:
    """A quiet trainer of one epoch."""
    names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
    quiet = dict.fromkeys(names, False)
    return pl.Trainer(accelerator="cpu", max_epochs=1, num_sanity_val_steps=0, **quiet, **options)


def training_step(data: BugReports, system: DuplicateDetector) -> torch.Tensor:
    """The loss of the first batch, without a training."""
    system.trainer = make_trainer()
    system.trainer.datamodule = data
    system.log = lambda *_, **__: None
    batch = next(iter(data.train_dataloader()))
    return system.training_step(type(batch)(*(value.to(system.device) for value in batch)), 0)


def unit_rows(count: int, dim: int = 4) -> Tensor:
    return normalize(torch.randn(count, dim, generator=torch.Generator().manual_seed(0)), dim=1)


def everyone(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.bool)


def normalised(weight: Tensor) -> Tensor:
    """D^-1/2 K D^-1/2 of K, whose rows are targets."""
    scale = weight.sum(dim=1).rsqrt()
    return scale[:, None] * weight * scale


def dense_matrix(vectors: Tensor, inside: Tensor, power: int) -> Tensor:
    double = vectors.double()
    weight = ((1 + double @ double.T) / 2) ** power
    weight[:, ~inside] = 0
    weight[~inside, ~inside] = 1
    return normalised(weight)


def edges_of(adjacency: SparseAdjacency) -> dict[tuple[int, int], float]:
    """Raw edges as {(source, target): weight}; fails if an edge occurs twice."""
    edges = dict(zip(zip(*adjacency.raw_index.tolist(), strict=True), adjacency.raw_weight.tolist(), strict=True))
    assert len(edges) == adjacency.raw_index.shape[1]
    return edges


def sparse_matrix(adjacency: SparseAdjacency, count: int) -> Tensor:
    weight = torch.eye(count, dtype=torch.float64)
    for (source, target), value in edges_of(adjacency).items():
        weight[target, source] += value
    return normalised(weight)
