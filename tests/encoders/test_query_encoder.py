"""The encoder of an index's queries: the same vectors from files, which are written again if they are damaged."""

import json
import os
from pathlib import Path

import numpy as np
import pytest
from small_models import save_small_model, unigram
from transformers import AutoTokenizer

from gedbd.encoders.loaded_encoder import LoadedEncoder, load_encoder, load_tiny_encoder
from gedbd.encoders.query_encoder import QueryEncoder, stored_query_encoder
from gedbd.text.tokens import StoredTokenizer, cut_to_tokens, tokenize

pytestmark = pytest.mark.integration

TEXTS = ["crash on start", "", "the editor [SEP] <s>", "crash " * 60]
TEXTS += ["on start of the editor: 日本\tüber", "\U0001f600"]
MAX_TOKENS = 20
FILES = ["encoder.json", "model.bin", "model.xml", "tokenizer.json"]


def tiny(**options) -> LoadedEncoder:
    sizes = {"dim": 8, "max_tokens": MAX_TOKENS, "hidden": 16, "layers": 1, "dropout": 0.0, "seed": 0}
    encoder = load_tiny_encoder("tiny", "mean", **sizes | options)
    encoder.model.eval()
    return encoder


def convert(folder: Path, encoder: LoadedEncoder, made_of: str = "a") -> QueryEncoder:
    converted = stored_query_encoder(folder, made_of, "float32", lambda: encoder)
    assert isinstance(converted, QueryEncoder)
    return converted


def refuse() -> LoadedEncoder:
    raise AssertionError("the original is loaded")


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize("architecture", ["bert", "multilingual", "mpnet", "modernbert", "nomic", "xlm-roberta"])
def test_a_stored_tokenizer_gives_the_tokens_of_transformers(tmp_path, architecture):
    pieces = unigram() if architecture == "multilingual" else None
    folder = save_small_model(tmp_path, "bert" if pieces else architecture, pieces)
    original = AutoTokenizer.from_pretrained(folder)
    original.backend_tokenizer.save(str(tmp_path / "stored.json"))
    stored = StoredTokenizer(tmp_path / "stored.json", original.pad_token_id, "stored")
    assert stored.num_special_tokens_to_add() == original.num_special_tokens_to_add()
    for text in TEXTS:
        assert stored.tokenize(text) == original.tokenize(text)
    for max_tokens in (4, MAX_TOKENS):
        ours, theirs = (tokenize(TEXTS, tokenizer, max_tokens) for tokenizer in (stored, original))
        assert (ours.ids == theirs.ids).all()
        assert (ours.starts == theirs.starts).all()
        assert ours.pad_id == theirs.pad_id
    budgets = np.array([1, 2, 3, 10, 4, 5])
    ours, theirs = (cut_to_tokens(TEXTS, tokenizer, budgets) for tokenizer in (stored, original))
    assert ours[0] == theirs[0]
    assert (ours[1] == theirs[1]).all()


@pytest.mark.parametrize("options", [{"prefix": "query: "}, {"pooling": "cls"}])
def test_an_untrained_encoder_gives_the_same_vectors_without_its_projection(tmp_path, options):
    encoder = tiny(**options) if "pooling" not in options else load_tiny_encoder("tiny", "cls", 8, 20, 16, 1, 0.0, 0)
    converted = convert(tmp_path / "encoder", encoder)
    expected = encoder.encode(TEXTS, kind="query")
    assert (converted.dim, converted.text_tokens) == (encoder.dim, encoder.text_tokens)
    np.testing.assert_allclose(converted.encode(TEXTS), expected, atol=1e-5)
    for text, vector in zip(TEXTS, expected, strict=True):
        np.testing.assert_allclose(converted.encode([text])[0], vector, atol=1e-5)


