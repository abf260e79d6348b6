"""One side of the model: an encoder, and a projector of what it has read."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from gedbd.localization.code_encoder.code_encoder import attention_mask
from gedbd.localization.code_encoder.code_inputs import CodeBatch, CodeEdges
from gedbd.localization.training.hmcbl_settings import HmcblSettings
from gedbd.localization.training.sides import Side


class GatheredRows(NamedTuple):
    """Rows of all processes.

    Attributes:
        rows: ``(M, D)`` those of the first process, of the second and so on.
        start: Where this process's rows begin.
    """

    rows: Tensor
    start: int


class GatheredBatchNorm(nn.BatchNorm1d):
    """Batch normalization by the statistics of the rows of all processes, on any device.

    PyTorch's SyncBatchNorm needs a GPU.

    Attributes:
        exchange: Gives the rows of all processes, with gradients; None takes those of this process.
    """

    exchange: Callable[[Tensor], GatheredRows] | None = None

    def forward(self, input: Tensor) -> Tensor:
        """``(M, D) -> (M, D)``."""
        if self.exchange is None or not self.training:
            return super().forward(input)
        gathered = self.exchange(input)
        normalized = super().forward(gathered.rows)
        return normalized[gathered.start : gathered.start + len(input)]


class Projector(nn.Module):
    """W2 norm(phi(W1 x)): linear, LeakyReLU, batch normalization, linear.

    Args:
        width: Size of x.
        hidden: Units between.
        dim: Size of the result.
    """

    def __init__(self, width: int, hidden: int, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.activation = nn.LeakyReLU()
        self.norm = GatheredBatchNorm(hidden)
        self.second = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """``(M, width) -> (M, dim)``, float32 whatever autocast says: the layers are small."""
        with torch.autocast(x.device.type, enabled=False):
            projected: Tensor = self.second(self.norm(self.activation(self.first(x.float()))))
        return projected


class TokenFeatures(NamedTuple):
    """What an encoder makes of B texts.

    Attributes:
        tokens: ``(B, L, F)`` the vectors of the last layers of each token, side by side.
        is_text: ``(B, L)`` bool, which tokens are of the comment or the code; of an empty text, the first token.
    """

    tokens: Tensor
    is_text: Tensor


class Tower(nn.Module):
    """Encoder and projector of one side.

    Args:
        side: The encoder; its weights are trained in place.
        settings: See ``HmcblSettings``.

    Raises:
        ValueError: If the encoder has fewer layers than are to be concatenated.
    """

    def __init__(self, side: Side, settings: HmcblSettings) -> None:
        super().__init__()
        layers = int(side.backbone.config.num_hidden_layers)
        if settings.num_layers > layers:
            raise ValueError(
                f"task.model.settings.num_layers={settings.num_layers}, but an encoder has only {layers} layers"
            )
        # PyTorch's attention takes a bool mask as it is; the "eager" one of transformers would add it as numbers.
        side.backbone.set_attn_implementation("sdpa")
        self.backbone = side.backbone
        self.reads_code = side.parts is not None
        self.num_layers = settings.num_layers
        self.pooling = settings.pooling
        self.by_tokens = settings.by_tokens
        self.is_trained = settings.train_encoders
        if not self.is_trained:
            side.backbone.requires_grad_(False)
        self._kept: dict[bytes, Tensor] = {}  # features of texts by their tokens, while the encoder is not trained
        self.width = settings.num_layers * int(side.backbone.config.hidden_size)
        self.projector = Projector(self.width, settings.projector_hidden, settings.dim)

    def read(self, batch: CodeBatch) -> TokenFeatures:
        """The vectors of all tokens; an encoder of code reads the graph by its attention mask."""
        mask = attention_mask(batch) if self.reads_code else batch.is_token[:, None, None]
        found = self.backbone(input_ids=batch.input_ids, attention_mask=mask, output_hidden_states=True)
        tokens = torch.cat([layer.float() for layer in found.hidden_states[-self.num_layers :]], dim=-1)
        is_text = batch.inside("comment") | batch.inside("code")
        is_text[:, 0] |= ~is_text.any(1)
        return TokenFeatures(tokens, is_text)

    def pool(self, features: TokenFeatures) -> Tensor:
        """One vector for each text, ``(B, F)``.

        Types and roles are the same tokens in every input with a graph, so that the mean leaves them, the nodes and
        the markers out. Tokens of code have read their nodes.
        """
        if self.pooling == "cls":
            return features.tokens[:, 0]
        weight = features.is_text[..., None].float()
        return (features.tokens * weight).sum(1) / weight.sum(1)

    def project_tokens(self, features: TokenFeatures) -> TokenFeatures:
        """The projected tokens of the texts, of length 1, ``(B, L, dim)``; others are zeros."""
        projected = normalize(self.projector(features.tokens[features.is_text]), dim=1)
        tokens = projected.new_zeros(*features.is_text.shape, projected.shape[1])
        tokens[features.is_text] = projected
        return TokenFeatures(tokens, features.is_text)

    def embed(self, batch: CodeBatch) -> Tensor:
        """The projected vectors of a batch, ``(B, dim)`` float32, of any length."""
        if self.by_tokens:
            return self.pool(self.project_tokens(self.read(batch)))
        projected: Tensor = self.projector(self(batch))
        return projected

    def forward(self, batch: CodeBatch) -> Tensor:
        """The pooled features of a batch, ``(B, F)`` float32."""
        return self.pool(self.read(batch)) if self.is_trained else self._recall(batch)

    @torch.no_grad()
    def _recall(self, batch: CodeBatch) -> Tensor:
        """The features by an encoder that is not trained, which reads each text once, alone and without dropout.

        Alone, so that the features do not depend on the batch, not even by rounding.
        """
        self.backbone.train(False)
        found = []
        for row, length in enumerate(batch.lengths.tolist()):
            key = batch.input_ids[row, :length].cpu().numpy().tobytes()
            if key not in self._kept:
                self._kept[key] = self.pool(self.read(only_row(batch, row)))[0]
            found.append(self._kept[key])
        return torch.stack(found)


def only_row(batch: CodeBatch, row: int) -> CodeBatch:
    """One input of a batch without padding."""
    own = slice(row, row + 1)
    ids = batch.input_ids[own, : int(batch.lengths[row])]
    edges = [kind[:, kind[0] == row].clone() for kind in batch.edges]
    for kind in edges:
        kind[0] = 0
    return CodeBatch(batch.n_id[own], ids, batch.lengths[own], batch.blocks[own], CodeEdges(*edges))
