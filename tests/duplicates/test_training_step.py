"""A training step equals its plainest computation: every text alone, every matrix whole, every pair by itself."""

from collections.abc import Callable
from copy import deepcopy

import numpy as np
import pytest
import torch
from run_commands import composed
from small_duplicates import COUNT, MAX_TOKENS, assemble, training_step
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from gedbd.duplicates.bug_reports import BugReports
from gedbd.duplicates.duplicate_detector import DuplicateDetector
from gedbd.duplicates.graph.adjacency import DenseAdjacency
from gedbd.duplicates.graph.gcn import GraphBranch
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


def encode(system: DuplicateDetector, data: BugReports, row: int) -> Tensor:
    """One text, padded to the most there may be, through Hugging Face's own attention."""
    backbone, ids = system.encoder.backbone, data.tokens.ids[data.tokens.starts[row] : data.tokens.starts[row + 1]]
    padded, mask = torch.full((1, MAX_TOKENS), data.tokens.pad_id), torch.zeros(1, MAX_TOKENS, dtype=torch.long)
    padded[0, : len(ids)], mask[0, : len(ids)] = torch.from_numpy(ids.astype(np.int64)), 1
    hidden = backbone(input_ids=padded, attention_mask=mask).last_hidden_state[0, : len(ids)]
    projection = system.encoder.projection
    return projection.weight @ hidden.mean(dim=0) + projection.bias


def naive_vectors(system: DuplicateDetector, data: BugReports, step: BatchIndices) -> Callable[[int], Tensor]:
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


class WrittenOut(nn.Module):
    """Node embeddings in which the batch's text vectors are written without gradient, and two layers over all edges."""

    def __init__(self, branch: GraphBranch) -> None:
        super().__init__()
        self.embedding = nn.Embedding.from_pretrained(branch.node_features.x.detach().clone(), freeze=False)
        size = self.embedding.embedding_dim
        # Normalised by PyG, which also adds the loops; every two reports are connected in both directions.
        self.conv1, self.conv2 = GCNConv(size, size, bias=False), GCNConv(size, size, bias=False)
        for mine, theirs in ((self.conv1, branch.conv1), (self.conv2, branch.conv2)):
            mine.load_state_dict(theirs.state_dict())
        pairs = [(first, second) for first in range(COUNT) for second in range(COUNT) if first != second]
        self.edge_index = torch.tensor(pairs).T

    def forward(self, rows: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.embedding.weight[rows] = text.detach()
        hidden = self.conv1(self.embedding.weight, self.edge_index).relu()
        return self.conv2(hidden, self.edge_index)[rows]


def test_loss_gradients_and_written_rows_of_a_step():
    paper_code = composed("train", "experiment=paper_code")
    graph = paper_code.graph
    assert (paper_code.fusion.lambda_text, paper_code.loss.margin, graph.rule.power) == (0.5, 0.5, 0)
    loss = CosineEmbeddingLoss(paper_code.loss.margin)
    data, system = assemble(graph.features, loss=loss, lambda_text=paper_code.fusion.lambda_text)
    adjacency = DenseAdjacency(data.title_vectors, torch.ones(COUNT, dtype=torch.bool), graph.rule.power)
    system.branch = GraphBranch(adjacency, COUNT, 8, graph.features, bias=graph.bias)
    reference = WrittenOut(system.branch)
    encoder = deepcopy(system.encoder)
    batch = next(iter(data.train_dataloader()))

    found = training_step(data, system)
    text = encoder(batch.input_ids, batch.attention_mask)
    z = 0.5 * text + 0.5 * reference(batch.n_id, text)
    first, second = z[batch.edge_label_index[0]], z[batch.edge_label_index[1]]
    expected = nn.CosineEmbeddingLoss(margin=0.5)(first, second, 2 * batch.edge_label - 1)

    assert found.item() == pytest.approx(expected.item(), abs=1e-6)
    found.backward()
    expected.backward()
    close = {"atol": 1e-6, "rtol": 1e-4}
    torch.testing.assert_close(system.branch.node_features.x, reference.embedding.weight, **close)
    torch.testing.assert_close(system.branch.node_features.x.grad, reference.embedding.weight.grad, **close)
    for mine, theirs in ((system.branch, reference), (system.encoder, encoder)):
        expected_gradients = {name: weight.grad for name, weight in theirs.named_parameters()}
        for name, weight in mine.named_parameters():
            if name in expected_gradients:
                torch.testing.assert_close(weight.grad, expected_gradients[name], msg=name, **close)
    assert system.branch.conv1.lin.weight.grad.abs().max() > 1e-4
