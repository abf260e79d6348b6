"""Encoders that are loaded from folders and packages, and their vectors."""

import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.utils import instantiate
from omegaconf import OmegaConf
from safetensors.torch import save_file
from small_models import POSITIONS, save_small_model, small_model
from torch import nn
from torch.nn.functional import cosine_similarity
from transformers import BertModel

from gedbd.configuration.command import CONF_DIR
from gedbd.encoders.adapters import add_adapters
from gedbd.encoders.encoder_weights import fingerprint, load_state
from gedbd.encoders.loaded_encoder import QUERIES_AT_ONCE, LoadedEncoder, load_encoder, load_tiny_encoder
from gedbd.encoders.model_files import local_first
from gedbd.encoders.pretrained import tiny_backbone
from gedbd.encoders.text_encoder import TextEncoder

SIZES = {"dim": 8, "max_tokens": 32, "hidden": 16, "layers": 1, "dropout": 0.0}


@pytest.mark.parametrize("pooling", ["cls", "mean"])
def test_pooling_by_hand_with_padding(tiny, pooling):
    encoder = TextEncoder(tiny[0].backbone, pooling, dim=4).eval()
    plain = tiny_backbone(16, 1, 0.0, 0, len(tiny[1])).eval()
    input_ids = torch.tensor([[2, 100, 101, 3], [2, 102, 3, 0], [2, 3, 0, 0]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0], [1, 1, 0, 0]])
    pooled = encoder.pool(input_ids, mask)
    for row, length in enumerate((4, 3, 2)):
        hidden = plain(input_ids=input_ids[row : row + 1, :length]).last_hidden_state[0]
        expected = hidden[0] if pooling == "cls" else sum(hidden[place] for place in range(length)) / length
        torch.testing.assert_close(pooled[row], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(encoder(input_ids, mask), pooled @ encoder.projection.weight.T + encoder.projection.bias)


def test_the_projection_starts_with_orthonormal_rows_and_without_bias(tiny):
    projection = tiny[0].projection
    torch.testing.assert_close(projection.weight @ projection.weight.T, torch.eye(8), atol=1e-5, rtol=0)
    assert projection.bias.tolist() == [0.0] * 8


def test_unknown_pooling_is_refused(tiny):
    with pytest.raises(ValueError, match=r"encoder.pooling=max is unknown: choose cls or mean"):
        TextEncoder(tiny[0].backbone, "max", 4)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert", "codebert"])
def test_every_architecture_of_the_paper_loads_from_a_folder_through_its_configuration(tmp_path, name):
    architecture = "roberta" if name == "codebert" else name
    folder = save_small_model(tmp_path, architecture)
    cfg = OmegaConf.load(f"{CONF_DIR}/encoder/{name}.yaml")
    loaded = instantiate(cfg, model=str(folder), max_tokens=POSITIONS, dim=4)
    encoder, tokenizer = loaded.model, loaded.tokenizer
    assert cfg.name == name
    assert encoder.pooling == "cls"
    texts = ["crash on start " * POSITIONS, "crash"]
    batch = tokenizer(texts, truncation=True, max_length=POSITIONS, padding=True, return_tensors="pt")
    input_ids, mask = batch["input_ids"], batch["attention_mask"]
    assert input_ids.shape == (2, POSITIONS)
    expected = small_model(architecture)[0].eval()(input_ids=input_ids, attention_mask=mask).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder.eval().pool(input_ids, mask), expected, atol=1e-5, rtol=1e-5)
    vectors = encoder(input_ids, mask)
    assert vectors.shape == (2, 4)
    vectors.sum().backward()
    # An unused pooling layer would stop training on several devices.
    assert [name for name, value in encoder.named_parameters() if value.grad is None] == []
    with pytest.raises(Exception, match=rf"encoder.max_tokens=65 is more than the 64 that {folder} supports"):
        instantiate(cfg, model=str(folder), max_tokens=POSITIONS + 1)


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """The weights in a package named carrier."""
    folder = tmp_path / "carrier"
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('the package is not to be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return save_small_model(folder / "model", "bert") / "model.safetensors"


def test_a_package_is_preferred_to_the_hub_for_its_own_model(tmp_path, package):
    right = sha256(package.read_bytes()).hexdigest()
    of_package = {"package": "carrier", "packaged_model": "hub/name", "sha256": right}
    encoder = load_encoder("mine", "hub/name", "mean", 4, 8, **of_package).model
    expected = BertModel.from_pretrained(package.parent).embeddings
    assert fingerprint(encoder.backbone.embeddings) == fingerprint(expected)
    other = str(save_small_model(tmp_path, "roberta"))
    assert load_encoder("mine", other, "mean", 4, 8, **of_package).model.backbone.config.model_type == "roberta"
    with pytest.raises(ValueError, match=r"^encoder=mine: encoder.model=/no/folder: there is no such folder$"):
        load_encoder("mine", "/no/folder", "mean", 4, 8, **of_package)
    # Without the package, the folder is read.
    encoder = load_encoder("mine", other, "mean", 4, 8, package="gedbd_no_such_package", sha256="0").model
    assert encoder.backbone.config.model_type == "roberta"


def test_a_package_with_other_weights_is_refused(package):
    save_file({"other": torch.zeros(1)}, package)
    actual = sha256(package.read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=f"the weights in package carrier have SHA-256 {actual} instead of {'0' * 64}"):
        load_encoder("mine", "hub/name", "mean", 4, 8, package="carrier", sha256="0" * 64)
    shutil.rmtree(package.parent)
    with pytest.raises(ValueError, match=f"package carrier has no weights at {package.parent}"):
        load_encoder("mine", "hub/name", "mean", 4, 8, package="carrier", sha256="0" * 64)


def test_the_tiny_encoder_is_the_same_each_time_and_limited(tiny):
    again = load_tiny_encoder("tiny", "mean", **SIZES, seed=0).model
    other = load_tiny_encoder("tiny", "mean", **SIZES, seed=1).model
    assert fingerprint(again.backbone) == fingerprint(tiny[0].backbone) != fingerprint(other.backbone)
    with pytest.raises(ValueError, match="encoder=tiny reads at most 512 tokens"):
        load_tiny_encoder("tiny", "mean", **SIZES | {"max_tokens": 513}, seed=0)


def test_a_fingerprint_changes_with_any_weight_and_its_name():
    module = nn.ModuleDict({"a": nn.Linear(2, 2), "b": nn.BatchNorm1d(2)})  # the latter has a buffer without axes
    seen = {fingerprint(module)}
    assert fingerprint(module) in seen
    for value in module.state_dict().values():
        value.view(-1)[-1] += 1
        seen.add(fingerprint(module))
    assert len(seen) == 1 + len(module.state_dict())
    assert fingerprint(nn.ModuleDict({"aa": module["a"], "b": module["b"]})) not in seen


def test_the_packaged_minilm_knows_paraphrases():
    loaded = instantiate(OmegaConf.load(f"{CONF_DIR}/encoder/minilm.yaml"))
    encoder, tokenizer = loaded.model, loaded.tokenizer
    texts = [
        "The application crashes when I open a large file",
        "Opening big documents makes the program quit unexpectedly",
        "Please add a dark theme to the settings dialog",
        "Calendar shows the wrong week number in January",
    ]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        vectors = encoder.eval().pool(batch["input_ids"], batch["attention_mask"])
    assert vectors.shape == (4, 384)
    similar = cosine_similarity(vectors[:, None], vectors[None], dim=-1)
    assert similar.diagonal().tolist() == pytest.approx([1.0] * 4)
    assert similar[0, 1] > 0.5 > similar[[0, 0, 1, 1, 2], [2, 3, 2, 3, 3]].max()


def test_queries_get_the_vectors_of_documents_and_are_not_cached(tiny, tmp_path):
    encoder = LoadedEncoder(*tiny, 16, cache_dir=tmp_path)
    texts = [f"crash on start {number}" for number in range(QUERIES_AT_ONCE + 3)]
    found = encoder.encode(texts, kind="query")
    assert list(tmp_path.iterdir()) == []
    np.testing.assert_allclose(found, encoder.encode(texts), atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, atol=1e-6)
    assert found.shape == (len(texts), encoder.dim) == (len(texts), 16)


def test_loaded_weights_are_projected_and_used_at_once(tiny, tmp_path):
    encoder = LoadedEncoder(*tiny, 16)
    before = encoder.encode(["crash"], kind="query")
    trained = load_tiny_encoder("tiny", "mean", **SIZES, seed=1).model
    state = {f"encoder.{name}": value for name, value in trained.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "best.ckpt")
    encoder.load_weights(tmp_path / "best.ckpt")
    after = encoder.encode(["crash"], kind="query")
    assert (before.shape, after.shape, encoder.dim) == ((1, 16), (1, 8), 8)
    batch = encoder.tokenizer(["crash"], return_tensors="pt")
    with torch.no_grad():
        expected = trained.eval()(batch["input_ids"], batch["attention_mask"])
    np.testing.assert_allclose(after, nn.functional.normalize(expected, dim=1), atol=1e-5)


def test_adapters_add_nothing_untrained_and_are_merged_when_loaded(tiny, tmp_path):
    trained = load_tiny_encoder("tiny", "mean", **SIZES, seed=0)
    model, texts = trained.model, ["crash on start of the editor", "slow", ""]
    plain = trained.encode(texts)
    weights = dict(model.backbone.named_parameters())
    add_adapters(model.backbone, 2)
    assert np.array_equal(trained.encode(texts), plain)
    added = {name: value for name, value in model.backbone.named_parameters() if value.requires_grad}
    layers = [name for name, module in model.backbone.named_modules() if isinstance(module, nn.Linear)]
    assert added.keys() == {f"{layer}.lora_{side}" for layer in layers for side in "AB"}
    for value in added.values():
        nn.init.normal_(value, std=0.1)
    expected = trained.encode(texts)
    assert np.abs(expected - plain).max() > 0.01
    state = {f"encoder.{name}": value for name, value in model.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "best.ckpt")
    merged = LoadedEncoder(*tiny, 32)
    merged.load_weights(tmp_path / "best.ckpt")
    merged.is_trained = False
    np.testing.assert_allclose(merged.encode(texts), expected, atol=1e-5)
    assert dict(merged.model.backbone.named_parameters()).keys() == weights.keys()
    layer = layers[0]
    by_hand = weights[f"{layer}.weight"] + 2 * added[f"{layer}.lora_B"] @ added[f"{layer}.lora_A"]
    torch.testing.assert_close(merged.model.backbone.get_submodule(layer).weight, by_hand)
    load_state(model, model.state_dict(), "x")  # a model with adapters keeps them
    assert np.array_equal(trained.encode(texts), expected)
    with pytest.raises(ValueError, match=r"^x holds the weights of another model than .* 'projection.lora_B'$"):
        load_state(merged.model, {"projection.lora_A": torch.ones(2, 16), "projection.weight": torch.ones(8, 16)}, "x")
    with pytest.raises(ValueError, match=r"no linear layers"):
        add_adapters(nn.Embedding(3, 2), 2)


@pytest.mark.parametrize("offline", [True, False])
def test_without_a_hub_a_model_is_refused_at_once(monkeypatch, offline):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", offline)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    asked = []

    def read(local):
        asked.append(local)
        raise OSError("no files")

    why = "HF_HUB_OFFLINE is set" if offline else r"http://127\.0\.0\.1:9 cannot be reached"
    with pytest.raises(ValueError, match=rf"^encoder=roberta: .* {why}: run `hf download .* set encoder\.model="):
        local_first("encoder", "roberta", "FacebookAI/roberta-base", read)
    assert asked == [True]
