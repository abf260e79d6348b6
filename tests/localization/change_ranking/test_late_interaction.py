"""MaxSim equals three nested loops where every document is in the shortlist."""

import numpy as np
import pandas as pd
import pytest

from gedbd.localization.change_ranking import late_interaction
from gedbd.localization.change_ranking.late_interaction import MaxSim
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs

NUM_DOCUMENTS, NUM_QUERIES, DIM = 60, 5, 16


def unit_tokens(seed: int, lengths: list[int]) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    drawn = [rng.normal(size=(length, DIM)) for length in lengths]
    return [(own / np.linalg.norm(own, axis=1, keepdims=True)).astype(np.float32) for own in drawn]


LENGTHS = [3, 0, 1, *np.random.default_rng(1).integers(1, 9, NUM_DOCUMENTS - 3).tolist()]
QUERY_LENGTHS = [4, 1, 0, 7, 5]
DOCUMENTS, QUERIES = unit_tokens(0, LENGTHS), unit_tokens(1, QUERY_LENGTHS)


def vectors(table: pd.DataFrame, kind: str) -> list[np.ndarray]:
    return (DOCUMENTS if kind == "document" else QUERIES)[: len(table)]


@pytest.fixture(scope="module")
def inputs() -> ScorerInputs:
    day = pd.Timestamp("2024-01-01", tz="UTC")
    documents = pd.DataFrame({"created_at": day + pd.to_timedelta(np.arange(NUM_DOCUMENTS), unit="D")})
    queries = pd.DataFrame({"created_at": day + pd.to_timedelta([30.5, 70, 70, 70, 0], unit="D")})
    return ScorerInputs(documents, queries, pd.DataFrame({"query": [], "document": [], "label": []}))


def naive(query: np.ndarray, document: np.ndarray) -> float:
    total = 0.0
    for one in query:
        best = -np.inf
        for other in document:
            best = max(best, float(one @ other))
        total += best
    return total


def scores_of(inputs, **options) -> np.ndarray:
    scorer = MaxSim(vectors, **options)
    scorer.fit(inputs)
    return scorer.scores(np.arange(NUM_QUERIES))


def test_scores_equal_three_nested_loops(inputs):
    scores = scores_of(inputs, shortlist=NUM_DOCUMENTS)
    for row, before in enumerate([31, 60, 60, 60, 0]):
        if row == 2 or not before:  # a query without tokens, and one before all documents
            assert not scores[row].any()
            continue
        expected = [naive(QUERIES[row], own) if len(own) else -np.inf for own in DOCUMENTS[:before]]
        has_tokens = np.array(LENGTHS[:before]) > 0
        np.testing.assert_allclose(scores[row, :before][has_tokens], np.array(expected)[has_tokens], atol=2e-3)
        assert scores[row, 1] == pytest.approx(scores[row, :before][has_tokens].min() - 1, abs=1e-5)  # no token
        assert (scores[row, before:] <= scores[row, :before].min()).all()


@pytest.mark.parametrize("min_clustered", [1, 10**9])
def test_a_shortlist_from_all_tokens_holds_the_best(inputs, monkeypatch, min_clustered):
    monkeypatch.setattr(late_interaction, "MIN_CLUSTERED_TOKENS", min_clustered)
    monkeypatch.setattr(late_interaction, "TRAINING_TOKENS_PER_CLUSTER", 10)
    everything = scores_of(inputs, shortlist=NUM_DOCUMENTS)
    some = scores_of(inputs, shortlist=20, nearest=10_000, clusters_searched=100)
    for row, before in ((0, 31), (1, 60), (3, 60)):
        kept = np.flatnonzero(some[row, :before] > some[row, :before].min())
        assert len(kept) == 20
        np.testing.assert_allclose(some[row, kept], everything[row, kept], rtol=1e-5)
        left_out = np.setdiff1d(np.arange(before), kept)
        assert some[row, left_out].max() < some[row, kept].min()
        best = np.argsort(-everything[row, :before])
        # With all tokens looked up, the sums that choose the shortlist are the scores, but for 4 bits a dimension.
        assert set(best[:20] if min_clustered > 1 else best[:8]) <= set(kept)


def test_later_documents_are_not_looked_up(inputs):
    # With 40 tokens looked up, later documents would use up the places of earlier ones.
    scores = scores_of(inputs, shortlist=5, nearest=40)
    assert (scores[0, :31] > scores[0, :31].min()).sum() == 5
    assert (scores[0, 31:] == scores[0, :31].min()).all()


def test_scoring_in_blocks_changes_nothing(inputs, monkeypatch):
    whole = scores_of(inputs, shortlist=NUM_DOCUMENTS)
    monkeypatch.setattr(late_interaction, "MAX_EXACT_TOKENS", 7)
    np.testing.assert_allclose(scores_of(inputs, shortlist=NUM_DOCUMENTS), whole, rtol=1e-6, atol=1e-6)
