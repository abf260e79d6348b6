"""Backends: OpenVINO and nncf as they are, against PyTorch."""

import os
import sys

import numpy as np
import pytest
import torch

from gedbd.encoders.backends.backend import encode_texts
from gedbd.encoders.backends.openvino import OpenVino, has_bfloat16
from gedbd.encoders.backends.pytorch import Torch
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_tiny_encoder
from gedbd.text.tokens import TokenTable, tokenize

TEXTS = [f"{'crash on start of the editor ' * (number % 6)}{number}" for number in range(90)] + ["", "slow"]


def tokens(tokenizer) -> TokenTable:
    return tokenize(TEXTS, tokenizer, 24)


def cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return (one * two).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_openvino_gives_the_vectors_of_torch_in_the_order_of_the_texts(tiny, tmp_path, pooling):
    encoder, tokenizer = tiny
    encoder.pooling = pooling
    table = tokens(tokenizer)
    batches = (table.batch(np.array([row])) for row in range(len(TEXTS)))
    expected = np.concatenate([*Torch().prepare(encoder, table).encode(batches)])
    prepared = OpenVino("float32", tmp_path).prepare(encoder, table)
    for tokens_a_batch in (60, 10**6):
        prepared.tokens_a_batch = tokens_a_batch
        found = encode_texts(table, prepared)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(encode_texts(table, Torch().prepare(encoder, table)), expected, atol=1e-5)


def test_many_batches_come_back_in_the_order_they_were_given(tiny, tmp_path):
    encoder, tokenizer = tiny
    table = tokens(tokenizer)
    rows = [np.array([row]) for row in np.random.default_rng(0).permutation(92)]
    prepared = Torch().prepare(encoder, table), OpenVino("float32", tmp_path).prepare(encoder, table)
    torch_, openvino = ([*prepared.encode(table.batch(row) for row in rows)] for prepared in prepared)
    np.testing.assert_allclose(np.concatenate(openvino), np.concatenate(torch_), atol=1e-5)
    alone = next(iter(prepared[1].encode([table.batch(rows[5])])))
    np.testing.assert_allclose(alone, torch_[5], atol=1e-5)


@pytest.mark.parametrize(("max_positions", "lengths"), [(512, {32, 64, 96}), (50, {32})])
def test_a_single_text_of_any_length_gets_the_vector_of_torch(tiny, tmp_path, monkeypatch, max_positions, lengths):
    encoder, tokenizer = tiny
    monkeypatch.setattr(encoder.backbone.config, "max_position_embeddings", max_positions)
    prepared = OpenVino("float32", tmp_path).prepare(encoder, None)
    for length in (1, 31, 32, 33, 50, 65, 96):
        input_ids = torch.randint(5, len(tokenizer), (1, length), generator=torch.Generator().manual_seed(length))
        batch = input_ids, torch.ones_like(input_ids)
        (found,) = prepared.encode([batch])
        (expected,) = Torch().prepare(encoder).encode([batch])
        np.testing.assert_allclose(found, expected, atol=1e-5)
    assert prepared._fixed.keys() == lengths


def test_an_abandoned_encoding_leaves_the_backend_usable(tiny, tmp_path):
    encoder, tokenizer = tiny
    table = tokens(tokenizer)
    prepared = OpenVino("float32", tmp_path).prepare(encoder, table)
    started = prepared.encode(table.batch(np.array([row])) for row in range(92))
    next(started)
    started.close()
    np.testing.assert_allclose(
        encode_texts(table, prepared), encode_texts(table, Torch().prepare(encoder, table)), atol=1e-5
    )


