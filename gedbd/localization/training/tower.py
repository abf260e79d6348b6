"""Encoder and projector of one side of HMCBL, its settings, and the encoding of many texts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from lightning_fabric.utilities import move_data_to_device
from torch import Tensor, nn
from torch.nn.functional import normalize

from gedbd.io.console import track
from gedbd.localization.code_encoder.code_encoder import attention_mask
from gedbd.localization.code_encoder.code_inputs import CodeBatch, CodeEdges, collate
from gedbd.localization.training.change_inputs import Inputs, Side
from gedbd.text.tokens import split_by_tokens, token_budget

LEVELS = ("feature", "model", "bank")
POOLINGS = ("mean", "cls")
SIMILARITIES = ("cosine", "max_sim")


@dataclass(frozen=True)
class HmcblSettings:
    """The model and the loss.

    Source: a talk on "Pre-training Code Representation with Semantic Flow Graph for Effective Bug Localization" (2023).
    ``num_layers``, ``dim``, ``temperature``, ``momentum`` and ``bank_size`` are from its authors' code. Raises
    ValueError if a choice is unknown or incompatible with another one, or nothing would be trained.
    """

    num_layers: int = 4  # number of last layers of an encoder whose token vectors are concatenated
    # ``mean`` of the tokens of the text, or ``cls``, the first token; the talk does not specify it
    pooling: str = "mean"
    dim: int = 128  # size of projected vectors
    projector_hidden: int = 512  # size of the projector's hidden layer
    temperature: float = 0.07  # divisor of the cosines
    # share of the old weights that a momentum twin keeps in a step; with 0 it equals the encoder
    momentum: float = 0.999
    bank_size: int = 2048  # number of keys of a memory bank
    feature_level: float = 1.0  # weight of the loss of concatenated features; 0 turns it off
    model_level: float = 1.0  # weight of the loss of projected vectors; 0 turns it off
    bank_level: float = 1.0  # weight of the loss against the memory banks; 0 turns off banks and momentum twins
    # similarity of a report and a change at the feature and model levels: ``cosine`` of their pooled vectors, or
    # ``max_sim`` of their tokens, as in the authors' code. ``max_sim`` projects each token; the vector of a text, at
    # the bank level and in rankings, is the mean of its normalized projected tokens
    similarity: str = "cosine"
    # whether the feature and model levels include the direction from changes to reports; the bank level always does
    both_directions: bool = True
    # whether keys of positives are added to the memory banks too; otherwise only those of negatives
    bank_positives: bool = True
    # whether the encoders are trained; otherwise only the projectors are, without the feature level, and each text is
    # encoded once
    train_encoders: bool = True

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise ValueError(f"task.model.settings.pooling={self.pooling} is unknown: choose {' or '.join(POOLINGS)}")
        if self.similarity not in SIMILARITIES:
            raise ValueError(
                f"task.model.settings.similarity={self.similarity} is unknown: choose {' or '.join(SIMILARITIES)}"
            )
        if self.by_tokens and (self.pooling != "mean" or not self.train_encoders):
            raise ValueError(
                "task.model.settings.similarity=max_sim compares the tokens of encoders that are trained: set"
                " pooling=mean and train_encoders=true there"
            )
        if not self.weights:
            levels = (
                "feature_level, model_level and bank_level" if self.train_encoders else "model_level and bank_level"
            )
            raise ValueError(f"one of task.model.settings.{levels} must be above 0: nothing would be trained")

    @property
    def weights(self) -> dict[str, float]:
        """The active levels and their weights."""
        levels = LEVELS if self.train_encoders else LEVELS[1:]
        weights = {level: float(getattr(self, f"{level}_level")) for level in levels}
        return {level: weight for level, weight in weights.items() if weight > 0}

    @property
    def by_tokens(self) -> bool:
        """Whether reports and changes are compared by their tokens."""
        return self.similarity == "max_sim"

    @property
    def projects(self) -> bool:
        """Whether a loss of projected vectors trains the projectors."""
        return self.model_level > 0 or self.bank_level > 0


class GatheredBatchNorm(nn.BatchNorm1d):
    """Batch normalization by the statistics of the rows of all processes, on any device.

    PyTorch's SyncBatchNorm needs a GPU.
    """

    # returns the rows ``(M, D)`` of all processes, with gradients, and the position of the first row of this process;
    # None uses the rows of this process alone
    exchange: Callable[[Tensor], tuple[Tensor, int]] | None = None

    def forward(self, input: Tensor) -> Tensor:
        """``(M, D) -> (M, D)``."""
        if self.exchange is None or not self.training:
            return super().forward(input)
        rows, start = self.exchange(input)
        return super().forward(rows)[start : start + len(input)]


class Projector(nn.Module):
    """W2 norm(phi(W1 x)): linear, LeakyReLU, batch normalization, linear."""

    def __init__(self, width: int, hidden: int, dim: int) -> None:
        super().__init__()
        self.first = nn.Linear(width, hidden)
        self.activation = nn.LeakyReLU()
        self.norm = GatheredBatchNorm(hidden)
        self.second = nn.Linear(hidden, dim)

    def forward(self, x: Tensor) -> Tensor:
        """``(M, width) -> (M, dim)``, float32 regardless of autocast."""
        with torch.autocast(x.device.type, enabled=False):
            projected: Tensor = self.second(self.norm(self.activation(self.first(x.float()))))
        return projected


class TokenFeatures(NamedTuple):
    """Token features of B texts."""

    tokens: Tensor  # ``(B, L, F)`` concatenated vectors of the last layers of each token
    is_text: Tensor  # ``(B, L)`` bool, tokens of the comment or the code; the first token of an empty text

    def chunk(self, number: int) -> tuple["TokenFeatures", ...]:
        """The texts in equal parts."""
        parts = zip(self.tokens.chunk(number), self.is_text.chunk(number), strict=True)
        return tuple(TokenFeatures(*part) for part in parts)


class Tower(nn.Module):
    """Encoder and projector of one side; raises ValueError if the encoder has fewer than ``num_layers`` layers."""

    def __init__(self, side: Side, settings: HmcblSettings) -> None:
        super().__init__()
        layers = int(side.backbone.config.num_hidden_layers)
        if settings.num_layers > layers:
            raise ValueError(
                f"task.model.settings.num_layers={settings.num_layers}, but an encoder has only {layers} layers"
            )
        # PyTorch's attention supports a bool mask; the "eager" attention of transformers would add it as numbers.
        side.backbone.set_attn_implementation("sdpa")
        self.backbone = side.backbone
        self.reads_code = side.parts is not None
        self.settings = settings
        if not settings.train_encoders:
            side.backbone.requires_grad_(False)
        self._cache: dict[bytes, Tensor] = {}  # features of texts by their tokens, for a frozen encoder
        self.width = settings.num_layers * int(side.backbone.config.hidden_size)
        self.projector = Projector(self.width, settings.projector_hidden, settings.dim)

    def read(self, batch: CodeBatch) -> TokenFeatures:
        """The vectors of all tokens; an encoder of code reads the graph through the attention mask."""
        mask = attention_mask(batch) if self.reads_code else batch.is_token[:, None, None]
        output = self.backbone(input_ids=batch.input_ids, attention_mask=mask, output_hidden_states=True)
        tokens = torch.cat([layer.float() for layer in output.hidden_states[-self.settings.num_layers :]], dim=-1)
        is_text = batch.inside("comment") | batch.inside("code")
        is_text[:, 0] |= ~is_text.any(1)
        return TokenFeatures(tokens, is_text)

    def pool(self, features: TokenFeatures) -> Tensor:
        """One vector for each text, ``(B, F)``.

        The mean is over tokens of comment and code, which attend to the nodes of the graph.
        """
        if self.settings.pooling == "cls":
            return features.tokens[:, 0]
        weight = features.is_text[..., None].float()
        return (features.tokens * weight).sum(1) / weight.sum(1)

    def project_tokens(self, features: TokenFeatures) -> TokenFeatures:
        """The normalized projected tokens of the texts, ``(B, L, dim)``; other tokens are zeros."""
        projected = normalize(self.projector(features.tokens[features.is_text]), dim=1)
        tokens = projected.new_zeros(*features.is_text.shape, projected.shape[1])
        tokens[features.is_text] = projected
        return TokenFeatures(tokens, features.is_text)

    def embed(self, batch: CodeBatch) -> Tensor:
        """The projected vectors of a batch, ``(B, dim)`` float32, not normalized."""
        if self.settings.by_tokens:
            return self.pool(self.project_tokens(self.read(batch)))
        projected: Tensor = self.projector(self(batch))
        return projected

    def forward(self, batch: CodeBatch) -> Tensor:
        """The pooled features of a batch, ``(B, F)`` float32."""
        return self.pool(self.read(batch)) if self.settings.train_encoders else self._cached(batch)

    @torch.no_grad()
    def _cached(self, batch: CodeBatch) -> Tensor:
        """Cached features of a frozen encoder; texts are encoded one by one, so that batches do not affect rounding."""
        self.backbone.train(False)
        features = []
        for row, length in enumerate(batch.lengths.tolist()):
            ids = batch.input_ids[row : row + 1, :length]
            key = ids.cpu().numpy().tobytes()
            if key not in self._cache:
                edges = [kind[:, kind[0] == row].clone() for kind in batch.edges]
                for kind in edges:
                    kind[0] = 0
                rows = slice(row, row + 1)
                text = CodeBatch(ids, batch.lengths[rows], batch.blocks[rows], CodeEdges(*edges))
                self._cache[key] = self.pool(self.read(text))[0]
            features.append(self._cache[key])
        return torch.stack(features)


class Encoded(NamedTuple):
    """Vectors of N texts."""

    projected: np.ndarray  # ``(N, dim)`` float32 unit rows
    features: np.ndarray  # ``(N, F)`` float32 unit rows: pooled features before the projector
    # ``(T, dim)`` float16 unit rows of the tokens of comment and code, text by text, or None. A token's features pass
    # through the projector, which without ``similarity=max_sim`` was trained on means of such features
    tokens: np.ndarray | None = None
    starts: np.ndarray | None = None  # ``(N + 1,)`` the tokens of text i are starts[i] to starts[i + 1]


@torch.no_grad()  # not inference_mode: training reads cached features later
def encode(tower: Tower, inputs: Inputs, rows: np.ndarray, bf16: bool, with_tokens: bool, label: str) -> Encoded:
    """Encodes inputs in batches of similar length; the mode of the tower does not change.

    With tokens, the vectors take about 200 * N * dim bytes; ``bf16`` computes in bfloat16 by autocast.
    """
    device = tower.projector.first.weight.device
    was_training = tower.training
    tower.eval()
    lengths = np.array([len(inputs[row]) for row in track(rows.tolist(), f"read {label}")], dtype=np.int64)
    order = np.argsort(lengths, kind="stable")
    features = np.zeros((len(rows), tower.width), dtype=np.float32)
    projected = np.zeros((len(rows), tower.projector.second.out_features), dtype=np.float32)
    empty = np.zeros((0, projected.shape[1]), dtype=np.float16)
    tokens = [empty] * len(rows)
    batch_ranges = split_by_tokens(lengths[order].tolist(), token_budget(device))
    for first, last in track(batch_ranges, f"encode {label}"):
        positions = order[first:last]
        batch = move_data_to_device(collate([inputs[row] for row in rows[positions].tolist()]), device)
        with torch.autocast(device.type, torch.bfloat16, enabled=bf16):
            token_features = tower.read(batch) if with_tokens or tower.settings.by_tokens else None
            pooled = tower(batch) if token_features is None else tower.pool(token_features)
        if token_features is not None and tower.settings.by_tokens:
            vectors = tower.pool(tower.project_tokens(token_features))
        else:
            vectors = tower.projector(pooled)
        features[positions] = normalize(pooled, dim=1).cpu().numpy()
        projected[positions] = normalize(vectors, dim=1).cpu().numpy()
        if token_features is not None and with_tokens:
            token_vectors = tower.project_tokens(token_features).tokens[token_features.is_text].half().cpu().numpy()
            ends = np.cumsum(token_features.is_text.sum(1).cpu().numpy())
            for position, text_tokens in zip(positions.tolist(), np.split(token_vectors, ends[:-1]), strict=True):
                tokens[position] = text_tokens
    tower.train(was_training)
    if not with_tokens:
        return Encoded(projected, features)
    starts = np.cumsum([0, *(len(vectors) for vectors in tokens)])
    return Encoded(projected, features, np.concatenate([empty, *tokens]), starts)
