import shutil
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
import torch
from hydra.errors import InstantiationException
from hydra.utils import instantiate
from omegaconf import OmegaConf
from safetensors.torch import save_file
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from torch import nn
from torch.nn.functional import cosine_similarity
from transformers import (
    BertConfig,
    BertModel,
    DistilBertConfig,
    DistilBertModel,
    PreTrainedTokenizerFast,
    RobertaConfig,
    RobertaModel,
)

from gedbd.configuration.command import CONF_DIR
from gedbd.encoders.encoder_weights import fingerprint
from gedbd.encoders.loaded_encoder import QUERIES_AT_ONCE, LoadedEncoder, load_encoder, load_tiny_encoder
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.encoders.tiny_bert import tiny_backbone

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
BACKBONES = {
    "bert": lambda: BertModel(BertConfig(vocab_size=40, max_position_embeddings=20, **SMALL)),
    "roberta": lambda: RobertaModel(RobertaConfig(vocab_size=40, max_position_embeddings=22, pad_token_id=1, **SMALL)),
    "distilbert": lambda: DistilBertModel(
        DistilBertConfig(vocab_size=40, max_position_embeddings=20, dim=8, n_layers=1, n_heads=2, hidden_dim=16)
    ),
}
BACKBONES["codebert"] = BACKBONES["roberta"]
LONGEST = 20


def save_model(folder: Path, name: str) -> Path:
    """A tiny random model of an encoder's architecture with a tokenizer, as the hub would hold them."""
    torch.manual_seed(0)
    BACKBONES[name]().save_pretrained(folder)
    ends = ("<s>", "</s>") if "roberta" in name or name == "codebert" else ("[CLS]", "[SEP]")
    pad = "<pad>" if ends[0] == "<s>" else "[PAD]"
    first = [ends[0], pad] if ends[0] == "<s>" else [pad, ends[0]]
    vocabulary = [*first, ends[1], "[UNK]", "crash", "on", "start"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(vocabulary)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    numbers = [(word, vocabulary.index(word)) for word in ends]
    tokenizer.post_processor = processors.TemplateProcessing(f"{ends[0]} $A {ends[1]}", special_tokens=numbers)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=pad, unk_token="[UNK]", cls_token=ends[0], sep_token=ends[1]
    ).save_pretrained(folder)
    return folder


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
    folder = save_model(tmp_path, name)
    cfg = OmegaConf.load(f"{CONF_DIR}/encoder/{name}.yaml")
    loaded = instantiate(cfg, model=str(folder), max_tokens=LONGEST, dim=4)
    encoder, tokenizer = loaded.model, loaded.tokenizer
    assert cfg.name == name
    assert encoder.pooling == "cls"
    batch = tokenizer(["crash on start " * 10, "crash"], truncation=True, max_length=LONGEST, padding=True)
    input_ids, mask = torch.tensor(batch["input_ids"]), torch.tensor(batch["attention_mask"])
    assert input_ids.shape == (2, LONGEST)
    assert encoder(input_ids, mask).shape == (2, 4)
    torch.manual_seed(0)
    backbone = BACKBONES[name]().eval()
    expected = backbone(input_ids=input_ids, attention_mask=mask).last_hidden_state[:, 0]
    torch.testing.assert_close(encoder.eval().pool(input_ids, mask), expected)
    with pytest.raises(
        InstantiationException, match=rf"encoder.max_tokens=21 is more than the 20 that {folder} supports"
    ):
        instantiate(cfg, model=str(folder), max_tokens=LONGEST + 1)


@pytest.mark.parametrize("name", ["bert", "roberta", "distilbert"])
def test_all_loaded_weights_are_used(tmp_path, name):
    """An unused pooling layer would stop training on several devices."""
    encoder = load_encoder(name, str(save_model(tmp_path, name)), "cls", 4, 8).model
    encoder(torch.tensor([[1, 4, 2]]), torch.ones(1, 3, dtype=torch.int64)).sum().backward()
    assert [name for name, value in encoder.named_parameters() if value.grad is None] == []


