"""The choice of a backend, and that it cannot be told from the vectors."""

import sys

import numpy as np
import pytest
import torch
from transformers import DistilBertConfig, DistilBertModel

from gedbd.encoders.backends import quickest
from gedbd.encoders.backends.backend import encode_texts
from gedbd.encoders.backends.openvino import has_bfloat16
from gedbd.encoders.backends.pytorch import Torch
from gedbd.encoders.backends.quickest import Quickest, openvino_obstacle
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import say_once
from gedbd.text.tokens import tokenize

MANY = [f"{'crash on start of the editor ' * (number % 6)}{number}" for number in range(90)]


@pytest.fixture(autouse=True)
def printed_again():
    """Each test sees what is printed once in a process."""
    say_once.cache_clear()


def test_few_texts_are_encoded_by_torch_and_many_by_openvino(tiny, monkeypatch, capsys):
    encoder, tokenizer = tiny
    table = tokenize(MANY, tokenizer, 24)
    expected = encode_texts(table, Torch().prepare(encoder))
    prepared = Quickest("float32").prepare(encoder)
    np.testing.assert_allclose(encode_texts(table, prepared), expected, atol=1e-5)
    assert not prepared.converted._queues
    assert "backend=auto: PyTorch in float32, as the texts are too few" in capsys.readouterr().out
    monkeypatch.setattr(quickest, "MIN_CONVERTED_WORK", 1)
    prepared = Quickest("float32").prepare(encoder)
    for _ in range(2):
        np.testing.assert_allclose(encode_texts(table, prepared), expected, atol=1e-5)
    assert prepared.converted._queues
    assert capsys.readouterr().out.count("backend=auto: OpenVINO in float32, the quickest exact one on this CPU") == 1


def test_a_query_prints_nothing_and_keeps_the_order_of_batches(tiny, monkeypatch, capsys):
    monkeypatch.setattr(quickest, "MIN_CONVERTED_WORK", 10**6)
    encoder, tokenizer = tiny
    table = tokenize(MANY[:12], tokenizer, 24)
    batches = [table.batch(np.array([row])) for row in range(12)]
    found = list(Quickest("float32").prepare(encoder).encode(iter(batches)))
    np.testing.assert_allclose(found, list(Torch().prepare(encoder).encode(batches)), atol=1e-5)
    assert capsys.readouterr().out == ""


def test_the_exact_backends_share_cached_vectors(tiny, tmp_path):
    encoder, tokenizer = tiny
    first = LoadedEncoder(encoder, tokenizer, 24, cache_dir=tmp_path).pool(MANY)
    again = LoadedEncoder(encoder, tokenizer, 24, Quickest("float32"), tmp_path).pool(MANY)
    assert (again == first).all()
    assert len(list(tmp_path.glob("*.sqlite"))) == 1


def test_bfloat16_is_close_and_kept_apart(tiny):
    encoder, tokenizer = tiny
    table = tokenize(MANY, tokenizer, 24)
    expected = encode_texts(table, Torch().prepare(encoder))
    keys = {""}
    for prepared in (Torch("bfloat16").prepare(encoder), Quickest("bfloat16").prepare(encoder)):
        found = encode_texts(table, prepared)
        assert found.dtype == np.float32
        length = np.linalg.norm(found, axis=1) * np.linalg.norm(expected, axis=1)
        assert ((found * expected).sum(1) / length).min() > 0.999
        keys.add(prepared.key)
    assert len(keys) == 2 + has_bfloat16()  # without bfloat16 in OpenVINO, both are PyTorch


def test_without_openvino_torch_encodes_and_says_why(tiny, monkeypatch, capsys):
    encoder, tokenizer = tiny
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setattr(quickest, "MIN_CONVERTED_WORK", 1)
    table = tokenize(MANY, tokenizer, 24)
    found = encode_texts(table, Quickest("float32").prepare(encoder))
    assert (found == encode_texts(table, Torch().prepare(encoder))).all()
    line = "backend=auto: PyTorch in float32, as there is no GPU, and openvino is not installed (pip install openvino)"
    assert line in capsys.readouterr().out


def test_an_untested_architecture_is_not_converted(tiny, monkeypatch):
    encoder = tiny[0]
    monkeypatch.setattr(encoder.backbone.config, "model_type", "deberta")
    assert openvino_obstacle(encoder, "float32") == "OpenVINO is not tested with deberta"


def test_distilbert_by_openvino_equals_torch(tiny, monkeypatch):
    monkeypatch.setattr(quickest, "MIN_CONVERTED_WORK", 1)
    tokenizer = tiny[1]
    config = DistilBertConfig(vocab_size=len(tokenizer), dim=16, n_layers=2, n_heads=2, hidden_dim=32)
    encoder = TextEncoder(DistilBertModel(config), "mean", 4)
    table = tokenize(MANY, tokenizer, 24)
    prepared = Quickest("float32").prepare(encoder)
    np.testing.assert_allclose(encode_texts(table, prepared), encode_texts(table, Torch().prepare(encoder)), atol=1e-5)
    assert prepared.converted._queues


def test_an_unknown_precision_is_refused():
    with pytest.raises(ValueError, match="precision=int8 is unknown: choose float32 or bfloat16"):
        Quickest("int8")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_chosen(tiny):
    assert Quickest("bfloat16").prepare(tiny[0]).obstacle.startswith("there is a GPU")
