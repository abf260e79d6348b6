"""A training step equals the plainest computation of it: every text alone, every matrix whole, every pair by itself."""

from collections.abc import Callable
from copy import deepcopy
from functools import partial

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.nn.functional import normalize

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TimeSplit, split_corpus
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.experiments.optimizers import adamw, constant
from gedbd.losses.cosine_embedding import CosineEmbeddingLoss
from gedbd.losses.supervised_contrastive import SupervisedContrastiveLoss
from gedbd.sampling.batches import BatchIndices
from gedbd.sampling.group_batches import GroupBatches, PKBatches
from gedbd.sampling.pair_batches import PairBatches
from gedbd.sampling.pairs import PairSampler
from gedbd.tasks.duplicates.duplicate_data import DuplicateDataModule
from gedbd.tasks.duplicates.duplicate_system import DuplicateSystem
from gedbd.tasks.duplicates.fusion import TextOnly, WeightedSum
from gedbd.tasks.duplicates.gcn import GraphBranch
from gedbd.tasks.duplicates.graph.dense import DenseAdjacency
from gedbd.text.tokens import tokenize

WORDS = ["mail", "folder", "crash", "search", "printer", "calendar", "reply", "theme", "update", "password"]
COUNT, MARGIN, LAMBDA, MAX_TOKENS = 60, 0.2, 0.6, 24
BATCHES = {
    "sampled": PairBatches(12, seed=0),
    "grouped": GroupBatches(12, 0, 0.25, 1.0, hard=0.5, neighbours=5),
    "clusters": PKBatches(12, 0, 0.25, 1.0, hard=0.5, neighbours=5, per_group=2),
}
TEMPERATURE = 0.2
LOSSES = {
    "pairs": CosineEmbeddingLoss(MARGIN),
    "contrastive": SupervisedContrastiveLoss(TEMPERATURE),
}


def assemble(
    batches: str, features: str | None, fused: bool = True, loss: str = "pairs"
) -> tuple[DuplicateDataModule, DuplicateSystem, pl.Trainer]:
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    titles = [" ".join(rng.choice(WORDS, rng.integers(1, 20))) for _ in range(COUNT)]
    dates = pd.date_range("2020-01-01", periods=COUNT, tz="UTC")
    reports = pd.DataFrame({"id": range(COUNT), "title": titles, "description": "", "created_at": dates})
    corpus, split = Corpus.of_table("toy", reports, np.arange(COUNT) % 20), TimeSplit()
    sizes = {"dim": 8, "max_tokens": MAX_TOKENS, "hidden": 16, "layers": 2, "dropout": 0.0, "seed": 0}
    loaded = load_tiny_encoder("tiny", "mean", **sizes)
    encoder, tokenizer = loaded.model, loaded.tokenizer
    title_vectors = normalize(torch.randn(COUNT, 4), dim=1)
    adjacency = DenseAdjacency(title_vectors, torch.ones(COUNT, dtype=torch.bool))
    pairs = PairSampler().sample(corpus, split).table.assign(score_frozen=0.0)
    tokens = tokenize(titles, tokenizer, MAX_TOKENS)
    data = DuplicateDataModule(corpus, tokens, split_corpus(split, corpus), pairs, BATCHES[batches])
    data.title_vectors = title_vectors
    data.remember(np.arange(COUNT), normalize(torch.randn(COUNT, 8), dim=1).numpy())
    branch = GraphBranch(adjacency, COUNT, 8, features) if features else None
    if branch:
        branch.node_features.write(torch.arange(COUNT), torch.randn(COUNT, 8))
    fusion = WeightedSum(LAMBDA) if features else TextOnly()
    optimizer = partial(adamw, lr=1e-3, head_lr=1e-2, weight_decay=0.01, fused=fused)
    system = DuplicateSystem(
        encoder, branch, fusion, LOSSES[loss], optimizer, partial(constant, warmup_steps=0), seed=0
    )
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = pl.Trainer(
        accelerator="cpu",
        max_epochs=1,
        num_sanity_val_steps=0,
        use_distributed_sampler=False,
        enable_model_summary=False,
        **quiet,
    )
    return data, system, trainer


