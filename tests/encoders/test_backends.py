"""One contract of all backends that run on this machine, and what distinguishes them; OpenVINO and nncf are real."""

import os
import sys
from collections.abc import Iterator
from copy import deepcopy
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from transformers import DistilBertConfig, DistilBertModel

from gedbd.encoders import backend as backend_module
from gedbd.encoders.backend import PreparedBackend, Quickest, Torch, encode_texts, openvino_obstacle
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_tiny_encoder
from gedbd.encoders.openvino_backend import OpenVino, has_bfloat16
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.io.console import say_once
from gedbd.text.tokens import TokenTable, tokenize

TEXTS = [f"{'crash on start of the editor ' * (number % 6)}{number}" for number in range(90)] + ["", "slow"]
# Backend and pooling. Of a Quickest, the work from which it converts the encoder.
CASES: dict[str, tuple[Any, str]] = {
    "torch, cls": (Torch(), "cls"),
    "torch, mean": (Torch(), "mean"),
    "openvino, mean": (OpenVino("float32"), "mean"),
    "quickest, converted, cls": (1, "cls"),
    "quickest, few texts, mean": (10**12, "mean"),
}


def tiny_with(**changed: Any) -> LoadedEncoder:
    sizes = {"dim": 8, "max_tokens": 32, "hidden": 16, "layers": 1, "dropout": 0.0, "seed": 0}
    return load_tiny_encoder("tiny", "mean", **sizes | changed)


def tokens(encoder: LoadedEncoder, texts: list[str] = TEXTS) -> TokenTable:
    return tokenize(texts, encoder.tokenizer, 24)


def cosines(one: np.ndarray, two: np.ndarray) -> np.ndarray:
    return (one * two).sum(axis=1) / np.linalg.norm(one, axis=1) / np.linalg.norm(two, axis=1)


@pytest.fixture(autouse=True)
def _printed_again() -> None:
    """Each test sees what is printed once in a process."""
    say_once.cache_clear()


class Case(NamedTuple):
    """A backend, its encoder in training mode, texts, and their vectors by PyTorch in evaluation mode, one by one."""

    prepared: PreparedBackend
    encoder: TextEncoder
    table: TokenTable
    expected: np.ndarray


@pytest.fixture(scope="module", params=CASES)
def case(request: pytest.FixtureRequest) -> Iterator[Case]:
    backend, pooling = CASES[request.param]
    loaded = tiny_with(dropout=0.5)
    encoder = loaded.model.train()
    encoder.pooling = pooling
    encoder.backbone.set_attn_implementation("eager")
    table = tokens(loaded)
    plain = deepcopy(encoder).eval()
    with torch.no_grad():
        rows = [plain.pool(*table.batch(np.array([row]))) for row in range(len(TEXTS))]
    with pytest.MonkeyPatch.context() as patch:
        if isinstance(backend, int):
            patch.setattr(backend_module, "MIN_CONVERTED_WORK", backend)
            backend = Quickest("float32")
        yield Case(backend.prepare(encoder, None), encoder, table, torch.cat(rows).numpy())


@pytest.mark.integration
def test_vectors_come_in_the_order_of_the_texts_and_leave_the_encoder_as_it_was(case):
    before = case.prepared.tokens_a_batch
    variable = os.environ.get("CI")
    for tokens_a_batch in (60, 10**6):
        case.prepared.tokens_a_batch = tokens_a_batch
        vectors = encode_texts(case.table, case.prepared)
        assert vectors.dtype == np.float32
        np.testing.assert_allclose(vectors, case.expected, atol=1e-5)
    case.prepared.tokens_a_batch = before
    assert all(module.training for module in case.encoder.modules())
    assert all(value.grad is None for value in case.encoder.parameters())
    assert case.encoder.backbone.config._attn_implementation == "eager"
    assert torch.is_grad_enabled()
    assert os.environ.get("CI") == variable