@pytest.mark.slow
def test_int8_is_close_and_quantised_once(tiny, tmp_path):
    encoder, tokenizer = tiny
    table, sample = tokens(tokenizer), tokenize(TEXTS[:20], tokenizer, 24)
    expected = encode_texts(table, Torch().prepare(encoder, sample))
    first = OpenVino("int8", tmp_path / "new").prepare(encoder, sample)
    found = encode_texts(table, first)
    assert cosines(found, expected).min() > 0.99
    assert np.abs(found - expected).max() > 1e-5
    (kept,) = (tmp_path / "new").iterdir()
    assert kept.name == first.key
    written = (kept / "model.bin").stat().st_mtime_ns
    second = OpenVino("int8", tmp_path / "new").prepare(encoder, sample)
    assert (encode_texts(table, second) == found).all()
    assert (kept / "model.bin").stat().st_mtime_ns == written


def test_a_key_tells_weights_texts_and_precision_apart(tiny, tmp_path):
    encoder, tokenizer = tiny
    other = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=1).model
    table, fewer = tokens(tokenizer), tokenize(TEXTS[:50], tokenizer, 24)
    int8, float32 = OpenVino("int8", tmp_path), OpenVino("float32", tmp_path)
    keys = [int8.prepare(*given).key for given in ((encoder, table), (encoder, fewer), (other, table))]
    keys += [float32.prepare(encoder, table).key, Torch().prepare(encoder, table).key]
    assert len(set(keys)) == 5
    assert int8.prepare(encoder, table).key == keys[0]
    assert keys[-1] == ""


def test_vectors_of_two_backends_are_kept_apart(tiny, tmp_path):
    encoder, tokenizer = tiny
    first = LoadedEncoder(encoder, tokenizer, 24, cache_dir=tmp_path).pool(TEXTS)
    (plain,) = tmp_path.glob("*.sqlite")
    assert plain.name.endswith("-mean-24.sqlite")
    again = LoadedEncoder(encoder, tokenizer, 24, OpenVino("float32", tmp_path), tmp_path).pool(TEXTS)
    assert {path.name for path in tmp_path.glob("*.sqlite")} == {plain.name, f"{plain.stem}-openvino-float32.sqlite"}
    np.testing.assert_allclose(again, first, atol=1e-5)


def test_the_encoder_is_left_as_it_was(tmp_path):
    loaded = load_tiny_encoder("tiny", "mean", 8, 32, hidden=16, layers=1, dropout=0.5, seed=0)
    encoder, tokenizer = loaded.model, loaded.tokenizer
    encoder.backbone.set_attn_implementation("eager")
    table = tokens(tokenizer)
    encoder.train()
    environment = dict(os.environ)
    found = encode_texts(table, OpenVino("float32", tmp_path).prepare(encoder, table))
    assert all(module.training for module in encoder.modules())
    assert encoder.backbone.config._attn_implementation == "eager"
    assert dict(os.environ) == environment
    np.testing.assert_allclose(found, encode_texts(table, Torch().prepare(encoder, table)), atol=1e-5)
    assert all(module.training for module in encoder.modules())


def test_bfloat16_is_close_or_refused(tiny, tmp_path):
    encoder, tokenizer = tiny
    if not has_bfloat16():
        with pytest.raises(ValueError, match="this CPU lacks it"):
            OpenVino("bfloat16", tmp_path)
        return
    table = tokens(tokenizer)
    found = encode_texts(table, OpenVino("bfloat16", tmp_path).prepare(encoder, table))
    assert cosines(found, encode_texts(table, Torch().prepare(encoder, table))).min() > 0.999


@pytest.mark.parametrize(("package", "precision"), [("openvino", "float32"), ("nncf", "int8")])
def test_a_missing_package_is_named_with_what_to_do(monkeypatch, tmp_path, package, precision):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(ValueError, match=rf"{package} is not installed: pip install 'gedbd\[openvino\]'"):
        OpenVino(precision, tmp_path)


def test_an_unknown_precision_is_refused(tmp_path):
    with pytest.raises(ValueError, match="precision=int4 is unknown: choose float32, bfloat16, int8"):
        OpenVino("int4", tmp_path)


def test_the_gradient_is_not_kept(tiny):
    encoder, tokenizer = tiny
    encode_texts(tokens(tokenizer), Torch().prepare(encoder, tokens(tokenizer)))
    assert torch.is_grad_enabled()
    assert all(value.grad is None for value in encoder.parameters())
