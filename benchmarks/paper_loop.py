"""The paper's training loop, written plainly: what every step of it does is what its authors' code does.

Each pair is two texts, taken from the table, tokenised and padded to full length in every step; each text is encoded as
often as pairs name it; the graph convolutions run over all reports. It is spared the N x N matrix: messages go through
the low-rank operator, which the authors do not have.
"""

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_embedding_loss
from torch.optim import AdamW
from torch_geometric.nn import GCNConv
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.duplicates.graph.adjacency import DenseAdjacency

PAIRS = 64


class PaperLoop:
    """Steps of 64 pairs.

    Args:
        backbone: The encoder.
        tokenizer: Its tokenizer.
        texts: All reports.
        pairs: ``(P, 2)`` rows.
        label: ``(P,)``.
        graph: The dense graph.
        max_tokens: Length that every text is cut or padded to.
    """

    def __init__(
        self,
        backbone: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        texts: list[str],
        pairs: np.ndarray,
        label: np.ndarray,
        graph: DenseAdjacency,
        max_tokens: int,
    ) -> None:
        self.backbone, self.tokenizer, self.texts = backbone.train(), tokenizer, texts
        self.pairs, self.label, self.graph, self.max_tokens = pairs, label, graph, max_tokens
        dim = backbone.config.hidden_size
        self.projection = nn.Linear(dim, dim)
        self.x = torch.zeros(len(texts), dim)
        self.conv1, self.conv2 = GCNConv(dim, dim, normalize=False), GCNConv(dim, dim, normalize=False)
        trained = nn.ModuleList([backbone, self.projection, self.conv1, self.conv2])
        self.optimizer = AdamW(trained.parameters(), lr=2e-5)
        self.order = np.random.default_rng(0).permutation(len(pairs))
        self.done = 0

    def __len__(self) -> int:
        return -(-len(self.pairs) // PAIRS)

    def step(self) -> None:
        """One step."""
        chosen = np.take(self.order, range(self.done, self.done + PAIRS), mode="wrap")
        self.done += PAIRS
        left, right = (self.encode(self.pairs[chosen, side]) for side in (0, 1))
        z_left, z_right = (self.fuse(z, self.pairs[chosen, side]) for side, z in enumerate((left, right)))
        target = torch.from_numpy(2 * self.label[chosen] - 1)
        cosine_embedding_loss(z_left, z_right, target).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def encode(self, rows: np.ndarray) -> Tensor:
        """One vector for each row, repeated or not."""
        texts = [self.texts[row] for row in rows]
        tokens = self.tokenizer(
            texts, padding="max_length", truncation=True, max_length=self.max_tokens, return_tensors="pt"
        )
        hidden = self.backbone(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"]).last_hidden_state
        weight = tokens["attention_mask"][:, :, None]
        vectors: Tensor = self.projection((hidden * weight).sum(1) / weight.sum(1))
        return vectors

    def fuse(self, z_text: Tensor, rows: np.ndarray) -> Tensor:
        """Half text, half graph: two convolutions over all reports."""
        index = torch.from_numpy(rows)
        x = self.x.index_put((index,), z_text)
        x = (self.graph(self.conv1.lin(x)) + self.conv1.bias).relu()
        x = self.graph(self.conv2.lin(x)) + self.conv2.bias
        fused: Tensor = 0.5 * z_text + 0.5 * x[index]
        return fused
