"""Attention with dropout that keeps less for its gradient, for training on a CPU.

There PyTorch's ``scaled_dot_product_attention`` keeps three tables of (texts, heads, L, L) float32 numbers: the
weights, the factors of dropout, and their product. Here the product is computed again and one byte says which weights
were kept: 5 bytes instead of 12 for each weight, and the same numbers to the last bit.
"""

from typing import Any

import torch
from torch import Tensor


def saves_memory(query: Tensor, dropout: float) -> bool:
    """Whether ``attend_with_dropout`` computes what PyTorch does, and keeps less; on a GPU PyTorch keeps no weights."""
    plain = query.device.type == "cpu" and query.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")
    return plain and 0 < dropout < 1 and torch.is_grad_enabled()


def attend_with_dropout(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, scale: float | None, dropout: float
) -> Tensor:
    """``dropout(softmax(scale Q K^T)) V``: ``(texts, heads, L, d) x 3 -> (texts, heads, L, d)``.

    Args:
        query: Q.
        key: K.
        value: V.
        mask: ``(texts, 1, 1, L)`` bool, the tokens that are attended to; None for all.
        scale: Factor of the scores; None for 1 / sqrt(d).
        dropout: Probability with which a weight is dropped.
    """
    scale = query.shape[-1] ** -0.5 if scale is None else scale
    if mask is not None:
        mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill_(~mask, float("-inf"))
    attended: Tensor = _DroppedAttention.apply(query, key, value, mask, scale**0.5, dropout)  # type: ignore[no-untyped-call]
    return attended


class _DroppedAttention(torch.autograd.Function):
    """The order of operations, and of the numbers in memory, is that of PyTorch: both decide about the last bit."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, root: float, dropout: float
    ) -> Tensor:
        scores = (query * root) @ (key.transpose(-2, -1) * root)
        if mask is not None:
            scores += mask
        weights = torch.softmax(scores, dim=-1)
        # The memory of the scores holds the factors of dropout, then the dropped weights.
        factors = scores.bernoulli_(1 - dropout)
        kept = factors.bool()
        dropped = factors.div_(1 - dropout).mul_(weights)
        ctx.save_for_backward(query, key, value, weights, kept)
        ctx.root = root
        ctx.dropout = dropout
        return dropped @ value

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        query, key, value, weights, kept = ctx.saved_tensors
        factors = kept.to(weights.dtype).div_(1 - ctx.dropout)
        grad_weights = (grads[0] @ value.transpose(-2, -1)).mul_(factors)
        grad_value = factors.mul_(weights).transpose(-2, -1) @ grads[0]
        grad_scores = torch.ops.aten._softmax_backward_data(grad_weights, weights, -1, weights.dtype)
        scaled_key = (key.transpose(-2, -1) * ctx.root).contiguous()
        scaled_query = (query * ctx.root).contiguous()
        grad_query = (grad_scores @ scaled_key.transpose(-2, -1)).mul_(ctx.root)
        grad_key = (scaled_query.transpose(-2, -1) @ grad_scores).mul_(ctx.root).transpose(-2, -1)
        return grad_query, grad_key, grad_value, None, None, None