def test_a_vector_does_not_depend_on_the_texts_that_are_encoded_with_it(tmp_path):
    converted = convert(tmp_path / "encoder", tiny(max_tokens=100))
    texts = [*TEXTS, "crash " * 40, "the editor crash", "crash " * 35, "on start " * 45]
    together = converted.encode(texts)
    for text, vector in zip(texts, together, strict=True):
        assert (converted.encode([text])[0] == vector).all()
    assert (converted.encode(texts[::-1]) == together[::-1]).all()
    assert (converted.encode(texts * 12) == np.tile(together, (12, 1))).all()


def test_a_trained_encoder_gives_the_same_projected_vectors(tmp_path):
    encoder = tiny(dim=4)
    encoder.is_trained = True
    converted = convert(tmp_path / "encoder", encoder)
    expected = encoder.encode(TEXTS, kind="query")
    assert expected.shape == (len(TEXTS), 4)
    np.testing.assert_allclose(converted.encode(TEXTS), expected, atol=1e-5)


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize("architecture", ["mpnet", "modernbert", "nomic", "xlm-roberta", "bert"])
def test_a_truncated_encoder_of_each_architecture_gives_the_same_vectors(tmp_path, architecture):
    folder = save_small_model(tmp_path, architecture)
    options = {"prefix": "query: ", "truncate_dim": 8, "matryoshka_dims": [8]}
    encoder = load_encoder("mine", str(folder), "mean", 4, MAX_TOKENS, **options)
    encoder.model.eval()
    converted = convert(tmp_path / "encoder", encoder)
    np.testing.assert_allclose(converted.encode(TEXTS), encoder.encode(TEXTS, kind="query"), atol=1e-5)


def test_files_are_private_read_without_the_original_and_replaced_for_another_model(tmp_path):
    first = convert(tmp_path / "encoder", tiny())
    (folder,) = (tmp_path / "encoder").iterdir()
    assert sorted(file.name for file in folder.iterdir()) == FILES
    assert os.stat(tmp_path / "encoder").st_mode & 0o077 == 0
    about = json.loads((folder / "encoder.json").read_text())
    assert set(about["sha256"]) == set(FILES[1:])
    assert str(tmp_path) not in json.dumps(about)
    again = stored_query_encoder(tmp_path / "encoder", "a", "float32", refuse)
    assert (again.encode(TEXTS) == first.encode(TEXTS)).all()
    left = tmp_path / "encoder" / "tmpabc" / "fresh"  # by a killed process
    left.mkdir(parents=True)
    (left / "model.xml").write_text("<net")
    other = tiny(seed=1)
    converted = convert(tmp_path / "encoder", other, "b")
    np.testing.assert_allclose(converted.encode(TEXTS), other.encode(TEXTS, kind="query"), atol=1e-5)
    assert [folder.name for folder in (tmp_path / "encoder").iterdir()] == ["b-float32"]


@pytest.mark.quick_cases(2)
@pytest.mark.parametrize(("name", "damage"), zip(FILES, ["cut", "changed", "missing", "changed"], strict=True))
def test_damaged_files_are_written_again(tmp_path, caplog, name, damage):
    encoder = tiny()
    expected = convert(tmp_path / "encoder", encoder).encode(TEXTS)
    (folder,) = (tmp_path / "encoder").iterdir()
    file = folder / name
    content = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(content[:100] if damage == "cut" else content[:-3] + b"\xff\x00!")
    again = convert(tmp_path / "encoder", encoder)
    assert (again.encode(TEXTS) == expected).all()
    assert f"{folder} is damaged" in caplog.text
    assert stored_query_encoder(tmp_path / "encoder", "a", "float32", refuse)


def test_where_nothing_can_be_written_the_original_encodes(tmp_path, caplog):
    (tmp_path / "encoder").write_text("a file in place of the folder")
    encoder = tiny()
    assert stored_query_encoder(tmp_path / "encoder", "a", "float32", lambda: encoder) is encoder
    assert "cannot be written" in caplog.text


def test_another_architecture_stays_with_pytorch(tmp_path):
    encoder = tiny()
    encoder.model.backbone.config.model_type = "unknown"
    assert stored_query_encoder(tmp_path / "encoder", "a", "float32", lambda: encoder) is encoder
    assert not (tmp_path / "encoder").exists()
