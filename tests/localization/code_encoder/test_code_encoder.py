"""The folder of an encoder of code, and the encoder without pretrained weights."""

import json

import pytest
import torch
from transformers import AutoModel

from gedbd.encoders.backend import Torch
from gedbd.encoders.loaded_encoder import load_encoder
from gedbd.localization.code_encoder.code_encoder import (
    SETTINGS_FILE,
    UntrainedEncoder,
    byte_pair_tokenizer,
    load_code_encoder,
    save_encoder,
)
from gedbd.localization.code_encoder.code_inputs import InputLimits, InputParts, add_code_tokens, collate, make_input

LIMITS = InputLimits(8, 60, 20)
PARTS = InputParts(roles=False, edges="data")


@pytest.fixture
def folder(model, tmp_path):
    backbone, tokenizer = model
    add_code_tokens(tokenizer, backbone)
    save_encoder(tmp_path / "encoder", backbone, tokenizer, LIMITS, PARTS)
    return tmp_path / "encoder"


def test_it_is_read_as_it_was_written(model, folder, code, graph) -> None:
    backbone, tokenizer = model
    saved = load_code_encoder(folder)
    assert (saved.limits, saved.parts) == (LIMITS, PARTS)
    batch = collate([make_input(saved.tokenizer, code, "", graph, LIMITS, PARTS)])
    assert batch.input_ids.equal(collate([make_input(tokenizer, code, "", graph, LIMITS, PARTS)]).input_ids)
    loaded = AutoModel.from_pretrained(folder).state_dict()
    for key, value in saved.encoder.backbone.state_dict().items():
        assert torch.equal(value, backbone.state_dict()[key])
        assert torch.equal(value, loaded[key])
    assert torch.isfinite(saved.encoder(batch)).all()


def test_the_plain_encoder_makes_vectors_of_texts(folder) -> None:
    encoder = load_encoder("codebert", str(folder), "cls", 4, 32)
    vectors = encoder.encode(["int[N] a", "int[m] a", "int[N] a"])
    assert (vectors[0] == vectors[2]).all()
    assert abs(vectors[0] - vectors[1]).max() > 1e-4
    tokens = encoder.tokenize(["a[N]"])
    assert encoder.tokenizer.convert_tokens_to_ids("[N]") not in tokens.ids


def test_other_folders_are_refused_in_one_line(folder, tmp_path) -> None:
    with pytest.raises(ValueError, match=r"no code_inputs\.json; give the encoder/ folder of a run"):
        load_code_encoder(tmp_path)
    settings = json.loads((folder / SETTINGS_FILE).read_text())
    settings["limits"]["code_tokens"] = 1000
    (folder / SETTINGS_FILE).write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"code_tokens=1000 .* the encoder has 512 positions"):
        load_code_encoder(folder)
    (folder / SETTINGS_FILE).write_text("{")
    with pytest.raises(ValueError, match="is damaged"):
        load_code_encoder(folder)
    (folder / SETTINGS_FILE).write_text(json.dumps({"limits": {}, "parts": {}}))
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
    with pytest.raises(ValueError, match="cannot load the encoder"):
        load_code_encoder(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ValueError, match="cannot load the encoder"):
        load_code_encoder(folder)


SIZES = {"name": "untrained", "layers": 1, "hidden": 8, "heads": 2, "intermediate": 8, "vocab_size": 320}
SIZES |= {"max_tokens": 32, "dropout": 0.0, "attention_dropout": 0.0, "seed": 0}
TEXTS = ["int getValue() { return value; }", "void setValue(int value) { this.value = value; }"]


def test_the_same_texts_and_seed_give_the_same_encoder():
    first, second = (UntrainedEncoder(**SIZES).fit(TEXTS) for _ in range(2))
    assert first[1].get_vocab() == second[1].get_vocab()
    for name, value in first[0].state_dict().items():
        assert torch.equal(second[0].state_dict()[name], value)
    other, _ = UntrainedEncoder(**SIZES | {"seed": 1}).fit(TEXTS)
    assert not torch.equal(other.embeddings.word_embeddings.weight, first[0].embeddings.word_embeddings.weight)


def test_tokens_are_texts_in_their_places():
    tokenizer = byte_pair_tokenizer(TEXTS, 320)
    text = "int  getValue(ü)"
    found = tokenizer(text, return_offsets_mapping=True)
    assert tokenizer.decode(found["input_ids"], skip_special_tokens=True) == text
    pieces = [text[start:end] for start, end in found["offset_mapping"]]
    assert pieces[0] == pieces[-1] == ""  # [CLS] and [SEP]
    assert "".join(pieces[1:]).replace(" ", "").startswith("intgetValue(")
    assert len(tokenizer) <= 320


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": Torch()}, "encoder=untrained has neither weights nor a tokenizer before it is pre-trained"),
        ({"hidden": 9}, "encoder.heads=2 must divide encoder.hidden=9"),
    ],
)
def test_what_cannot_work_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UntrainedEncoder(**SIZES | options)
