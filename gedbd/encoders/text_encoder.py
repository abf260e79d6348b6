"""The trainable text branch: a Hugging Face encoder, pooled and projected.

Texts are packed, laid end to end, so that an encoder's dense layers compute no padding. Only attention needs to know
where a text ends. It processes texts in buckets of similar length, with a limited number of tokens each, so that it
pads little and needs little memory.
"""

from copy import deepcopy
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface, PreTrainedModel

from gedbd.text.tokens import split_by_tokens, token_budget

PACKED_ATTENTION = "packed"  # its name in transformers
PACKABLE = ("bert", "distilbert", "roberta")  # architectures whose vectors are tested to be the same when packed


class Bucket(NamedTuple):
    """Texts of similar length: tokens ``start`` to ``stop``, as ``texts`` rows of ``longest`` places.

    ``places`` are the flat positions of the real tokens and ``mask`` ``(texts, 1, 1, longest)`` marks them; both are
    None where all texts are equally long.
    """

    start: int
    stop: int
    texts: int
    longest: int
    places: Tensor | None
    mask: Tensor | None


class Packed(NamedTuple):
    """Texts end to end, the shortest first: ``tokens (T,)``, ``positions (T,)`` and ``lengths (U,)``.

    ``text (T,)`` holds the number of each token's text, and ``order (U,)`` the row of the batch that each text comes
    from.
    """

    tokens: Tensor
    text: Tensor
    positions: Tensor
    lengths: Tensor
    order: Tensor
    buckets: list[Bucket]


