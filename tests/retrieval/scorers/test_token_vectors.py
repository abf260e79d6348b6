"""Vectors of tokens of a frozen encoder: those that transformers gives for each text alone."""

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import BertConfig, BertModel

from gedbd.corpora.templates import title_description
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_tiny_encoder
from gedbd.encoders.pretrained import tiny_tokenizer
from gedbd.encoders.text_encoder import TextEncoder
from gedbd.localization.change_ranking.late_interaction import FrozenTokens, MaxSim
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

HIDDEN = 16
TITLES = ["the application fails to start", "crash", "", "saved file is empty after a crash of the program", "slow"]


@pytest.fixture(scope="module")
def encoder() -> LoadedEncoder:
    return load_tiny_encoder("tiny", "mean", 8, 32, HIDDEN, 1, 0.0, seed=0)


@pytest.fixture(scope="module")
def reports() -> pd.DataFrame:
    day = pd.Timestamp("2024-01-01", tz="UTC") + pd.to_timedelta(np.arange(len(TITLES)), unit="D")
    return pd.DataFrame({"title": TITLES, "description": "", "created_at": day})


def expected(encoder: LoadedEncoder, text: str) -> np.ndarray:
    """Unit vectors from a model of transformers with its own attention."""
    model = BertModel(BertConfig(**encoder.model.backbone.config.to_diff_dict()), add_pooling_layer=False).eval()
    model.set_attn_implementation("eager")
    model.load_state_dict(encoder.model.backbone.state_dict())
    ids = tiny_tokenizer()(text, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        vectors = model(input_ids=ids).last_hidden_state[0, 1:-1].numpy()
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def test_vectors_are_those_of_transformers(encoder, reports):
    found = list(FrozenTokens(encoder, title_description, dim=None)(reports, "document"))
    assert len(found) == len(TITLES)
    for text, vectors in zip(TITLES, found, strict=True):
        np.testing.assert_allclose(vectors, expected(encoder, text), atol=1e-5)


def test_tokens_of_the_prefix_are_read_and_left_out(encoder, reports):
    query = load_tiny_encoder("tiny", "mean", 8, 32, HIDDEN, 1, 0.0, seed=0, prefix="query: ")
    found = list(FrozenTokens(query, title_description, dim=None)(reports, "document"))
    for text, vectors in zip(TITLES, found, strict=True):
        np.testing.assert_allclose(vectors, expected(encoder, f"query: {text}")[2:], atol=1e-5)
    assert [len(vectors) for vectors in found] == [len(encoder.tokenizer.tokenize(text)) for text in TITLES]


def test_padded_and_packed_attention_give_the_same(encoder):
    config = encoder.model.backbone.config
    padded = TextEncoder(BertModel(config, add_pooling_layer=False), "mean", 8)
    padded.load_state_dict(encoder.model.state_dict())
    padded.backbone.set_attn_implementation("eager")
    batch = encoder.tokenize(TITLES).batch(np.arange(len(TITLES)))
    with torch.no_grad():
        both = [model.eval().token_vectors(*batch) for model in (encoder.model, padded)]
        pooled = [model.pool(*batch) for model in (encoder.model, padded)]
    for packed, other, mean in zip(*both, pooled[0], strict=True):
        torch.testing.assert_close(packed, other, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(packed.mean(0), mean, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(*pooled, atol=1e-5, rtol=1e-5)


def test_the_projection_keeps_what_it_can(encoder, reports):
    whole = np.concatenate(list(FrozenTokens(encoder, title_description, dim=None)(reports, "document")))
    tokens = FrozenTokens(encoder, title_description, dim=4)
    projected = np.concatenate(list(tokens(reports, "document")))
    assert projected.shape == (len(whole), 4)
    np.testing.assert_allclose(np.linalg.norm(projected, axis=1), 1, rtol=1e-5)
    # The squared length that 4 directions keep is the sum of the 4 largest eigenvalues, from a singular decomposition.
    kept = np.linalg.svd(whole, compute_uv=False)[:4] ** 2
    assert np.square(whole @ tokens.directions_).sum() == pytest.approx(kept.sum(), rel=1e-4)
    queries = np.concatenate(list(tokens(reports, "query")))
    np.testing.assert_allclose(queries, projected, rtol=1e-5)


@pytest.mark.parametrize("dim", [None, 4])
def test_late_interaction_finds_the_report_itself(encoder, reports, dim):
    later = reports.assign(created_at=reports["created_at"] + pd.Timedelta(days=30))
    scorer = MaxSim(FrozenTokens(encoder, title_description, dim))
    scorer.fit(ScorerInputs(reports, later, pd.DataFrame({"query": [], "document": [], "label": []})))
    scores = scorer.scores(np.arange(len(TITLES)))
    for row, text in enumerate(TITLES):
        if text:
            assert scores[row].argmax() == row
            assert scores[row, row] == pytest.approx(len(tiny_tokenizer()(text)["input_ids"]) - 2, rel=1e-3)
