"""The attention mask against a double loop over its formula, and the folder of an encoder of code."""

import json

import numpy as np
import pytest
import torch
from transformers import AutoModel

from gedbd.encoders.loaded_encoder import load_encoder
from gedbd.localization.code_encoder.code_encoder import (
    SETTINGS_FILE,
    CodeEncoder,
    UntrainedEncoder,
    attention_mask,
    byte_pair_tokenizer,
    load_code_encoder,
    save_encoder,
)
from gedbd.localization.code_encoder.code_inputs import (
    CodeBatch,
    InputLimits,
    InputParts,
    add_code_tokens,
    collate,
    make_input,
)
from gedbd.localization.flow_graph.node_types import FlowGraph

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
    saved, saved_tokenizer, *settings = load_code_encoder(folder)
    assert settings == [LIMITS, PARTS]
    batch = collate([make_input(saved_tokenizer, code, "", graph, LIMITS, PARTS)])
    assert batch.input_ids.equal(collate([make_input(tokenizer, code, "", graph, LIMITS, PARTS)]).input_ids)
    loaded = AutoModel.from_pretrained(folder).state_dict()
    for key, value in saved.state_dict().items():
        assert torch.equal(value, backbone.state_dict()[key])
        assert torch.equal(value, loaded[key])
    assert torch.isfinite(CodeEncoder(saved)(batch)).all()


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
    limits = {"limits": {"code_tokens": 1000}, "parts": {}}
    for settings, message in (("{", "is damaged"), (json.dumps(limits), r"code_tokens=1000 .* has 512 positions")):
        (folder / SETTINGS_FILE).write_text(settings)
        with pytest.raises(ValueError, match=message):
            load_code_encoder(folder)
    (folder / SETTINGS_FILE).write_text(json.dumps({"limits": {}, "parts": {}}))
    (folder / "model.safetensors").write_bytes((folder / "model.safetensors").read_bytes()[:1000])
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


CODES = ("int f(int a) { if (a > 0) return a; }", "void g() { }", "x = y[N] + f(z, y);")
COMMENTS = ("the int", "", "a b c d e f")
PARTS_OF_MASK = (InputParts(), InputParts(types=False), InputParts(nodes=False, types=False, roles=False))


def random_graph(code: str, rng: np.random.Generator) -> FlowGraph:
    """Up to seven nodes anywhere in a text with edges between any of them, themselves included."""
    number = int(rng.integers(0, 8))
    begins = np.sort(rng.integers(0, len(code) - 1, number))
    spans = np.stack([begins, np.minimum(begins + rng.integers(1, 6, number), len(code))], axis=1)
    types = rng.integers(0, 55, number)
    roles = np.where(types < 20, rng.integers(0, 43, number), -1)
    edges = np.argwhere(rng.random((number, number)) < 0.3).T
    kinds = rng.integers(0, 3, edges.shape[1])
    return FlowGraph(("",) * number, spans, types, roles, edges, kinds)


def random_batch(tokenizer, parts: InputParts, seed: int) -> CodeBatch:
    rng = np.random.default_rng(seed)
    limits = InputLimits(4, 14, 5)
    methods = zip(CODES, COMMENTS, strict=True)
    return collate(
        [make_input(tokenizer, code, text, random_graph(code, rng), limits, parts) for code, text in methods]
    )


def by_formula(batch: CodeBatch, tokenizer) -> list[list[list[bool]]]:
    """The mask, cell by cell."""
    joined = {tuple(edge) for kind in batch.edges for edge in kind.T.tolist()}
    joined |= {(row, node, token) for row, token, node in batch.edges.code_node.T.tolist()}
    masks = []
    for row, ids in enumerate(batch.input_ids.tolist()):
        words = tokenizer.convert_ids_to_tokens(ids)
        separator = words.index("[SEP]")
        length = int(batch.lengths[row])
        masks.append([[i == j for j in range(len(ids))] for i in range(len(ids))])
        for i in range(length):
            for j in range(length):
                in_text = 0 < i < separator and 0 < j < separator
                masks[-1][i][j] |= words[i] in ("[CLS]", "[SEP]") or in_text or (row, i, j) in joined
    return masks


@pytest.mark.parametrize("parts", PARTS_OF_MASK)
def test_it_equals_the_formula(tokenizer, parts) -> None:
    for seed in range(2):
        batch = random_batch(tokenizer, parts, seed)
        mask = attention_mask(batch)
        assert mask.shape == (3, 1, batch.input_ids.shape[1], batch.input_ids.shape[1])
        assert mask.dtype == torch.bool
        assert mask[:, 0].tolist() == by_formula(batch, tokenizer)


@torch.no_grad()
def test_a_token_that_may_not_be_attended_to_changes_nothing(model, code, graph) -> None:
    backbone, tokenizer = model
    add_code_tokens(tokenizer, backbone)
    encoder = CodeEncoder(backbone).eval()
    batch = collate([make_input(tokenizer, code, "int", graph, InputLimits(), InputParts())])
    mask = attention_mask(batch)
    before = encoder(batch)
    for place in (0, 1, 5, int(batch.blocks[0, 2, 0]), int(batch.blocks[0, 3, 0]), batch.input_ids.shape[1] - 1):
        ids = batch.input_ids.clone()
        ids[0, place] = tokenizer.convert_tokens_to_ids("[NODE]" if place < 20 else "[C]")
        changed = (encoder(batch._replace(input_ids=ids)) - before).abs().amax(2)[0] > 1e-6
        assert torch.equal(changed, mask[0, 0, :, place])


@torch.no_grad()
def test_padding_changes_no_vector(model, code, graph) -> None:
    backbone, tokenizer = model
    add_code_tokens(tokenizer, backbone)
    encoder = CodeEncoder(backbone).eval()
    longer = make_input(tokenizer, code, "int", graph, InputLimits(), InputParts())
    shorter = make_input(tokenizer, "int f", "", None, InputLimits(), InputParts(types=False, roles=False))
    together = collate([longer, shorter])
    alone = collate([shorter])
    expected = encoder(alone)[0]
    found = encoder(together)[1]
    assert torch.isfinite(found).all()
    assert torch.allclose(found[: len(shorter)], expected, atol=1e-5)
