"""Chunks of a step, computed again for their gradient, change the memory that a step needs and nothing else."""

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from gedbd.encoders import text_encoder as module
from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.encoders.text_encoder import TextEncoder

LENGTHS = torch.tensor([9, 3, 30, 14, 3, 1, 22, 8, 17, 30, 5, 12])
CHUNKS = [(1, 12), (40, 6), (400, 1)]  # tokens, and how many chunks they make of the texts


def make(dropout: float) -> TextEncoder:
    sizes = {"dim": 8, "max_tokens": 32, "hidden": 16, "layers": 2}
    return load_tiny_encoder("tiny", "mean", **sizes, dropout=dropout, seed=0).model.train()


def tokens() -> tuple[Tensor, Tensor]:
    mask = torch.arange(30) < LENGTHS[:, None]
    generator = torch.Generator().manual_seed(1)
    return torch.randint(5, 200, mask.shape, generator=generator) * mask, mask.long()


def step(encoder: TextEncoder, chunk_tokens: int | None, seed: int = 0) -> list[Tensor]:
    """Loss and gradients of a loss in which every text meets every other."""
    encoder.zero_grad()
    encoder.chunk_tokens = chunk_tokens
    torch.manual_seed(seed)
    z = torch.nn.functional.normalize(encoder(*tokens()), dim=1)
    loss = (5 * z @ z.T).logsumexp(1).mean() - z[0] @ z[1]
    loss.backward()
    return [loss.detach(), *(value.grad.clone() for value in encoder.parameters())]


@pytest.mark.parametrize("chunk_tokens", [tokens for tokens, _ in CHUNKS])
def test_without_dropout_a_step_in_chunks_is_the_step_at_once(chunk_tokens):
    encoder = make(0.0)
    torch.testing.assert_close(step(encoder, chunk_tokens), step(encoder, None), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(("chunk_tokens", "count"), CHUNKS)
def test_dropout_falls_alike_when_a_chunk_is_computed_again(monkeypatch, chunk_tokens, count):
    encoder, chunks = make(0.5), []
    cached = step(encoder, chunk_tokens)

    def remembered(function, *arguments, use_reentrant):
        chunks.append(int(arguments[1].sum()))
        return function(*arguments)

    monkeypatch.setattr(module, "checkpoint", remembered)
    torch.testing.assert_close(cached, step(encoder, chunk_tokens), atol=1e-5, rtol=1e-5)
    assert len(chunks) == count
    assert sum(chunks) == LENGTHS.sum()
    assert (step(encoder, chunk_tokens, seed=1)[0] - cached[0]).abs() > 1e-3


def test_chunks_hold_less_for_the_gradient():
    encoder, held = make(0.1), {}
    for chunk_tokens in (None, 40):
        encoder.chunk_tokens, sizes = chunk_tokens, []
        with saved_tensors_hooks(lambda tensor, sizes=sizes: sizes.append(tensor.nbytes) or tensor, lambda x: x):
            encoder(*tokens())
        held[chunk_tokens] = sum(sizes)
    assert held[40] < held[None] / 50


def test_without_gradient_nothing_is_computed_twice(monkeypatch):
    encoder = make(0.1).eval()
    whole = encoder(*tokens())
    encoder.chunk_tokens = 40
    monkeypatch.setattr(module, "checkpoint", None)
    with torch.no_grad():
        torch.testing.assert_close(encoder(*tokens()), whole)
