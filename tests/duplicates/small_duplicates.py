"""A small model of duplicate detection on sixty reports of random words, and its data."""

from functools import partial

import numpy as np
import pandas as pd
import pytorch_lightning as pl
import torch
from torch.nn.functional import normalize

from gedbd.corpora.corpus import Corpus
from gedbd.duplicates.duplicate_data import DuplicateDataModule
from gedbd.duplicates.duplicate_system import DuplicateSystem
from gedbd.duplicates.graph.adjacency import DenseAdjacency
from gedbd.duplicates.graph.gcn import GraphBranch, TextOnly, WeightedSum
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.experiments.optimizers import adamw, constant
from gedbd.losses import CosineEmbeddingLoss
from gedbd.sampling.batches import PairBatches
from gedbd.sampling.pairs import PairSampler
from gedbd.sampling.splits import TimeSplit, split_corpus
from gedbd.text.tokens import tokenize

WORDS = ["mail", "folder", "crash", "search", "printer", "calendar", "reply", "theme", "update", "password"]
COUNT, MAX_TOKENS = 60, 24
OPTIMIZER = partial(adamw, lr=1e-3, head_lr=1e-2, weight_decay=0.01, fused=True)


def assemble(features="text", *, batches=None, loss=None, optimizer=OPTIMIZER, lambda_text=0.5, dropout=0.0):
    """Data with ``title_vectors``, and a system; without features it has no graph."""
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    titles = [" ".join(rng.choice(WORDS, rng.integers(1, 20))) for _ in range(COUNT)]
    dates = pd.date_range("2020-01-01", periods=COUNT, tz="UTC")
    reports = pd.DataFrame({"id": range(COUNT), "title": titles, "description": "", "created_at": dates})
    corpus, split = Corpus.of_table("toy", reports, np.arange(COUNT) % 20), TimeSplit()
    sizes = {"dim": 8, "max_tokens": MAX_TOKENS, "hidden": 16, "layers": 2, "seed": 0}
    encoder = load_tiny_encoder("tiny", "mean", dropout=dropout, **sizes)
    pairs = PairSampler().sample(corpus, split).table.assign(score_frozen=0.0)
    tokens = tokenize(titles, encoder.tokenizer, MAX_TOKENS)
    data = DuplicateDataModule(corpus, tokens, split_corpus(split, corpus), pairs, batches or PairBatches(8, 0))
    data.title_vectors = normalize(torch.randn(COUNT, 4), dim=1)
    data.remember(np.arange(COUNT), normalize(torch.randn(COUNT, 8), dim=1).numpy())
    branch = None
    if features:
        adjacency = DenseAdjacency(data.title_vectors, torch.ones(COUNT, dtype=torch.bool))
        branch = GraphBranch(adjacency, COUNT, 8, features)
        branch.node_features.write(torch.arange(COUNT), torch.randn(COUNT, 8))
    fusion = WeightedSum(lambda_text) if features else TextOnly()
    schedule = optimizer, partial(constant, warmup_steps=0)
    return data, DuplicateSystem(encoder.model, branch, fusion, loss or CosineEmbeddingLoss(0.5), *schedule, 0)


def make_trainer(**options) -> pl.Trainer:
    """A quiet trainer of one epoch."""
    names = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary", "use_distributed_sampler")
    quiet = dict.fromkeys(names, False)
    return pl.Trainer(accelerator="cpu", max_epochs=1, num_sanity_val_steps=0, **quiet, **options)


def training_step(data: DuplicateDataModule, system: DuplicateSystem) -> torch.Tensor:
    """The loss of the first batch, without a training."""
    system.trainer = make_trainer()
    system.trainer.datamodule = data
    system.log = lambda *_, **__: None
    batch = next(iter(data.train_dataloader()))
    return system.training_step(type(batch)(*(value.to(system.device) for value in batch)), 0)
