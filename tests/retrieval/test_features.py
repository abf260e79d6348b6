"""Features of a search, and the best groups by their sum."""

import numpy as np
import pytest
from gedbd.retrieval.features import FEATURES, best_groups, feature_scorers, feature_scores
from hydra import compose, initialize_config_dir
from hydra.utils import instantiate

from gedbd.configuration.command import CONF_DIR
from gedbd.corpora.splits import TEST, TRAIN, split_corpus
from gedbd.encoders.encoder import load_tiny_encoder
from gedbd.retrieval.linear_ranker import LinearRanker
from gedbd.retrieval.ranking import rank
from gedbd.retrieval.ranking_tasks import EarlierReports
from gedbd.retrieval.reports.feature_store import FeatureStore
from gedbd.retrieval.reports.report_features import FeatureEncoder, ReportFeatures
from gedbd.retrieval.scorers.fields import EMPTY, UNKNOWN, CategoryEncoder
from gedbd.retrieval.scorers.scorer import ScorerInputs
from gedbd.retrieval.vocabulary import Vocabulary
from gedbd.triage.triage_model import learn_weights

EVEN = dict.fromkeys(FEATURES, 1.0)


@pytest.fixture(scope="module")
def demo():
    """The demo corpus, its parts, training pairs and vectors of the tiny encoder."""
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("train", ["encoder=tiny"])
    corpus, split = instantiate(cfg.dataset), instantiate(cfg.split)
    parts = split_corpus(split, corpus)
    pairs = instantiate(cfg.pairs).sample(corpus, split, instantiate(cfg.labels).observed(corpus, parts)).table
    encoder = load_tiny_encoder("tiny", "mean", dim=8, max_tokens=32, hidden=16, layers=1, dropout=0.0, seed=0)
    texts = list(corpus.reports["title"] + "\n" + corpus.reports["description"])
    vectors = encoder.encode(texts)
    return corpus, parts, pairs[pairs["part"] == "train"], vectors


@pytest.fixture(scope="module")
def store(demo):
    """All reports as features, and in a store."""
    corpus, _, _, vectors = demo
    features = FeatureEncoder.of(Vocabulary()).encode(corpus.reports, vectors, learn=True)
    store = FeatureStore(vectors.shape[1])
    store.add(features)
    return store, features


def test_search_ranks_as_the_linear_ranker_does(demo, store):
    corpus, parts, train, vectors = demo
    ranker = LinearRanker(feature_scorers(vectors))
    ranker.fit(ScorerInputs.of_reports(corpus.reports, train))
    weights = learn_weights(corpus, train, vectors)
    assert weights == ranker.weights_
    task = EarlierReports.find(corpus, parts == TEST)
    ranking = rank(task, ranker)
    assert len(task) == 39
    for row, place in zip(ranking.queries["query"], ranking.queries["rank"], strict=True):
        scores = feature_scores(store[0], store[1][row], row)
        found = best_groups(scores, weights, corpus.group[:row], None, row)
        assert corpus.group[found.row].tolist().index(corpus.group[row]) + 1 == place


def scores_of(dense, **others):
    """Six scores of N candidates: given ones, the others alike."""
    table = np.zeros((len(FEATURES), len(dense)), dtype=np.float32)
    table[0] = dense
    for name, values in others.items():
        table[FEATURES.index(name)] = values
    return table


def test_sums_are_standardised_over_the_allowed_candidates_only():
    scores = scores_of([0.9, 0.1, 0.5, -7.0, 0.3], bm25=[1, 0, 4, 100, 2])
    allowed = np.array([True, True, True, False, True])
    found = best_groups(scores, {"dense": 2.0, "bm25": 0.5}, np.arange(5), allowed, 10)
    rows = np.array([0, 1, 2, 4])
    mine = scores[:2, rows].astype(float)
    expected = np.array([2.0, 0.5]) @ ((mine - mine.mean(1, keepdims=True)) / mine.std(1, keepdims=True))
    order = np.argsort(-expected)
    assert found.row.tolist() == rows[order].tolist()
    assert found.score == pytest.approx(expected[order], abs=1e-6)
    assert found.features.tolist() == scores[:, rows[order]].T.tolist()
    alone = best_groups(scores[:, rows], {"dense": 2.0, "bm25": 0.5}, np.arange(4), None, 10)
    assert found.score.tolist() == alone.score.tolist()


def test_of_equal_sums_the_older_report_comes_first():
    found = best_groups(scores_of([0.5, 0.9, 0.5, 0.9, 0.5]), EVEN, np.array([0, 1, 2, 3, 1]), None, 5)
    assert found.row.tolist() == [1, 3, 0, 2]
    many = best_groups(scores_of(np.tile([0.0, 1.0], 3000)), EVEN, np.arange(6000), None, 20)
    assert many.row.tolist() == list(range(1, 41, 2))


def test_a_large_group_does_not_hide_the_others():
    dense = np.concatenate([np.linspace(10, 5, 2000), [1.0, 2.0, 3.0]])
    found = best_groups(scores_of(dense), EVEN, np.array([0] * 2000 + [2000, 2001, 2002]), None, 4)
    assert found.row.tolist() == [0, 2002, 2001, 2000]
    assert best_groups(scores_of(dense), EVEN, np.zeros(2003, dtype=int), None, 4).row.tolist() == [0]


