import sqlite3
from pathlib import Path

import numpy as np
import pytest
import torch

from gedbd.encoders.caches import BATCHES_A_COMMIT
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_tiny_encoder
from gedbd.encoders.text_encoder import TextEncoder

TEXTS = ["crash on start", "", "the editor is slow", "crash", "日本", "crash on start", "a " * 100]


def pooled(texts, model, tokenizer, max_tokens: int, cache_dir: Path) -> np.ndarray:
    return LoadedEncoder(model, tokenizer, max_tokens, cache_dir=cache_dir).pool(texts)


def allow_calls(encoder: TextEncoder, calls: int) -> None:
    """Lets the backbone encode some batches, and raise on the next."""
    left = iter(range(calls))

    def count(*inputs: object) -> None:
        if next(left, None) is None:
            raise RuntimeError("the encoder was asked")

    for hook in list(encoder.backbone._forward_pre_hooks):
        del encoder.backbone._forward_pre_hooks[hook]
    encoder.backbone.register_forward_pre_hook(count)


def stored(folder: Path) -> int:
    (file,) = folder.glob("*.sqlite")
    with sqlite3.connect(file) as cache:
        return int(cache.execute("SELECT COUNT(*) FROM vectors").fetchone()[0])


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_vectors_are_those_of_a_plain_forward_in_the_order_of_the_texts(tiny, tmp_path, pooling):
    encoder, tokenizer = tiny
    encoder.pooling = pooling
    vectors = pooled(TEXTS, encoder, tokenizer, 8, tmp_path / "new" / "folder")
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), 16)
    for text, vector in zip(TEXTS, vectors, strict=True):
        batch = tokenizer([text], truncation=True, max_length=8, return_tensors="pt")
        with torch.no_grad():
            expected = encoder.eval().pool(batch["input_ids"], batch["attention_mask"])[0]
        np.testing.assert_allclose(vector, expected, atol=1e-5)
    assert (vectors[0] == vectors[5]).all()
    assert stored(tmp_path / "new" / "folder") == len(set(TEXTS))


@pytest.mark.parametrize("is_cached", [True, False])
def test_known_tokens_are_not_read_again(tiny, tmp_path, is_cached, monkeypatch):
    encoder = LoadedEncoder(*tiny, 8, cache_dir=tmp_path / "one")
    expected = encoder.pool(TEXTS)
    tokens = encoder.tokenize(TEXTS)
    other = LoadedEncoder(*tiny, 8, cache_dir=tmp_path / "two" if is_cached else None)
    monkeypatch.setattr(other, "tokenize", None)
    found = other.pool(TEXTS, tokens=tokens)
    np.testing.assert_allclose(found, expected, atol=0 if is_cached else 1e-6)


def test_the_second_call_encodes_nothing_and_a_third_only_what_is_new(tiny, tmp_path):
    encoder, tokenizer = tiny
    first = pooled(TEXTS, encoder, tokenizer, 8, tmp_path)
    allow_calls(encoder, 0)
    again = pooled(TEXTS[::-1], encoder, tokenizer, 8, tmp_path)
    assert (again == first[::-1]).all()
    with pytest.raises(RuntimeError, match="the encoder was asked"):
        pooled([*TEXTS, "new"], encoder, tokenizer, 8, tmp_path)
    allow_calls(encoder, 1)
    more = pooled([*TEXTS, "new"], encoder, tokenizer, 8, tmp_path)
    assert (more[:-1] == first).all()
    assert stored(tmp_path) == len({*TEXTS, "new"})


def test_an_interrupted_call_keeps_what_was_stored(tiny, tmp_path, monkeypatch):
    encoder, tokenizer = tiny
    batch = 40
    texts = [f"crash {number}" for number in range(100, 100 + batch * (BATCHES_A_COMMIT + 3))]
    (length,) = {len(row) for row in tokenizer(texts)["input_ids"]}
    monkeypatch.setattr("gedbd.text.tokens.CPU_TOKENS", batch * length)
    allow_calls(encoder, BATCHES_A_COMMIT + 1)
    with pytest.raises(RuntimeError, match="the encoder was asked"):
        pooled(texts, encoder, tokenizer, 8, tmp_path)
    assert stored(tmp_path) == batch * BATCHES_A_COMMIT
    allow_calls(encoder, 3)
    resumed = pooled(texts, encoder, tokenizer, 8, tmp_path)
    allow_calls(encoder, len(texts))
    whole = pooled(texts, encoder, tokenizer, 8, tmp_path / "afresh")
    np.testing.assert_allclose(resumed, whole, atol=1e-5)


def test_another_encoder_pooling_or_length_never_reads_these_vectors(tiny, tmp_path):
    encoder, tokenizer = tiny
    other = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=1).model
    first = pooled(TEXTS, encoder, tokenizer, 8, tmp_path)
    assert np.abs(pooled(TEXTS, other, tokenizer, 8, tmp_path) - first).max(axis=1).min() > 1e-3
    pooled(TEXTS, encoder, tokenizer, 9, tmp_path)
    encoder.pooling = "cls"
    pooled(TEXTS, encoder, tokenizer, 8, tmp_path)
    assert len(list(tmp_path.glob("*.sqlite"))) == 4


def test_a_cache_folder_that_is_a_file_is_refused(tiny, tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(ValueError, match=rf"cache_dir={tmp_path}/cache cannot be used"):
        pooled(TEXTS, *tiny, 8, tmp_path / "cache")
