"""A training step equals the plainest computation of it: every text alone, every matrix whole, every pair by itself."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch
from small_duplicates import COUNT, MAX_TOKENS, assemble, training_step
from torch import Tensor

from gedbd.duplicates.duplicate_data import DuplicateDataModule
from gedbd.duplicates.duplicate_system import DuplicateSystem
from gedbd.losses import CosineEmbeddingLoss, SupervisedContrastiveLoss
from gedbd.sampling.batches import BatchIndices, PairBatches
from gedbd.sampling.group_batches import GroupBatches, PKBatches

MARGIN, LAMBDA, TEMPERATURE = 0.2, 0.6, 0.2
BATCHES = {
    "sampled": PairBatches(12, seed=0),
    "grouped": GroupBatches(12, 0, 0.25, 1.0, hard=0.5, neighbours=5),
    "clusters": PKBatches(12, 0, 0.25, 1.0, hard=0.5, neighbours=5, per_group=2),
}
LOSSES = {"pairs": CosineEmbeddingLoss(MARGIN), "contrastive": SupervisedContrastiveLoss(TEMPERATURE)}


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
    data, system = assemble(features, batches=BATCHES[batches], loss=LOSSES[loss], lambda_text=LAMBDA)
    plain = deepcopy(system)
    plain.encoder.backbone.set_attn_implementation("sdpa")
    step = next(iter(data.train_dataloader().sampler))
    vector = naive_vectors(plain, data, step)
    expected = naive_loss(vector, step) if loss == "pairs" else naive_contrast(vector, step, data.corpus.group)
    found = training_step(data, system)
    assert found.item() == pytest.approx(expected.item(), abs=1e-5)
    assert 0 < step.label.mean() < 1
    found.backward()
    expected.backward()
    for (name, mine), theirs in zip(system.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-5, msg=name)
    assert system.encoder.projection.weight.grad.abs().max() > 1e-3