def encode(system: DuplicateSystem, data: DuplicateDataModule, row: int) -> Tensor:
    """One text, padded to the most there may be, through Hugging Face's own attention."""
    backbone, ids = system.encoder.backbone, data.tokens.ids[data.tokens.starts[row] : data.tokens.starts[row + 1]]
    padded, mask = torch.full((1, MAX_TOKENS), data.tokens.pad_id), torch.zeros(1, MAX_TOKENS, dtype=torch.long)
    padded[0, : len(ids)], mask[0, : len(ids)] = torch.from_numpy(ids.astype(np.int64)), 1
    hidden = backbone(input_ids=padded, attention_mask=mask).last_hidden_state[0, : len(ids)]
    projection = system.encoder.projection
    return projection.weight @ hidden.mean(dim=0) + projection.bias


def naive_vectors(system: DuplicateSystem, data: DuplicateDataModule, step: BatchIndices) -> Callable[[int], Tensor]:
    """The vector of a report, encoded each time it is asked for."""
    x = None
    if system.branch is not None:
        rows = step.rows.tolist()
        x = torch.stack(
            [encode(system, data, row) if row in rows else system.branch.node_features.x[row] for row in range(COUNT)]
        )
        cosine = data.title_vectors @ data.title_vectors.T
        weight = (1 + cosine) / 2
        matrix = weight / (weight.sum(1)[:, None] * weight.sum(1)[None]).sqrt()
        for conv in (system.branch.conv1, system.branch.conv2):
            x = matrix @ (x @ conv.lin.weight.T) + conv.bias
            x = x.clamp(min=0) if conv is system.branch.conv1 else x

    def vector(row: int) -> Tensor:
        text = encode(system, data, row)
        return text if x is None else LAMBDA * text + (1 - LAMBDA) * x[row]

    return vector


def naive_loss(vector: Callable[[int], Tensor], step: BatchIndices) -> Tensor:
    """The mean of one loss a pair; the texts of each pair are encoded for that pair alone."""
    losses = []
    for pair, label in zip(step.pairs.tolist(), step.label.tolist(), strict=True):
        first, second = map(vector, pair)
        cosine = first @ second / (first.norm() * second.norm())
        losses.append(1 - cosine if label else (cosine - MARGIN).clamp(min=0))
    return torch.stack(losses).mean()


def naive_contrast(vector: Callable[[int], Tensor], step: BatchIndices, group: np.ndarray) -> Tensor:
    """Each report of the step against each other one, one after the other."""
    losses = []
    for one in step.rows:
        others = [row for row in step.rows if row != one]
        first, rest = vector(one), [vector(row) for row in others]
        similar = [(first @ second / (first.norm() * second.norm()) / TEMPERATURE).exp() for second in rest]
        mates = [value for row, value in zip(others, similar, strict=True) if group[row] == group[one]]
        if mates:
            losses.append(-sum((value / sum(similar)).log() for value in mates) / len(mates))
    return torch.stack(losses).mean()


@pytest.mark.parametrize("features", [None, "text", "learnable"])
@pytest.mark.parametrize(("batches", "loss"), [("sampled", "pairs"), ("grouped", "pairs"), ("clusters", "contrastive")])
@pytest.mark.quick_cases(5)
def test_loss_and_gradients_of_a_step(batches, loss, features):
    data, system, trainer = assemble(batches, features, loss=loss)
    plain = deepcopy(system)
    plain.encoder.backbone.set_attn_implementation("sdpa")
    step = next(iter(data.train_dataloader().sampler))
    batch = next(iter(data.train_dataloader()))
    vector = naive_vectors(plain, data, step)
    expected = naive_loss(vector, step) if loss == "pairs" else naive_contrast(vector, step, data.corpus.group)
    system.trainer, system.log = trainer, lambda *_, **__: None
    trainer.datamodule = data
    found = system.training_step(batch, 0)
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    assert 0 < step.label.mean() < 1
    found.backward()
    expected.backward()
    for (name, mine), theirs in zip(system.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-5, msg=name)
    assert system.encoder.projection.weight.grad.abs().max() > 1e-3


def test_a_fused_optimizer_gives_the_same_weights():
    trained = []
    for fused in (True, False):
        data, system, trainer = assemble("sampled", "learnable", fused)
        trainer.fit(system, data)
        assert trainer.optimizers[0].defaults["fused"] is fused
        trained.append(dict(system.state_dict()))
    fresh = assemble("sampled", "learnable")[1].state_dict()
    for key, value in trained[0].items():
        torch.testing.assert_close(trained[1][key], value, atol=1e-6, rtol=0, msg=key)
    assert not torch.equal(trained[0]["branch.node_features.x"], fresh["branch.node_features.x"])
