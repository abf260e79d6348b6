"""The trainable text branch: a Hugging Face encoder, pooled and projected."""

from copy import deepcopy

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from gedbd.encoders import packing
from gedbd.encoders.packing import Packed, can_pack, first_tokens, pack, position_offset, unpack
from gedbd.text.tokens import split_by_tokens

# Packed attention works out its own masks. A mask of a single True keeps transformers from building one.
EVERYTHING = torch.ones(1, 1, 1, 1, dtype=torch.bool)


class TextEncoder(nn.Module):
    """z_text = W_p pool(backbone(x))[:d] + b_p, where d is ``truncate_dim``.

    The projection to ``dim`` is the paper's. It is initialised with orthonormal rows (ours), which preserves the
    similarities of the pretrained encoder.

    Args:
        backbone: A pretrained encoder that returns ``last_hidden_state``.
        pooling: ``cls`` takes the first token (the paper), ``mean`` averages the tokens that are not padding.
        dim: Size D of the projection.
        truncate_dim: How many of the first numbers of a pooled vector are used, for encoders that were trained for it
            (Kusupati et al., "Matryoshka Representation Learning", 2022); None for all.

    Attributes:
        hidden: Size of the backbone's vectors.
        features: Size d of the pooled vectors that are used.
        chunk_tokens: If set, texts are encoded in chunks of at most so many tokens, and the activations of each chunk
            are computed again for its gradient. This is gradient caching (Gao et al., "Scaling Deep Contrastive
            Learning Batch Size under Memory Limited Setup", 2021), implemented with checkpoints.
    """

    def __init__(self, backbone: PreTrainedModel, pooling: str, dim: int, truncate_dim: int | None = None) -> None:
        super().__init__()
        if pooling not in ("cls", "mean"):
            raise ValueError(f"encoder.pooling={pooling} is unknown: choose cls or mean")
        self.backbone = backbone
        self.pooling = pooling
        self.chunk_tokens: int | None = None
        if can_pack(backbone):
            backbone.set_attn_implementation(packing.NAME)
        self.hidden = int(backbone.config.hidden_size)
        if truncate_dim is not None and truncate_dim > self.hidden:
            raise ValueError(
                f"encoder.truncate_dim={truncate_dim} is more than the {self.hidden} numbers of the encoder's vectors"
            )
        self.features = truncate_dim or self.hidden
        self.projection = nn.Linear(self.features, dim)
        nn.init.orthogonal_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def pool(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """One whole vector for each text, before the projection: ``(U, L), (U, L) -> (U, hidden)`` float32.

        Padding is removed where the architecture allows it.
        """
        if self.backbone.config._attn_implementation != packing.NAME:
            return self._pool_padded(input_ids, attention_mask)
        packed = pack(input_ids, attention_mask)
        hidden = self._packed_hidden(packed)
        return (first_tokens if self.pooling == "cls" else unpack)(packed, hidden)

    def token_vectors(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """The vectors of each text's tokens, without padding: ``(U, L), (U, L) -> U x (L_i, hidden)`` float32."""
        if self.backbone.config._attn_implementation != packing.NAME:
            hidden = self._padded_hidden(input_ids, attention_mask)
            return [own[real] for own, real in zip(hidden, attention_mask.bool(), strict=True)]
        packed = pack(input_ids, attention_mask)
        shortest_first = torch.split(self._packed_hidden(packed), packed.lengths.tolist())
        return [shortest_first[place] for place in packed.order.argsort().tolist()]

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """``(U, L), (U, L) -> (U, D)``."""
        if self.chunk_tokens is None or not torch.is_grad_enabled():
            return self._embed(input_ids, attention_mask)
        # Sorted by length, the texts of a chunk need little padding; argsort of the order restores the batch's order.
        lengths, order = attention_mask.sum(1).sort(stable=True)
        vectors = []
        for first, last in split_by_tokens(lengths.tolist(), self.chunk_tokens):
            rows = order[first:last]
            longest = int(lengths[last - 1])
            ids = input_ids[rows, :longest]
            mask = attention_mask[rows, :longest]
            vectors.append(checkpoint(self._embed, ids, mask, use_reentrant=False))
        return torch.cat(vectors)[order.argsort()]

    def _embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        projected: Tensor = self.projection(self.pool(input_ids, attention_mask)[:, : self.features])
        return projected.float()

    def _packed_hidden(self, packed: Packed) -> Tensor:
        """The vectors of the last layer, ``(T, hidden)`` float32."""
        hidden: Tensor = self.backbone(
            input_ids=packed.tokens[None],
            position_ids=packed.positions[None] + position_offset(self.backbone),
            attention_mask=EVERYTHING.to(packed.tokens.device),
            buckets=packed.buckets,
        ).last_hidden_state[0]
        return hidden.float()

    def _padded_hidden(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The vectors of the last layer, ``(U, L, hidden)`` float32."""
        hidden: Tensor = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return hidden.float()

    def _pool_padded(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden = self._padded_hidden(input_ids, attention_mask)
        if self.pooling == "cls":
            return hidden[:, 0]
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)


def padded_copy(encoder: TextEncoder) -> TextEncoder:
    """A copy on the CPU that takes padded batches, without gedbd's packed attention, which cannot be traced."""
    copy = deepcopy(encoder).cpu().eval()
    if can_pack(copy.backbone):
        copy.backbone.set_attn_implementation("sdpa")
    return copy
