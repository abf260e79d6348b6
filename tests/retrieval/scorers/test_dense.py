from pathlib import Path

import numpy as np
import pytest
import torch
from small_reports import NO_PAIRS
from torch import nn

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.templates import title_description
from gedbd.encoders.loaded_encoder import LoadedEncoder, load_tiny_encoder
from gedbd.retrieval.scorers.dense_scorer import DenseScorer
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

TITLES = ["crash on start", "", "the editor is slow", "crash", "crash on start", "print"]
DESCRIPTIONS = ["", "", "since the last version", "on start of the editor", "", "crash " * 40]
TEXTS = [
    "crash on start",
    "",
    "the editor is slow\nsince the last version",
    "crash\non start of the editor",
    "crash on start",
    ("print\n" + "crash " * 40).strip(),
]


def inputs_of(corpus: Corpus) -> ScorerInputs:
    return ScorerInputs.of_reports(corpus.reports, NO_PAIRS)


@pytest.fixture
def corpus(make_corpus) -> Corpus:
    made = make_corpus([0, 1, 2, 0, 0, 5])
    made.reports["title"], made.reports["description"] = TITLES, DESCRIPTIONS
    return made


def fresh(seed: int = 0, dim: int = 8, max_tokens: int = 16) -> LoadedEncoder:
    return load_tiny_encoder("tiny", "mean", dim, max_tokens, hidden=16, layers=1, dropout=0.0, seed=seed)


def saved(encoder: nn.Module, path: Path) -> Path:
    """A checkpoint as a training run leaves it: the encoder and the weights of a graph branch."""
    state = {f"encoder.{name}": value for name, value in encoder.state_dict().items()}
    torch.save({"state_dict": {**state, "branch.encoder.weight": torch.ones(3)}, "epoch": 2}, path)
    return path


def cosines(vectors: np.ndarray) -> np.ndarray:
    """One pair at a time."""
    return np.array([[one @ two / np.sqrt((one @ one) * (two @ two)) for two in vectors] for one in vectors])


def plain_vectors(encoder: LoadedEncoder, projected: bool) -> np.ndarray:
    """One text at a time, ``(N, hidden)`` or ``(N, D)``."""
    model = encoder.model.eval()
    step = model if projected else model.pool
    found = []
    for text in TEXTS:
        batch = encoder.tokenizer([text], truncation=True, max_length=16, return_tensors="pt")
        with torch.no_grad():
            found.append(step(batch["input_ids"], batch["attention_mask"])[0].double().numpy())
    return np.stack(found)


def test_scores_are_cosines_of_the_untrained_encoders_vectors(corpus, tmp_path):
    encoder = fresh()
    baseline = DenseScorer(encoder, title_description, str(tmp_path / "cache"))
    baseline.fit(inputs_of(corpus))
    found = baseline.scores(np.arange(6))
    assert found.shape == (6, 6)
    np.testing.assert_allclose(found, cosines(plain_vectors(encoder, projected=False)), atol=1e-5)
    assert found[0, 4] == pytest.approx(1, abs=1e-6)
    assert found[0, 2] < 0.999
    rows = np.array([5, 0, 5])
    np.testing.assert_allclose(baseline.scores(rows), found[rows], atol=1e-6)


def test_a_checkpoint_scores_by_the_projected_vectors_of_the_trained_encoder(corpus, tmp_path):
    trained = fresh(seed=1)
    nn.init.normal_(trained.model.projection.weight)
    nn.init.normal_(trained.model.projection.bias)
    untrained = DenseScorer(fresh(), title_description, str(tmp_path / "cache"))
    untrained.fit(inputs_of(corpus))
    before = untrained.scores(np.arange(6))
    checkpoint = saved(trained.model, tmp_path / "best.ckpt")
    # the same cache folder: vectors of the untrained encoder lie in it and must not be taken for the trained one's
    baseline = DenseScorer(fresh(), title_description, str(tmp_path / "cache"), str(checkpoint))
    baseline.fit(inputs_of(corpus))
    found = baseline.scores(np.arange(6))
    expected = cosines(plain_vectors(trained, projected=True))
    np.testing.assert_allclose(found, expected, atol=1e-5)
    assert np.abs(found - before).max() > 1e-2
    assert np.abs(cosines(plain_vectors(trained, projected=False)) - expected).max() > 1e-2


@pytest.mark.parametrize("trained", [False, True])
def test_a_second_fit_encodes_nothing(corpus, tmp_path, trained):
    checkpoint = saved(fresh(seed=1).model, tmp_path / "best.ckpt") if trained else None
    first = DenseScorer(fresh(), title_description, str(tmp_path / "cache"), checkpoint)
    first.fit(inputs_of(corpus))
    second = DenseScorer(fresh(), title_description, str(tmp_path / "cache"), checkpoint)
    calls: list[int] = []
    second.encoder.model.backbone.register_forward_hook(lambda *_: calls.append(1))
    second.fit(inputs_of(corpus))
    assert calls == []
    assert (second.scores(np.arange(6)) == first.scores(np.arange(6))).all()
    corpus.reports.loc[5, "title"] = "something new"
    second.fit(inputs_of(corpus))
    assert calls == [1]