class TextEncoder(nn.Module):
    """z_text = W_p pool(backbone(x))[:d] + b_p, where d is ``truncate_dim``.

    The projection to ``dim`` is the paper's. It is initialised with orthonormal rows (ours), which preserves the
    similarities of the pretrained encoder.

    Args:
        backbone: A pretrained encoder that returns ``last_hidden_state``.
        pooling: ``cls`` takes the first token (the paper), ``mean`` averages the tokens that are not padding.
        dim: Size D of the projection.
        truncate_dim: Number of leading dimensions of a pooled vector to use, for encoders that were trained for it
            (Kusupati et al., "Matryoshka Representation Learning", 2022); None for all.

    Attributes:
        hidden: Size of the backbone's vectors.
        features: Size d of the pooled vectors that are used.
        chunk_tokens: If set, texts are encoded in chunks of at most this many tokens, and the activations of each chunk
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
            backbone.set_attn_implementation(PACKED_ATTENTION)
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
        """One untruncated vector for each text, before the projection: ``(U, L), (U, L) -> (U, hidden)`` float32.

        Padding is removed where the architecture allows it.
        """
        if self.backbone.config._attn_implementation != PACKED_ATTENTION:
            hidden = self._padded_hidden(input_ids, attention_mask)
            if self.pooling == "cls":
                return hidden[:, 0]
            weight = attention_mask.unsqueeze(-1).to(hidden.dtype)
            return (hidden * weight).sum(1) / weight.sum(1).clamp(min=1)
        packed = pack(input_ids, attention_mask)
        hidden = self._packed_hidden(packed)
        return (first_tokens if self.pooling == "cls" else unpack)(packed, hidden)

    def token_vectors(self, input_ids: Tensor, attention_mask: Tensor) -> list[Tensor]:
        """The vectors of each text's tokens, without padding: ``(U, L), (U, L) -> U x (L_i, hidden)`` float32."""
        if self.backbone.config._attn_implementation != PACKED_ATTENTION:
            hidden = self._padded_hidden(input_ids, attention_mask)
            return [vectors[real] for vectors, real in zip(hidden, attention_mask.bool(), strict=True)]
        packed = pack(input_ids, attention_mask)
        shortest_first = torch.split(self._packed_hidden(packed), packed.lengths.tolist())
        return [shortest_first[position] for position in packed.order.argsort().tolist()]

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
            # Packed attention works out its own masks. A mask of a single True keeps transformers from building one.
            attention_mask=packed.tokens.new_ones(1, 1, 1, 1, dtype=torch.bool),
            buckets=packed.buckets,
        ).last_hidden_state[0]
        return hidden.float()

    def _padded_hidden(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
        """The vectors of the last layer, ``(U, L, hidden)`` float32."""
        hidden: Tensor = self.backbone(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        return hidden.float()


def padded_copy(encoder: TextEncoder) -> TextEncoder:
    """A copy on the CPU that takes padded batches, without gedbd's packed attention, which cannot be traced."""
    copy = deepcopy(encoder).cpu().eval()
    if can_pack(copy.backbone):
        copy.backbone.set_attn_implementation("sdpa")
    return copy


def pack(input_ids: Tensor, attention_mask: Tensor) -> Packed:
    """Removes the padding from ``(U, L)`` tokens that are padded on the right."""
    lengths, order = attention_mask.sum(1).sort(stable=True)
    on_host = lengths.tolist()  # the only wait for a GPU: all sizes below follow from the lengths
    total = sum(on_host)
    text = torch.arange(len(lengths), device=lengths.device).repeat_interleave(lengths, output_size=total)
    # Texts of 2 and 3 tokens: text is 0, 0, 1, 1, 1, and positions are 0, 1, 0, 1, 2.
    starts = lengths.cumsum(0) - lengths
    positions = torch.arange(total, device=lengths.device) - starts[text]
    return Packed(
        input_ids[order[text], positions], text, positions, lengths, order, _buckets(lengths, on_host, text, positions)
    )


def unpack(packed: Packed, hidden: Tensor) -> Tensor:
    """Mean over each text's tokens, in the order of the batch: ``(T, hidden) -> (U, hidden)``."""
    total = hidden.new_zeros(len(packed.lengths), hidden.shape[1]).index_add(0, packed.text, hidden)
    return (total / packed.lengths[:, None].clamp(min=1))[packed.order.argsort()]


def first_tokens(packed: Packed, hidden: Tensor) -> Tensor:
    """The vector of each text's first token, in the order of the batch: ``(T, hidden) -> (U, hidden)``."""
    # Texts of 2, 3 and 5 tokens begin at tokens 0, 2 and 5.
    starts = packed.lengths.cumsum(0) - packed.lengths
    return hidden[starts][packed.order.argsort()]


def can_pack(backbone: PreTrainedModel) -> bool:
    """Whether texts can be packed for this architecture."""
    return backbone.config.model_type in PACKABLE


def position_offset(backbone: PreTrainedModel) -> int:
    """Number of the first position: RoBERTa and its relatives count from ``padding_idx + 1``, the others from 0."""
    positions = getattr(getattr(backbone, "embeddings", None), "position_embeddings", None)
    padding: int | None = getattr(positions, "padding_idx", None)
    return 0 if padding is None else padding + 1


def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    buckets: list[Bucket] | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention inside each text, with the signature of transformers: ``(1, heads, T, d) x 3 -> (1, T, heads, d)``."""
    assert buckets is not None
    inputs = [tensor[0].transpose(0, 1) for tensor in (query, key, value)]
    if query.device.type == "cpu" and torch.is_grad_enabled():
        # PyTorch's gradient of attention in bfloat16 takes a CPU about six times as long as that in float32.
        inputs = [tensor.float() for tensor in inputs]
    attended = []
    for bucket in buckets:
        q, k, v = (_spread(tensor[bucket.start : bucket.stop], bucket) for tensor in inputs)
        with torch.autocast(q.device.type, enabled=False):
            out = scaled_dot_product_attention(q, k, v, attn_mask=bucket.mask, dropout_p=dropout, scale=scaling)
        flat = out.transpose(1, 2).reshape(-1, *out.shape[1:2], out.shape[3])
        attended.append(flat if bucket.places is None else flat[bucket.places])
    return torch.cat(attended)[None], None


# torch.compile would compile it again for every set of bucket sizes.
AttentionInterface.register(PACKED_ATTENTION, torch.compiler.disable(attend))  # type: ignore[no-untyped-call]


def _spread(tokens: Tensor, bucket: Bucket) -> Tensor:
    """``(T, heads, d) -> (texts, heads, longest, d)``."""
    if bucket.places is not None:
        padded = tokens.new_zeros(bucket.texts * bucket.longest, *tokens.shape[1:])
        tokens = padded.index_put((bucket.places,), tokens)
    return tokens.view(bucket.texts, bucket.longest, *tokens.shape[1:]).transpose(1, 2)


def _buckets(lengths: Tensor, on_host: list[int], text: Tensor, positions: Tensor) -> list[Bucket]:
    """Cuts ascending lengths ``(U,)`` into buckets; ``text (T,)`` and ``positions (T,)`` are those of ``Packed``."""
    buckets = []
    token = 0
    for first, last in split_by_tokens(on_host, token_budget(lengths.device)):
        texts = last - first
        longest = on_host[last - 1]
        stop = token + sum(on_host[first:last])
        if on_host[first] == longest:
            buckets.append(Bucket(token, stop, texts, longest, None, None))
        else:
            # Texts of 2 and 3 tokens: mask is [[1, 1, 0], [1, 1, 1]] and places are 0, 1, 3, 4, 5.
            mask = torch.arange(longest, device=lengths.device) < lengths[first:last, None]
            places = (text[token:stop] - first) * longest + positions[token:stop]
            buckets.append(Bucket(token, stop, texts, longest, places, mask[:, None, None]))
        token = stop
    return buckets
