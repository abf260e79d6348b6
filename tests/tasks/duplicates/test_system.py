"""The training task on its own: what reaches the encoder, what evaluation leaves alone, what batches may not change."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import TimeSplit, split_corpus
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.experiments.optimizers import adamw, constant
from gedbd.losses.cosine_embedding import CosineEmbeddingLoss
from gedbd.sampling.pair_batches import PairBatches
from gedbd.sampling.pairs import PairSampler
from gedbd.tasks.duplicates.duplicate_data import DuplicateDataModule
from gedbd.tasks.duplicates.duplicate_system import DuplicateSystem
from gedbd.tasks.duplicates.fusion import TextOnly, WeightedSum
from gedbd.tasks.duplicates.gcn import GraphBranch
from gedbd.tasks.duplicates.graph.dense import DenseAdjacency
from gedbd.text.tokens import tokenize

WORDS = ["mail", "folder", "crash", "search", "printer", "calendar", "reply", "theme", "update", "password"]
OPTIMIZER = partial(adamw, lr=1e-3, head_lr=1e-3, weight_decay=0.0, fused=True)


def corpus(count: int = 60) -> Corpus:
    rng = np.random.default_rng(0)
    titles = [" ".join(rng.choice(WORDS, 4)) for _ in range(count)]
    dates = pd.date_range("2020-01-01", periods=count, tz="UTC")
    reports = pd.DataFrame({"id": range(count), "title": titles, "description": "", "created_at": dates})
    return Corpus.of_table("toy", reports, np.arange(count) % 20)


def assemble(
    features: str = "text", batch_size: int = 8, lambda_text: float = 0.5, graph: bool = True, dropout: float = 0.1
):
    torch.manual_seed(0)
    reports, split = corpus(), TimeSplit()
    sizes = {"pooling": "mean", "dim": 8, "max_tokens": 16, "hidden": 16, "layers": 1, "seed": 0}
    loaded = load_tiny_encoder("tiny", dropout=dropout, **sizes)
    encoder, tokenizer = loaded.model, loaded.tokenizer
    tokens = tokenize(list(reports.reports["title"]), tokenizer, 16)
    vectors = torch.nn.functional.normalize(torch.randn(len(reports), 4), dim=1)
    adjacency = DenseAdjacency(vectors, torch.ones(len(reports), dtype=torch.bool))
    pairs = PairSampler().sample(reports, split).table.assign(score_frozen=0.0)
    data = DuplicateDataModule(reports, tokens, split_corpus(split, reports), pairs, PairBatches(batch_size, 0))
    branch = GraphBranch(adjacency, len(reports), 8, features) if graph else None
    fusion = WeightedSum(lambda_text) if graph else TextOnly()
    system = DuplicateSystem(
        encoder, branch, fusion, CosineEmbeddingLoss(0.5), OPTIMIZER, partial(constant, warmup_steps=0), 0
    )
    return data, system


def trainer(**options) -> pl.Trainer:
    quiet = {
        "logger": False,
        "enable_checkpointing": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
    }
    return pl.Trainer(
        accelerator="cpu", max_epochs=1, num_sanity_val_steps=0, use_distributed_sampler=False, **quiet, **options
    )


def snapshot(system: DuplicateSystem) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in system.state_dict().items()}


@pytest.mark.parametrize("features", ["text", "learnable"])
def test_training_changes_and_evaluation_does_not(features):
    data, system = assemble(features)
    before = snapshot(system)
    trainer().fit(system, data)
    trained = snapshot(system)
    assert {key for key in before if not torch.equal(before[key], trained[key])} >= {
        "encoder.backbone.embeddings.word_embeddings.weight",
        "branch.conv1.lin.weight",
        "branch.node_features.x",
        "threshold",
    }
    trainer().test(system, data, verbose=False)
    trainer().validate(system, data, verbose=False)
    assert all(torch.equal(value, system.state_dict()[key]) for key, value in trained.items())


def test_gradient_reaches_the_encoder_through_the_graph_alone():
    data, system = assemble(lambda_text=0.0)
    batch = next(iter(data.train_dataloader()))
    system.trainer = trainer()
    z = system(batch.n_id, system.encoder(batch.input_ids, batch.attention_mask))
    system.loss(z, batch.labels).backward()
    gradient = system.encoder.backbone.embeddings.word_embeddings.weight.grad
    assert gradient.abs().sum() > 0


def test_scores_do_not_depend_on_batches():
    scores = []
    for batch_size in (2, 64):
        data, system = assemble(batch_size=batch_size)
        trainer().test(system, data, verbose=False)
        scores.append(system.scores["test"]["score"].to_numpy())
    np.testing.assert_allclose(scores[0], scores[1], atol=1e-6)


def test_test_scores_are_cosines_of_fused_vectors():
    data, system = assemble()
    trainer().test(system, data, verbose=False)
    pairs = system.scores["test"]
    rows = np.unique(data.pairs[data.pairs["part"] != "train"][["earlier", "later"]])
    with torch.no_grad():
        system.eval()
        z_text = system.encoder(*data.tokens.batch(rows))
        x = system.branch.node_features.x.clone()
        x[rows] = z_text
        adjacency, conv1, conv2 = system.branch.adjacency, system.branch.conv1, system.branch.conv2
        hidden = (adjacency(x @ conv1.lin.weight.T) + conv1.bias).relu()
        z = z_text + (adjacency(hidden @ conv2.lin.weight.T) + conv2.bias)[rows]
    place = {row: number for number, row in enumerate(rows)}
    first, second = (z[[place[row] for row in pairs[side]]] for side in ("earlier", "later"))
    expected = torch.cosine_similarity(first, second)
    np.testing.assert_allclose(pairs["score"], expected, atol=1e-5)


def test_node_features_keep_the_last_text_vectors():
    data, system = assemble(dropout=0.0)
    system.trainer = trainer()
    system.trainer.datamodule = data
    batch = next(iter(data.train_dataloader()))
    system.log = lambda *_, **__: None
    system.training_step(batch, 0)
    z_text = system.encoder(batch.input_ids, batch.attention_mask)
    torch.testing.assert_close(system.branch.node_features.x[batch.n_id], z_text.detach())


def test_epoch_metrics_follow_from_the_pairs():
    data, system = assemble(dropout=0.0)
    run = trainer(limit_train_batches=1)
    run.fit(system, data)
    logged = {name: float(value) for name, value in run.callback_metrics.items()}
    batch = next(iter(data.train_dataloader()))
    _, fresh = assemble(dropout=0.0)
    fresh.trainer = run
    z = fresh(batch.n_id, fresh.encoder(batch.input_ids, batch.attention_mask))
    cosine = (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(1)
    assert logged["train/loss"] == pytest.approx(float(fresh.loss(z, batch.labels)), abs=1e-6)
    correct = ((cosine >= logged["val/threshold"]).long() == batch.edge_label).float().mean()
    assert logged["train/accuracy"] == pytest.approx(float(correct))


def test_learning_rates_rise_and_differ():
    _, system = assemble()
    system.make_optimizer = partial(OPTIMIZER, lr=1e-5)
    system.make_scheduler = partial(constant, warmup_steps=3)
    made = system.configure_optimizers()
    rates = []
    for _ in range(5):
        rates.append([group["lr"] for group in made["optimizer"].param_groups])
        made["optimizer"].step()
        made["lr_scheduler"]["scheduler"].step()
    np.testing.assert_allclose(rates, [[1e-5 * k, 1e-3 * k] for k in (0.25, 0.5, 0.75, 1, 1)])


def test_without_a_graph_the_text_branch_is_the_model():
    data, system = assemble(graph=False)
    trainer().test(system, data, verbose=False)
    pairs = system.scores["test"]
    np.testing.assert_allclose(pairs["score"], pairs["score_text"], atol=1e-6)
