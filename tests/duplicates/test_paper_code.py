"""A step of ``experiment=paper_code`` equals that model written out with PyTorch Geometric's own layers and edges."""

from copy import deepcopy

import pytest
import torch
from hydra import compose, initialize_config_dir
from small_duplicates import COUNT, assemble, training_step
from torch import nn
from torch_geometric.nn import GCNConv

from gedbd.duplicates.adjacency import DenseAdjacency
from gedbd.duplicates.gcn import GraphBranch
from gedbd.io.locations import CONF_DIR
from gedbd.losses import CosineEmbeddingLoss


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


@pytest.fixture
def options():
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        return compose("train", ["experiment=paper_code"])


def test_loss_gradients_and_written_rows_of_a_step(options):
    graph = options.graph
    assert (options.fusion.lambda_text, options.loss.margin, graph.rule.power) == (0.5, 0.5, 0)
    loss = CosineEmbeddingLoss(options.loss.margin)
    data, system = assemble(graph.features, loss=loss, lambda_text=options.fusion.lambda_text)
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