def test_batches_come_back_in_their_order_also_after_an_abandoned_encoding(case):
    prepared, _, table, expected = case
    rows = np.random.default_rng(0).permutation(len(TEXTS))
    abandoned = prepared.encode(table.batch(np.array([row])) for row in rows)
    next(abandoned)
    abandoned.close()
    vectors = np.concatenate([*prepared.encode(table.batch(np.array([row])) for row in rows)])
    np.testing.assert_allclose(vectors, expected[rows], atol=1e-5)
    (alone,) = prepared.encode([table.batch(rows[5:6])])
    np.testing.assert_allclose(alone, expected[rows[5:6]], atol=1e-5)


@pytest.mark.integration
def test_openvino_pads_a_single_text_to_few_lengths(tiny, monkeypatch):
    encoder, tokenizer = tiny
    monkeypatch.setattr(encoder.backbone.config, "max_position_embeddings", 70)
    prepared = OpenVino("float32").prepare(encoder, None)
    for length in (1, 32, 33, 65, 70):
        input_ids = torch.randint(5, len(tokenizer), (1, length), generator=torch.Generator().manual_seed(length))
        batch = input_ids, torch.ones_like(input_ids)
        (vectors,) = prepared.encode([batch])
        (expected,) = Torch().prepare(encoder).encode([batch])
        np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert prepared._runtime._fixed.keys() == {32, 64}


@pytest.mark.integration
def test_few_texts_are_encoded_by_torch_and_many_by_openvino(monkeypatch, capsys):
    loaded = tiny_with()
    table = tokens(loaded)
    prepared = Quickest("float32").prepare(loaded.model)
    encode_texts(table, prepared)
    assert "converted" not in vars(prepared)
    assert "backend=auto: PyTorch in float32, as the texts are too few" in capsys.readouterr().out
    list(prepared.encode([table.batch(np.array([row])) for row in range(12)]))
    assert capsys.readouterr().out == ""  # a query prints nothing
    monkeypatch.setattr(backend_module, "MIN_CONVERTED_WORK", 1)
    prepared = Quickest("float32").prepare(loaded.model)
    for _ in range(2):
        encode_texts(table, prepared)
    assert prepared.converted._runtime._queues
    assert capsys.readouterr().out.count("backend=auto: OpenVINO in float32, the quickest exact one on this CPU") == 1


def test_without_openvino_torch_encodes_and_says_why(monkeypatch, capsys):
    loaded = tiny_with()
    monkeypatch.setitem(sys.modules, "openvino", None)
    monkeypatch.setattr(backend_module, "MIN_CONVERTED_WORK", 1)
    table = tokens(loaded)
    vectors = encode_texts(table, Quickest("float32").prepare(loaded.model))
    assert (vectors == encode_texts(table, Torch().prepare(loaded.model))).all()
    line = "backend=auto: PyTorch in float32, as there is no GPU, and openvino is not installed (pip install openvino)"
    assert line in capsys.readouterr().out


@pytest.mark.integration
def test_an_architecture_is_converted_if_it_is_tested(tiny, monkeypatch):
    tokenizer = tiny[1]
    config = DistilBertConfig(vocab_size=len(tokenizer), dim=16, n_layers=2, n_heads=2, hidden_dim=32)
    encoder = TextEncoder(DistilBertModel(config), "mean", 4)
    table = tokenize(TEXTS, tokenizer, 24)
    monkeypatch.setattr(backend_module, "MIN_CONVERTED_WORK", 1)
    prepared = Quickest("float32").prepare(encoder)
    np.testing.assert_allclose(encode_texts(table, prepared), encode_texts(table, Torch().prepare(encoder)), atol=1e-5)
    assert prepared.converted._runtime._queues
    monkeypatch.setattr(encoder.backbone.config, "model_type", "deberta")
    assert openvino_obstacle(encoder, "float32") == "OpenVINO is not tested with deberta"


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_gpu_is_chosen(tiny):
    assert Quickest("bfloat16").prepare(tiny[0]).obstacle.startswith("there is a GPU")