@pytest.mark.parametrize("inside", ["nothing", "tokenizer only"])
def test_a_missing_model_is_named_with_what_to_do(tmp_path, inside):
    folder = tmp_path / "none"
    if inside == "tokenizer only":
        folder.mkdir()
        (folder / "config.json").write_text('{"model_type": "bert"}')
    told = rf"cannot load {folder}: .*set encoder.model=<folder>" if folder.is_dir() else "there is no such folder"
    with pytest.raises(ValueError, match=f"encoder=mine: .*{told}"):
        load_encoder("mine", str(folder), "cls", 4, 8)


def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "carrier"
    (folder / "model").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('the package is not to be imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return save_model(folder / "model", "bert")


def test_a_package_is_preferred_to_the_hub_once_its_hash_is_right(tmp_path, monkeypatch):
    weights = packaged(tmp_path, monkeypatch) / "model.safetensors"
    right = sha256(weights.read_bytes()).hexdigest()
    encoder = load_encoder("mine", "hub/name", "mean", 4, 8, package="carrier", sha256=right).model
    assert fingerprint(encoder.backbone.embeddings) == fingerprint(BertModel.from_pretrained(weights.parent).embeddings)


def test_a_package_stands_for_its_own_model_alone(tmp_path, monkeypatch):
    right = sha256((packaged(tmp_path, monkeypatch) / "model.safetensors").read_bytes()).hexdigest()
    of_package = {"package": "carrier", "packaged_model": "hub/name", "sha256": right}
    other = str(save_model(tmp_path, "roberta"))
    assert load_encoder("mine", "hub/name", "mean", 4, 8, **of_package).model.backbone.config.model_type == "bert"
    assert load_encoder("mine", other, "mean", 4, 8, **of_package).model.backbone.config.model_type == "roberta"
    with pytest.raises(ValueError, match=r"^encoder=mine: encoder.model=/no/folder: there is no such folder$"):
        load_encoder("mine", "/no/folder", "mean", 4, 8, **of_package)


def test_a_package_with_other_weights_is_refused(tmp_path, monkeypatch):
    folder = packaged(tmp_path, monkeypatch)
    save_file({"other": torch.zeros(1)}, folder / "model.safetensors")
    found = sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    with pytest.raises(ValueError, match=f"the weights in package carrier have SHA-256 {found} instead of {'0' * 64}"):
        load_encoder("mine", "hub/name", "mean", 4, 8, package="carrier", sha256="0" * 64)
    shutil.rmtree(folder)
    with pytest.raises(ValueError, match=f"package carrier has no weights at {folder}"):
        load_encoder("mine", "hub/name", "mean", 4, 8, package="carrier", sha256="0" * 64)


def test_without_the_package_the_folder_is_read(tmp_path):
    folder = str(save_model(tmp_path, "bert"))
    encoder = load_encoder("mine", folder, "mean", 4, 8, package="gedbd_no_such_package", sha256="0").model
    assert encoder.projection.weight.shape == (4, 8)


def test_the_tiny_encoder_is_the_same_each_time_and_limited(tiny):
    again = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=0).model
    other = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=1).model
    assert fingerprint(again.backbone) == fingerprint(tiny[0].backbone) != fingerprint(other.backbone)
    with pytest.raises(ValueError, match="encoder=tiny reads at most 512 tokens"):
        load_tiny_encoder("tiny", "mean", dim=8, max_tokens=513, hidden=16, layers=1, dropout=0.0, seed=0)


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
    trained = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=1).model
    state = {f"encoder.{name}": value for name, value in trained.state_dict().items()}
    torch.save({"state_dict": state}, tmp_path / "best.ckpt")
    encoder.load_weights(tmp_path / "best.ckpt")
    after = encoder.encode(["crash"], kind="query")
    assert (before.shape, after.shape, encoder.dim) == ((1, 16), (1, 8), 8)
    batch = encoder.tokenizer(["crash"], return_tensors="pt")
    with torch.no_grad():
        expected = trained.eval()(batch["input_ids"], batch["attention_mask"])
    np.testing.assert_allclose(after, nn.functional.normalize(expected, dim=1), atol=1e-5)
