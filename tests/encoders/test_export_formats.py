"""Exported encoders of several architectures, read by sentence-transformers and ONNX Runtime as they are."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from small_models import save_small_model
from tokenizers import Tokenizer

import gedbd
from gedbd.encoders.adapters import add_adapters
from gedbd.encoders.export_formats import FORMATS, adapter_format, largest_difference, some_texts
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_encoder
from gedbd.encoders.text_encoder import PACKED_ATTENTION
from gedbd.io.files import whole_folder

pytestmark = pytest.mark.integration

TEXTS = ["", "slow", *(f"{'crash on start of the editor ' * (number % 9)}{number}" for number in range(40))]
MAX_TOKENS = 24
TRUNCATED = {"prefix": "query: ", "truncate_dim": 12, "matryoshka_dims": [16, 12]}
CASES = [
    ("roberta", "cls", "sentence_transformers"),
    pytest.param("roberta", "cls", "onnx", marks=pytest.mark.slow),
    ("distilbert", "mean", "sentence_transformers"),
    pytest.param("distilbert", "mean", "onnx", marks=pytest.mark.slow),
    ("albert", "mean", "sentence_transformers"),
    ("modernbert", "mean", "sentence_transformers"),
    pytest.param("modernbert", "mean", "onnx", marks=pytest.mark.slow),
    pytest.param("mpnet", "mean", "sentence_transformers", marks=pytest.mark.slow),
    pytest.param("mpnet", "mean", "onnx", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("architecture", "pooling", "name"), CASES)
def test_the_vectors_are_those_of_gedbd(tmp_path, capfd, architecture, pooling, name):
    save_small_model(tmp_path / "source", architecture)
    options = TRUNCATED if architecture in ("modernbert", "mpnet") else {}
    encoder = load_encoder(name, str(tmp_path / "source"), pooling, 8, MAX_TOKENS, **options)
    encoder.is_trained = True
    model, tokenizer = encoder.model, encoder.tokenizer
    backbone = model.train().backbone
    torch.nn.init.normal_(model.projection.bias)
    attention, length = backbone.config._attn_implementation, tokenizer.model_max_length
    folder = tmp_path / "model"
    folder.mkdir()
    FORMATS[name].write(folder, encoder)
    assert (model.training, backbone.config._attn_implementation) == (True, attention)
    assert tokenizer.model_max_length == length
    expected = encoder.encode(TEXTS)
    capfd.readouterr()
    np.testing.assert_allclose(FORMATS[name].read(folder, TEXTS), expected, atol=1e-5)
    assert "MISSING" not in "".join(capfd.readouterr())
    assert PACKED_ATTENTION not in (folder / "config.json").read_text()
    for secret in (tmp_path, Path(gedbd.__file__).parent, Path(torch.__file__).parent.parent):
        assert not any(str(secret).encode() in path.read_bytes() for path in folder.rglob("*.*") if path.is_file())
    if name == "sentence_transformers":
        read = SentenceTransformer(str(folder), device="cpu")
        assert read.max_seq_length == MAX_TOKENS
        assert [type(module).__name__ for module in read] == ["Transformer", "Pooling", "Dense", "Normalize"]
        assert read.similarity_fn_name == "cosine"
        assert {read.prompts[kind] for kind in ("query", "document")} == {options.get("prefix", "")}
        assert read[2].linear.bias.detach().numpy() == pytest.approx(model.projection.bias.detach().numpy())
        again = load_encoder("again", str(folder), pooling, 8, MAX_TOKENS, prefix=options.get("prefix"))
        np.testing.assert_allclose(again.encode(TEXTS), expected, atol=1e-6)
        by_name = gedbd.Encoder(folder, cache_dir=tmp_path / "cache")
        np.testing.assert_allclose(by_name.encode(TEXTS), expected, atol=1e-5)


def test_adapters_are_added_to_their_base_again(tmp_path):
    base = str(save_small_model(tmp_path / "base", "bert"))
    trained = load_encoder("small", base, "cls", 8, MAX_TOKENS, prefix="query: ")
    trained.is_trained = True
    before = trained.encode(TEXTS)
    add_adapters(trained.model.backbone, 2)
    state = trained.model.state_dict()
    factors = {name: torch.nn.init.normal_(value, std=0.1) for name, value in state.items() if "lora_" in name}
    expected = trained.encode(TEXTS)
    assert np.abs(expected - before).max() > 0.01
    form = adapter_format(factors, base)
    form.write(tmp_path / "adapter", trained)
    difference = largest_difference(form.read(tmp_path / "adapter", TEXTS), expected, form.tolerance)
    assert 0 < difference < 1e-3
    by_name = gedbd.Encoder(tmp_path / "adapter", cache_dir=tmp_path)
    np.testing.assert_allclose(by_name.encode(TEXTS), expected, atol=1e-3)
    # As get_peft_model_state_dict of peft names them.
    weights = load_file(tmp_path / "adapter" / "adapter_model.safetensors")
    assert weights["base_model.model.encoder.layer.1.output.dense.lora_A.weight"].shape == (2, 32)
    assert weights["base_model.model.encoder.layer.1.output.dense.lora_B.weight"].shape == (16, 2)
    assert len(weights) == len(factors) == 24
    assert {value.dtype for value in weights.values()} == {torch.float16}
    config = json.loads((tmp_path / "adapter" / "adapter_config.json").read_text())
    assert (config["r"], config["lora_alpha"], config["base_model_name_or_path"]) == (2, 4, base)
    assert {f"base_model.model.{layer}.lora_A.weight" for layer in config["target_modules"]} <= weights.keys()


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A small exported encoder with a trained projection of 16 numbers to 8."""
    folder = tmp_path_factory.mktemp("exported")
    save_small_model(folder / "source", "distilbert")
    encoder = load_encoder("small", str(folder / "source"), "cls", 8, MAX_TOKENS, prefix="query: ")
    encoder.is_trained = True
    (folder / "model").mkdir()
    FORMATS["sentence_transformers"].write(folder / "model", encoder)
    return folder / "model"