@pytest.mark.slow
def test_int8_is_close_and_quantised_once(tmp_path):
    loaded = tiny_with()
    encoder = loaded.model
    table, sample = tokens(loaded), tokens(loaded, TEXTS[:20])
    expected = encode_texts(table, Torch().prepare(encoder, sample))
    first = OpenVino("int8", tmp_path / "new").prepare(encoder, sample)
    vectors = encode_texts(table, first)
    assert cosines(vectors, expected).min() > 0.99
    assert np.abs(vectors - expected).max() > 1e-5
    (kept,) = (tmp_path / "new").iterdir()
    assert kept.name == first.key
    written = (kept / "model.bin").stat().st_mtime_ns
    second = OpenVino("int8", tmp_path / "new").prepare(encoder, sample)
    assert (encode_texts(table, second) == vectors).all()
    assert (kept / "model.bin").stat().st_mtime_ns == written


@pytest.mark.integration
def test_bfloat16_is_close(monkeypatch):
    loaded = tiny_with()
    table = tokens(loaded)
    expected = encode_texts(table, Torch().prepare(loaded.model))
    backends = [Torch("bfloat16"), Quickest("bfloat16"), *([OpenVino("bfloat16")] if has_bfloat16() else [])]
    for prepared in [backend.prepare(loaded.model, None) for backend in backends]:
        vectors = encode_texts(table, prepared)
        assert vectors.dtype == np.float32
        assert cosines(vectors, expected).min() > 0.999
    for module in ("openvino_backend", "backend"):
        monkeypatch.setattr(f"gedbd.encoders.{module}.has_bfloat16", lambda: False)
    with pytest.raises(ValueError, match="this CPU does not support it"):
        OpenVino("bfloat16")
    assert Quickest("bfloat16").prepare(loaded.model).key == "torch-bfloat16"


def test_a_key_tells_weights_texts_and_precision_apart(tmp_path):
    loaded, other = tiny_with(), tiny_with(seed=1)
    table, fewer = tokens(loaded), tokens(loaded, TEXTS[:50])
    int8 = OpenVino("int8", tmp_path)
    keys = [
        int8.prepare(encoder.model, sample).key
        for encoder, sample in ((loaded, table), (loaded, fewer), (other, table))
    ]
    keys += [backend.prepare(loaded.model, table).key for backend in (OpenVino("float32"), Torch("bfloat16"), Torch())]
    assert len(set(keys)) == 6
    assert int8.prepare(loaded.model, table).key == keys[0]
    assert keys[-1] == Quickest("float32").prepare(loaded.model).key == ""  # the exact ones share cached vectors
    expected = "openvino-bfloat16" if has_bfloat16() else "torch-bfloat16"
    assert Quickest("bfloat16").prepare(loaded.model).key == expected


@pytest.mark.integration
def test_vectors_of_two_backends_are_kept_apart_unless_they_are_equal(tiny, tmp_path):
    encoder, tokenizer = tiny
    first = LoadedEncoder(encoder, tokenizer, 24, cache_dir=tmp_path).pool(TEXTS)
    (plain,) = tmp_path.glob("*.sqlite")
    assert plain.name.endswith("-mean-24.sqlite")
    assert (LoadedEncoder(encoder, tokenizer, 24, Quickest("float32"), tmp_path).pool(TEXTS) == first).all()
    again = LoadedEncoder(encoder, tokenizer, 24, OpenVino("float32"), tmp_path).pool(TEXTS)
    assert {path.name for path in tmp_path.glob("*.sqlite")} == {plain.name, f"{plain.stem}-openvino-float32.sqlite"}
    np.testing.assert_allclose(again, first, atol=1e-5)


@pytest.mark.parametrize(
    ("backend", "missing", "message"),
    [
        (lambda: OpenVino("float32"), "openvino", r"openvino is not installed: pip install 'gedbd\[openvino\]'"),
        (lambda: OpenVino("int8"), "nncf", r"nncf is not installed: pip install 'gedbd\[openvino\]'"),
        (lambda: OpenVino("int4"), "", "precision=int4 is unknown: choose float32, bfloat16, int8"),
        (lambda: Torch("int8"), "", "precision=int8 is unknown: choose float32 or bfloat16"),
        (lambda: Quickest("int8"), "", "precision=int8 is unknown: choose float32 or bfloat16"),
    ],
)
def test_what_cannot_work_is_refused(monkeypatch, backend, missing, message):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ValueError, match=message):
        backend()
