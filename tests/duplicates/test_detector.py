"""The training task on its own: what reaches the encoder, what evaluation leaves alone, what batches may not change."""

from functools import partial

import numpy as np
import pytest
import torch
from small_duplicates import OPTIMIZER, assemble, make_trainer

from gedbd.experiments.optimizers import constant
from gedbd.sampling.batches import PairBatches


def snapshot(system) -> dict[str, torch.Tensor]:
    return {key: value.clone() for key, value in system.state_dict().items()}


def scores_of(data, system):
    make_trainer().test(system, data, verbose=False)
    return system.scores["test"]


@pytest.mark.parametrize("features", ["text", "learnable"])
def test_training_changes_and_evaluation_does_not(features):
    data, system = assemble(features, dropout=0.1)
    before = snapshot(system)
    make_trainer().fit(system, data)
    trained = snapshot(system)
    assert {key for key in before if not torch.equal(before[key], trained[key])} >= {
        "encoder.backbone.embeddings.word_embeddings.weight",
        "branch.conv1.lin.weight",
        "branch.node_features.x",
        "threshold",
    }
    make_trainer().test(system, data, verbose=False)
    make_trainer().validate(system, data, verbose=False)
    assert all(torch.equal(value, system.state_dict()[key]) for key, value in trained.items())


def test_scores_do_not_depend_on_batches_and_are_those_of_the_text_without_a_graph():
    first, second = (scores_of(*assemble(batches=PairBatches(size, 0)))["score"] for size in (2, 64))
    np.testing.assert_allclose(first, second, atol=1e-6)
    pairs = scores_of(*assemble(None))
    np.testing.assert_allclose(pairs["score"], pairs["score_text"], atol=1e-6)


def test_test_scores_are_cosines_of_fused_vectors():
    data, system = assemble()
    pairs = scores_of(data, system)
    rows = np.unique(data.pairs[data.pairs["part"] != "train"][["earlier", "later"]])
    with torch.no_grad():
        system.eval()
        z_text = system.encoder(*data.tokens.batch(rows))
        x = system.branch.node_features.x.clone()
        x[rows] = z_text
        adjacency, conv1, conv2 = system.branch.adjacency, system.branch.conv1, system.branch.conv2
        hidden = (adjacency(x @ conv1.lin.weight.T) + conv1.bias).relu()
        z = z_text + (adjacency(hidden @ conv2.lin.weight.T) + conv2.bias)[rows]
    first, second = (z[np.searchsorted(rows, pairs[side])] for side in ("earlier", "later"))
    np.testing.assert_allclose(pairs["score"], torch.cosine_similarity(first, second), atol=1e-5)


def test_epoch_metrics_follow_from_the_pairs():
    data, system = assemble()
    trainer = make_trainer(limit_train_batches=1)
    trainer.fit(system, data)
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    batch = next(iter(data.train_dataloader()))
    _, fresh = assemble()
    fresh.trainer = trainer
    with torch.no_grad():
        z = fresh(batch.n_id, fresh.encoder(batch.input_ids, batch.attention_mask))
    cosine = (z[batch.edge_label_index[0]] * z[batch.edge_label_index[1]]).sum(1)
    assert logged["train/loss"] == pytest.approx(float(fresh.loss(z, batch.labels)), abs=1e-6)
    correct = ((cosine >= logged["val/threshold"]).long() == batch.edge_label).float().mean()
    assert logged["train/accuracy"] == pytest.approx(float(correct))


def test_learning_rates_rise_and_differ():
    _, system = assemble(optimizer=partial(OPTIMIZER, lr=1e-5, head_lr=1e-3))
    system.make_scheduler = partial(constant, warmup_steps=3)
    made = system.configure_optimizers()
    rates = []
    for _ in range(5):
        rates.append([group["lr"] for group in made["optimizer"].param_groups])
        made["optimizer"].step()
        made["lr_scheduler"]["scheduler"].step()
    np.testing.assert_allclose(rates, [[1e-5 * k, 1e-3 * k] for k in (0.25, 0.5, 0.75, 1, 1)])
