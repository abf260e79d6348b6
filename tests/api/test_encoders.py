"""Encoders by the API: names, folders and objects."""

import random

import numpy as np
import pytest
import torch

import gedbd
from gedbd.encoders.loaded_encoder import load_tiny_encoder

TEXTS = ["Crash on paste", "Printing is slow", "The folder list is empty"]


@pytest.fixture
def sentence_transformer(tmp_path):
    """A model of sentence-transformers made of the tiny encoder, saved in a folder."""
    models = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    from sentence_transformers import SentenceTransformer

    encoder = load_tiny_encoder("tiny", "mean", dim=16, max_tokens=32, hidden=32, layers=2, dropout=0.1, seed=0)
    encoder.model.backbone.set_attn_implementation("eager")
    encoder.model.backbone.save_pretrained(tmp_path / "backbone")
    encoder.tokenizer.save_pretrained(tmp_path / "backbone")
    transformer = models.Transformer(str(tmp_path / "backbone"))
    model = SentenceTransformer(modules=[transformer, models.Pooling(32, "mean")], device="cpu")
    model.max_seq_length = 32
    model.save(str(tmp_path / "model"))
    return model


@pytest.mark.integration
def test_the_same_model_by_name_by_folder_and_as_an_object(sentence_transformer, tmp_path, cache):
    by_name = gedbd.Encoder("tiny", cache_dir=cache).encode(TEXTS, kind="query")
    by_folder = gedbd.Encoder(tmp_path / "model", cache_dir=cache, max_tokens=32)
    as_object = gedbd.Encoder(sentence_transformer)
    assert as_object.name == "SentenceTransformer"
    for encoder in (by_folder, as_object):
        assert encoder.dim == 32
        np.testing.assert_allclose(encoder.encode(TEXTS), by_name, atol=1e-5)
    corpus = gedbd.load_corpus("demo", last_n=100)
    ranks = [gedbd.rank(corpus, "frozen", encoder=encoder).queries["rank"] for encoder in (by_folder, as_object)]
    assert list(ranks[0]) == list(ranks[1])


class Returns:
    """An object whose ``encode`` gives whatever it was made with."""

    def __init__(self, answer):
        self.answer = answer

    def encode(self, sentences):
        return self.answer


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        (np.ones(3), r"^Returns.encode\(\) returned an array of shape \(3,\) and type float64 for 3 texts"),
        (np.ones((2, 4)), r"^Returns.encode\(\) returned an array of shape \(2, 4\)"),
        (np.full((3, 4), np.nan), r"^Returns.encode\(\) returned numbers that are not finite"),
    ],
)
def test_what_an_object_returns_is_checked(answer, line):
    with pytest.raises(ValueError, match=line):
        gedbd.Encoder(Returns(answer)).encode(TEXTS)


def test_vectors_of_an_object_are_unit_rows(hashed_words):
    vectors = gedbd.Encoder(hashed_words).encode([*TEXTS, ""])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0], rtol=1e-6)
    assert gedbd.Encoder(hashed_words).encode([]).shape == (0, 64)


def test_mistakes_are_said_in_one_line(hashed_words):
    with pytest.raises(ValueError, match=r"^encoder 'foo' is neither a folder, nor OWNER/NAME on the Hugging Face hub"):
        gedbd.Encoder("foo")
    with pytest.raises(ValueError, match=r"^int is not an encoder: give a name, a folder, or an object with"):
        gedbd.Encoder(3)
    with pytest.raises(ValueError, match=r"^texts is a single text: give a list of texts$"):
        gedbd.Encoder("tiny").encode("Crash")
    with pytest.raises(ValueError, match=r"^encoder=tiny reads at most 512 tokens: lower max_tokens$"):
        gedbd.Encoder("tiny", max_tokens=1000).encode(TEXTS)
    with pytest.raises(ValueError, match=r"^max_tokens does not apply to HashedWords"):
        gedbd.Encoder(hashed_words, max_tokens=10)


def test_random_numbers_of_the_caller_stay(demo, hashed_words):
    state = random.getstate()
    drawn = torch.get_rng_state()
    gedbd.rank(demo, "frozen", encoder=hashed_words)
    assert random.getstate() == state
    assert torch.equal(torch.get_rng_state(), drawn)
