"""Packing: texts laid end to end, so that an encoder's dense layers compute no padding.

Only attention needs to know where a text ends. It processes texts in buckets of similar length, with a limited number
of tokens each, so that it pads little and needs little memory.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, PreTrainedModel

from gedbd.text.tokens import split_by_tokens, token_budget

NAME = "packed"
ARCHITECTURES = ("bert", "distilbert", "roberta")


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

    ``order (U,)`` holds the row of the batch that each text comes from.
    """

    tokens: Tensor
    positions: Tensor
    lengths: Tensor
    order: Tensor
    buckets: list[Bucket]


def pack(input_ids: Tensor, attention_mask: Tensor) -> Packed:
    """Removes the padding from ``(U, L)`` tokens that are padded on the right."""
    lengths, order = attention_mask.sum(1).sort(stable=True)
    # The mask selects the tokens row by row, so texts follow one another, the shortest first.
    real = attention_mask[order].bool()
    positions = torch.arange(real.shape[1], device=real.device).expand_as(real)[real]
    return Packed(input_ids[order][real], positions, lengths, order, _buckets(lengths))


def unpack(packed: Packed, hidden: Tensor) -> Tensor:
    """Mean over each text's tokens, in the order of the batch: ``(T, hidden) -> (U, hidden)``."""
    text = torch.repeat_interleave(torch.arange(len(packed.lengths), device=hidden.device), packed.lengths)
    total = hidden.new_zeros(len(packed.lengths), hidden.shape[1]).index_add(0, text, hidden)
    return (total / packed.lengths[:, None].clamp(min=1))[packed.order.argsort()]


def first_tokens(packed: Packed, hidden: Tensor) -> Tensor:
    """The vector of each text's first token, in the order of the batch: ``(T, hidden) -> (U, hidden)``."""
    # Texts of 2, 3 and 5 tokens begin at tokens 0, 2 and 5.
    starts = packed.lengths.cumsum(0) - packed.lengths
    return hidden[starts][packed.order.argsort()]


def can_pack(backbone: PreTrainedModel) -> bool:
    """Whether tests show that packing does not change the results of this architecture."""
    return backbone.config.model_type in ARCHITECTURES


def position_offset(backbone: PreTrainedModel) -> int:
    """Number of the first position: RoBERTa counts from ``padding_idx + 1``, the others from 0."""
    positions = backbone.get_submodule("embeddings.position_embeddings")
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
    sides = [side[0].transpose(0, 1) for side in (query, key, value)]
    attended = []
    for bucket in buckets:
        q, k, v = (_spread(side[bucket.start : bucket.stop], bucket) for side in sides)
        out = scaled_dot_product_attention(q, k, v, attn_mask=bucket.mask, dropout_p=dropout, scale=scaling)
        flat = out.transpose(1, 2).reshape(-1, *out.shape[1:2], out.shape[3])
        attended.append(flat if bucket.places is None else flat[bucket.places])
    return torch.cat(attended)[None], None


# torch.compile would compile it again for every set of bucket sizes.
AttentionInterface.register(NAME, torch.compiler.disable(attend))  # type: ignore[no-untyped-call]


def _spread(tokens: Tensor, bucket: Bucket) -> Tensor:
    """``(T, heads, d) -> (texts, heads, longest, d)``."""
    if bucket.places is not None:
        padded = tokens.new_zeros(bucket.texts * bucket.longest, *tokens.shape[1:])
        tokens = padded.index_put((bucket.places,), tokens)
    return tokens.view(bucket.texts, bucket.longest, *tokens.shape[1:]).transpose(1, 2)


def _buckets(lengths: Tensor) -> list[Bucket]:
    """Cuts ascending lengths ``(U,)`` into buckets."""
    host = lengths.tolist()
    buckets = []
    token = 0
    for first, last in split_by_tokens(host, token_budget(lengths.device)):
        texts = last - first
        longest = host[last - 1]
        stop = token + sum(host[first:last])
        if host[first] == longest:
            buckets.append(Bucket(token, stop, texts, longest, None, None))
        else:
            # Texts of 2 and 3 tokens: mask is [[1, 1, 0], [1, 1, 1]] and places are 0, 1, 3, 4, 5.
            mask = torch.arange(longest, device=lengths.device) < lengths[first:last, None]
            places = mask.flatten().nonzero().squeeze(1)
            buckets.append(Bucket(token, stop, texts, longest, places, mask[:, None, None]))
        token = stop
    return buckets