@pytest.mark.parametrize("seed", range(3))
def test_the_best_groups_are_those_of_a_plain_loop(seed):
    generator = np.random.default_rng(seed)
    scores = generator.normal(size=(6, 900)).round(1).astype(np.float32)
    group, weights = generator.integers(0, 60, 900), dict(zip(FEATURES, generator.normal(size=6), strict=True))
    allowed = generator.random(900) < 0.6
    found = best_groups(scores, weights, group, allowed, 7)
    rows, seen = np.flatnonzero(allowed), []
    chosen = scores[:, rows].astype(np.float64)
    total = np.array(list(weights.values())) @ ((chosen - chosen.mean(1)[:, None]) / chosen.std(1)[:, None])
    for place in np.argsort(-total, kind="stable"):
        if group[rows[place]] not in [group[row] for row in seen]:
            seen.append(rows[place])
    assert found.row.tolist() == seen[:7]


def test_one_candidate_and_none():
    one = best_groups(scores_of([0.4]), EVEN, np.array([0]), None, 5)
    assert (one.row.tolist(), one.score.tolist()) == ([0], [0.0])
    none = best_groups(scores_of([0.4]), EVEN, np.array([0]), np.array([False]), 5)
    assert none.features.shape == (0, 6)
    nothing = best_groups(scores_of([]), EVEN, np.empty(0, dtype=int), None, 5)
    assert len(nothing.row) == len(nothing.score) == 0


def test_scores_that_are_all_alike_weigh_nothing():
    for value in (0.1, 1 / 3, -np.log1p(1234.567)):
        for count in (3, 7, 1000):
            found = best_groups(scores_of(np.full(count, value)), EVEN, np.arange(count), None, 3)
            assert found.score.tolist() == [0.0] * 3
            assert found.row.tolist() == [0, 1, 2]


def features_of(day, product=None, component=None):
    count = len(day)
    nothing = [np.empty(0, dtype=np.int32)] * count
    codes = [np.array(values if values else [EMPTY] * count, dtype=np.int32) for values in (product, component)]
    return ReportFeatures(np.ones((count, 2), dtype=np.float32), nothing, nothing, *codes, np.array(day, dtype=float))


def test_recency_counts_days_or_rows_where_there_are_none():
    dated, undated = FeatureStore(2), FeatureStore(2)
    dated.add(features_of([0.0, 5.0, 9.0]))
    undated.add(features_of([np.nan] * 3))
    query = features_of([9.5])
    assert feature_scores(dated, query, 3)[5] == pytest.approx(-np.log1p([9.5, 4.5, 0.5]))
    for store, asked in ((undated, query), (undated, features_of([np.nan])), (dated, features_of([np.nan]))):
        assert feature_scores(store, asked, 3)[5] == pytest.approx(-np.log1p([3, 2, 1]))
    assert feature_scores(undated, query, 2)[5] == pytest.approx(-np.log1p([2, 1]))


def test_empty_and_unknown_codes_agree_with_nothing():
    store = FeatureStore(2)
    store.add(features_of([0.0] * 4, product=[EMPTY, 0, 1, UNKNOWN], component=[0, EMPTY, 0, UNKNOWN]))
    for code, agreeing in ((EMPTY, []), (UNKNOWN, []), (0, [1]), (1, [2]), (7, [])):
        scores = feature_scores(store, features_of([0.0], product=[code], component=[EMPTY]), 4)
        assert np.flatnonzero(scores[4]).tolist() == agreeing
        assert not scores[3].any()
    assert feature_scores(store, features_of([0.0], component=[0]), 4)[3].tolist() == [1, 0, 1, 0]


def test_codes_are_learned_once_and_case_does_not_matter():
    encoder = CategoryEncoder()
    assert encoder(["Mail", "", " mail ", "News"], learn=True).tolist() == [0, EMPTY, 0, 1]
    assert encoder(["NEWS", "calendar", "  "], learn=False).tolist() == [1, UNKNOWN, EMPTY]
    assert encoder(["calendar"], learn=True).tolist() == [2]


def test_a_store_grows_as_if_added_at_once():
    generator, whole, parts = np.random.default_rng(0), FeatureStore(3), FeatureStore(3)
    texts = [generator.integers(0, 9, size, dtype=np.int32) for size in generator.integers(0, 6, 40)]
    codes = generator.integers(-1, 4, 40).astype(np.int32)
    features = ReportFeatures(
        generator.normal(size=(40, 3)).astype(np.float32), texts, texts, codes, codes, np.arange(40.0)
    )
    whole.add(features)
    for row in range(40):
        parts.add(features[row])
    assert len(parts) == len(whole) == len(features) == 40
    np.testing.assert_array_equal(feature_scores(parts, features[7], 40), feature_scores(whole, features[7], 40))


def test_training_part_is_what_weights_are_learnt_on(demo):
    corpus, parts, train, _ = demo
    assert (parts[train["later"]] == TRAIN).all()
    assert len(corpus) == 425
