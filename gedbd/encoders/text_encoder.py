"""The trainable text branch: a Hugging Face encoder, pooled and projected."""

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint
from transformers import PreTrainedModel

from gedbd.encoders import packing
from gedbd.encoders.packing import can_pack, first_tokens, pack, position_offset, unpack
from gedbd.text.tokens import split_by_tokens

# Packed attention works out its own masks. A mask of a single True keeps transformers from building one.
EVERYTHING = torch.ones(1, 1, 1, 1, dtype=torch.bool)


class TextEncoder(nn.Module):
    """z_text = W_p pool(backbone(x)) + b_p.

    The projection to ``dim`` is the paper's; it starts with orthonormal rows (ours), so that what the pretrained
    encoder knows about similarity survives it.

    Args:
        backbone: A pretrained encoder that returns ``last_hidden_state``.
        pooling: ``cls`` takes the first token (the paper), ``mean`` averages the tokens that are not padding.
        dim: Size D of the projection.

    Attributes:
        chunk_tokens: If set, more tokens than this are never held for the gradient at once: they are encoded in chunks,
            which are computed again when their gradient is asked for. That is gradient caching (Gao et al., "Scaling
            Deep Contrastive Learning Batch Size under Memory Limited Setup", 2021), by means of checkpoints.
    """

    def __init__(self, backbone: PreTrainedModel, pooling: str, dim: int) -> None:
        super().__init__()
        if pooling not in ("cls", "mean"):
            raise ValueError(f"encoder.pooling={pooling} is unknown: choose cls or mean")
        self.backbone = backbone
        self.pooling = pooling
        self.chunk_tokens: int | None = None
        if can_pack(backbone):
            backbone.set_attn_implementation(packing.NAME)
        self.projection = nn.Linear(int(backbone.config.hidden_size), dim)
        nn.init.orthogonal_(self.projection.weight)
        nn.init.zeros_(self.projection.bias)

    def pool(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """One vector a report before the projection: ``(U, L), (U, L) -> (U, hidden)`` float32.

        Padding is left out where the architecture allows it.
        """
        if self.backbone.config._attn_implementation != packing.NAME:
            return self._pool_padded(input_ids, attention_mask)
        packed = pack(input_ids, attention_mask)
        hidden: Tensor = self.backbone(
            input_ids=packed.tokens[None],
            position_ids=packed.positions[None] + position_offset(self.backbone),
            attention_mask=EVERYTHING.to(input_ids.device),
            buckets=packed.buckets,
        ).last_hidden_state[0]
        return (first_tokens if self.pooling == "cls" else unpack)(packed, hidden.float())

    def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """``(U, L), (U, L) -> (U, D)``."""
        if self.chunk_tokens is None or not torch.is_grad_enabled():
            return self._embed(input_ids, attention_mask)
        lengths, order = attention_mask.sum(1).sort(stable=True)
        vectors = []
        for first, last in split_by_tokens(lengths.tolist(), self.chunk_tokens):
            rows, longest = order[first:last], int(lengths[last - 1])
            chunk = input_ids[rows, :longest], attention_mask[rows, :longest]
            vectors.append(checkpoint(self._embed, *chunk, use_reentrant=False))
        return torch.cat(vectors)[order.argsort()]

    def _embed(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        projected: Tensor = self.projection(self.pool(input_ids, attention_mask))
        return projected.float()

    def _pool_padded(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        hidden: Tensor = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state.float()
        if self.pooling == "cls":
            return hidden[:, 0]
        weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
        return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
