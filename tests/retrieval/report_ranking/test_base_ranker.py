"""Rankers whose features are the scores of a ranker that was trained on other trackers."""

import numpy as np
import pandas as pd
import pytest

from gedbd.corpora.tracker_samples import sample_of
from gedbd.retrieval.feature_ranker import WeightedFeatures
from gedbd.retrieval.report_ranking.candidate_features import FEATURES
from gedbd.retrieval.report_ranking.report_ranker import BASE_FEATURES, ReportRanker, read_base, with_base
from gedbd.retrieval.report_ranking.report_training import RankerOptions, Replayed, fit_ranker


def linear(base=None, trained_on=(), **weights):
    names = (*FEATURES, *(BASE_FEATURES if base else ()))
    return ReportRanker(WeightedFeatures(np.array([weights.get(name, 0.0) for name in names])), (), base, trained_on)


def reports(first, last):
    rows = range(first, last)
    return pd.DataFrame({"id": [str(row) for row in rows], "title": [f"title {row}" for row in rows]})


@pytest.fixture
def features():
    return np.random.default_rng(0).normal(size=(7, len(FEATURES))).astype(np.float32)


def examples(count, features):
    right = np.arange(7) == 2
    return [Replayed(row, np.arange(7), np.arange(7), features, right) for row in range(count)]


def test_the_scores_of_the_base_are_the_last_features(features):
    base = linear(dense=2.0)
    found = with_base(features, base)
    scores = base.scores(features)
    np.testing.assert_array_equal(found[:, :-4], features)
    np.testing.assert_allclose(found[:, -4], scores, rtol=1e-6)
    np.testing.assert_allclose(found[:, -3], (scores - scores.mean()) / scores.std(), rtol=1e-5)
    np.testing.assert_allclose(np.expm1(found[:, -2]), np.argsort(np.argsort(-scores)), atol=1e-5)
    np.testing.assert_allclose(found[:, -1], scores.max() - scores, rtol=1e-5, atol=1e-6)


def test_contributions_of_the_base_go_to_the_features_that_it_read(features):
    inner = linear(dense=2.0)
    names = (*FEATURES, *BASE_FEATURES)
    weights = np.array([{"base": 1.0, "text": 0.5}.get(name, 0.0) for name in names])
    ranker = ReportRanker(WeightedFeatures(weights), (), inner)
    for row, score in zip(ranker.contributions(features), ranker.scores(features), strict=True):
        assert set(row) == set(FEATURES)
        assert {name for name, value in row.items() if abs(value) > 1e-6} <= {"dense", "text"}
        assert sum(row.values()) == pytest.approx(score, abs=1e-5)


def test_text_round_trip_keeps_the_base_and_what_it_was_trained_on(features):
    base = linear(trained_on=((3, 5),), dense=2.0)
    names = (*FEATURES, *BASE_FEATURES)
    ranker = ReportRanker(WeightedFeatures(np.arange(len(names)) / 10), (), base)
    read = ReportRanker.from_text(ranker.to_text())
    np.testing.assert_array_equal(read.scores(features), ranker.scores(features))
    assert read.base.trained_on == ((3, 5),)


def test_with_few_queries_the_ranker_is_the_base(features, tmp_path):
    path = tmp_path / "base.json"
    path.write_text(linear(dense=1.0).to_text())
    options = RankerOptions(kind="linear", base=str(path), default_below=3)
    assert fit_ranker(examples(2, features), options).base is None
    assert fit_ranker(examples(3, features), options).base is not None
    settled = options.settled(examples(3, features))
    assert fit_ranker(examples(1, features), settled).base is not None
    assert fit_ranker(examples(1, features), options.settled(examples(2, features))).base is None


def test_a_base_that_has_seen_the_tracker_is_left_out(tmp_path):
    path = tmp_path / "base.json"
    path.write_text(linear(trained_on=(sample_of(reports(0, 200)),)).to_text())
    options = RankerOptions(base=str(path))
    assert options.without_seen(reports(0, 230)).base is None
    assert options.without_seen(reports(200, 400)) == options


@pytest.mark.parametrize(("base", "said"), [("missing.json", "no such file"), ("bad.json", "base=bad.json")])
def test_a_base_that_cannot_be_read_is_named(base, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(ValueError, match=said):
        read_base(base)