def test_other_sizes_than_those_of_the_projection_are_refused(exported):
    message = r"has a projection of other sizes: set encoder.dim=8 encoder.truncate_dim=null$"
    for dim, options in ((16, {}), (8, {"truncate_dim": 4, "matryoshka_dims": [4]})):
        with pytest.raises(ValueError, match=message):
            load_encoder("small", str(exported), "cls", dim, MAX_TOKENS, **options)


def test_a_damaged_projection_is_refused(exported, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(exported, folder)
    weights = folder / "2_Dense" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:100])
    with pytest.raises(ValueError, match=r"2_Dense/model.safetensors is damaged"):
        load_encoder("small", str(folder), "cls", 8, MAX_TOKENS, prefix="query: ")
    save_file({"linear.weight": torch.zeros(8, 5)}, weights)
    with pytest.raises(ValueError, match="its projection expects vectors of size 5, but its encoder has 16"):
        load_encoder("small", str(folder), "cls", 8, MAX_TOKENS, prefix="query: ")
    weights.unlink()
    with pytest.raises(ValueError, match=r"2_Dense/model.safetensors is missing"):
        load_encoder("small", str(folder), "cls", 8, MAX_TOKENS, prefix="query: ")


def test_the_tokenizer_cuts_and_pads_by_itself(tmp_path, tiny):
    FORMATS["sentence_transformers"].write(tmp_path, LoadedEncoder(*tiny, 20))
    assert json.loads((tmp_path / "tokenizer_config.json").read_text())["model_max_length"] == 20
    expected = tiny[1](TEXTS, truncation=True, max_length=20, padding=True)
    found = Tokenizer.from_file(str(tmp_path / "tokenizer.json")).encode_batch(TEXTS)
    assert [text.ids for text in found] == expected["input_ids"]
    assert [text.attention_mask for text in found] == expected["attention_mask"]


def test_texts_to_check_hold_the_longest_the_shortest_and_an_empty_one():
    everything = [f"{'word ' * number}{number}" for number in range(2000)]
    chosen = some_texts([*everything, *everything])
    assert {"", *everything[:40], *everything[-40:]} <= set(chosen)
    assert 150 < len(chosen) == len(set(chosen)) <= 201
    assert chosen == some_texts(everything)
    assert some_texts(["one", "one", ""]) == ["", "one"]


def test_differences_by_hand():
    found = np.array([[0.6, 0.8], [1, 0]])
    assert largest_difference(found + np.array([[0, 5e-6], [-2e-6, 0]]), found) == pytest.approx(5e-6)
    for wrong in (2e-5, np.nan):
        with pytest.raises(ValueError, match=r"differ from gedbd's by .* more than 1e-05"):
            largest_difference(found + wrong, found)


def test_a_folder_comes_whole_or_not_at_all(tmp_path):
    with pytest.raises(FileNotFoundError), whole_folder(tmp_path / "new") as fresh:
        (fresh / "first").write_bytes((fresh / "missing").read_bytes())
    assert list(tmp_path.iterdir()) == []
    with whole_folder(tmp_path / "new") as fresh:
        (fresh / "all").touch()
        assert not (tmp_path / "new").exists()
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "all"]
