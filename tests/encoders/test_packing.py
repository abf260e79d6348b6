"""Texts end to end give the numbers and the gradients of the padded forward of Hugging Face."""

from copy import deepcopy
from itertools import product

import pytest
import torch
from small_models import random_model
from torch import Tensor
from transformers import PreTrainedModel

from gedbd.encoders import text_encoder
from gedbd.encoders.text_encoder import PACKED_ATTENTION, TextEncoder, can_pack, first_tokens, pack, unpack

PADDING = 1
PACKED = ("bert", "roberta", "distilbert")
LENGTHS = {"mixed": [3, 11, 5, 5, 1, 8, 11, 20, 2], "equal": [6] * 5, "single tokens": [1, 1], "one text": [7]}


def backbone_of(name: str, **sizes: float) -> PreTrainedModel:
    return random_model(name, 40, positions=22, **{"dropout": 0.0, "pad_token_id": PADDING} | sizes)


def texts(lengths: list[int]) -> tuple[Tensor, Tensor]:
    """Random tokens padded on the right."""
    mask = torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]
    return torch.randint(2, 40, mask.shape).where(mask, PADDING), mask.long()


def pooled_by_hugging_face(backbone: PreTrainedModel, tokens: tuple[Tensor, Tensor], pooling: str) -> Tensor:
    hidden = backbone(input_ids=tokens[0], attention_mask=tokens[1]).last_hidden_state
    rows = [text[:length] for text, length in zip(hidden, tokens[1].sum(1).tolist(), strict=True)]
    return torch.stack([row[0] if pooling == "cls" else row.mean(0) for row in rows])


def check(backbone: PreTrainedModel, lengths: list[int], pooling: str) -> TextEncoder:
    """Holds an encoder's vectors and gradients to those of a copy of its backbone that Hugging Face runs."""
    plain = deepcopy(backbone)
    plain.set_attn_implementation("sdpa")
    encoder, tokens = TextEncoder(backbone, pooling, dim=4), texts(lengths)
    expected, found = pooled_by_hugging_face(plain.train(), tokens, pooling), encoder.train().pool(*tokens)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    weight = torch.randn_like(expected)
    (expected * weight).sum().backward()
    (found * weight).sum().backward()
    for (name, mine), theirs in zip(backbone.named_parameters(), plain.parameters(), strict=True):
        assert (mine.grad is None) == (theirs.grad is None), name
        if mine.grad is not None:
            torch.testing.assert_close(mine.grad, theirs.grad, atol=1e-5, rtol=1e-5, msg=name)
    assert backbone.get_submodule("embeddings.word_embeddings").weight.grad.abs().sum() > 0
    return encoder


# Each architecture with each set of lengths; budgets and poolings take turns.
@pytest.mark.parametrize(
    ("name", "lengths", "pooling", "budget"),
    [
        (name, lengths, ("cls", "mean")[(row + row // 4) % 2], (1, 24, 2048)[row % 3])
        for row, (name, lengths) in enumerate(product(PACKED, LENGTHS.values()))
    ],
)
def test_vectors_and_gradients_are_those_of_the_padded_forward(monkeypatch, name, pooling, lengths, budget):
    monkeypatch.setattr(text_encoder, "token_budget", lambda _: budget)
    encoder = check(backbone_of(name), lengths, pooling)
    assert encoder.backbone.config._attn_implementation == PACKED_ATTENTION


@pytest.mark.parametrize("pooling", ["cls", "mean"])
@pytest.mark.parametrize("name", ["albert", "electra"])
def test_other_architectures_are_padded(name, pooling):
    encoder = check(backbone_of(name), LENGTHS["mixed"], pooling)
    assert not can_pack(encoder.backbone)
    assert encoder.backbone.config._attn_implementation != PACKED_ATTENTION


def test_packed_texts_by_hand(monkeypatch):
    monkeypatch.setattr(text_encoder, "token_budget", lambda _: 4)
    input_ids, mask = torch.tensor([[5, 6, 7], [8, 1, 1], [9, 4, 1]]), torch.tensor([[1, 1, 1], [1, 0, 0], [1, 1, 0]])
    packed = pack(input_ids, mask)
    assert packed.tokens.tolist() == [8, 9, 4, 5, 6, 7]
    assert packed.positions.tolist() == [0, 0, 1, 0, 1, 2]
    assert packed.lengths.tolist() == [1, 2, 3]
    assert packed.order.tolist() == [1, 2, 0]
    short, long = packed.buckets
    assert (short.start, short.stop, short.texts, short.longest) == (0, 3, 2, 2)
    assert short.places.tolist() == [0, 2, 3]
    assert short.mask.tolist() == [[[[True, False]]], [[[True, True]]]]
    assert long == (3, 6, 1, 3, None, None)
    hidden = torch.tensor([[8.0], [9], [4], [5], [6], [7]])
    assert unpack(packed, hidden).flatten().tolist() == [6, 8, 6.5]
    assert first_tokens(packed, hidden).flatten().tolist() == [5, 8, 9]


@pytest.mark.parametrize("name", PACKED)
def test_a_text_has_its_vector_wherever_it_stands_and_in_half_precision_too(monkeypatch, name):
    monkeypatch.setattr(text_encoder, "token_budget", lambda _: 24)
    encoder, (input_ids, mask) = TextEncoder(backbone_of(name), "mean", dim=4).eval(), texts(LENGTHS["mixed"])
    order = torch.randperm(len(mask))
    with torch.no_grad():
        vectors = encoder.pool(input_ids, mask)
        torch.testing.assert_close(encoder.pool(input_ids[order], mask[order]), vectors[order], atol=1e-6, rtol=1e-5)
        for row, vector in enumerate(vectors):
            alone = encoder.pool(input_ids[row : row + 1], mask[row : row + 1])[0]
            torch.testing.assert_close(alone, vector, atol=1e-6, rtol=1e-5)
        with torch.autocast("cpu", torch.bfloat16):
            half = encoder.pool(input_ids, mask)
    assert half.dtype == torch.float32
    assert not torch.equal(half, vectors)
    torch.testing.assert_close(half, vectors, atol=3e-2, rtol=3e-2)


def test_dropout_falls_on_attention_and_only_in_training():
    encoder = TextEncoder(backbone_of("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.5), "mean", 4)
    tokens = texts(LENGTHS["mixed"])
    assert not torch.equal(encoder.train()(*tokens), encoder(*tokens))
    assert torch.equal(encoder.eval()(*tokens), encoder(*tokens))
