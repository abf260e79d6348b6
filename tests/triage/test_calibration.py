"""Probabilities, held against scikit-learn and numbers worked out by hand."""

import json

import numpy as np
import pytest
from sklearn.isotonic import IsotonicRegression
from small_tracker import RANKER, stump

from gedbd.evaluation.thresholds import TargetResult, find_target
from gedbd.retrieval.boosted_trees import BoostedTrees
from gedbd.retrieval.report_ranking.candidate_features import FEATURES
from gedbd.triage.triage_model import (
    CONFIDENCE_FEATURES,
    NUM_FOLDS,
    PLACE,
    Matches,
    MatchProbability,
    TriageModel,
    calibration_error,
    confidence_features,
    default_model,
    fit_isotonic,
    fit_shift,
    learn_confidence,
)


def test_calibration_by_hand():
    # levels of the regression: 0 (two), 1/2 (two), 1 (one); 2 of 5 are right, which counts as one candidate more
    knots, probabilities = fit_isotonic(
        np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([False, False, True, False, True])
    )
    assert knots.tolist() == [1.5, 3.5, 5.0]
    assert probabilities == pytest.approx([0.4 / 3, 1.4 / 3, 1.4 / 2])


@pytest.mark.parametrize("seed", range(2))
def test_calibration_is_isotonic_regression_drawn_to_the_mean(seed):
    generator = np.random.default_rng(seed)
    verdicts = generator.normal(size=300).round(1 if seed % 2 else 6)  # ties too
    right = generator.random(300) < 1 / (1 + np.exp(-2 * verdicts))
    knots, probabilities = fit_isotonic(verdicts, right)
    level = IsotonicRegression().fit(verdicts, right).predict(verdicts)
    sizes = np.array([np.isclose(level, one).sum() for one in np.unique(level.round(9))])
    assert len(knots) == len(sizes)
    assert (np.diff(knots) > 0).all()
    assert (np.diff(probabilities) >= 0).all()
    drawn = (np.unique(level.round(9)) * sizes + right.mean()) / (sizes + 1)
    assert probabilities == pytest.approx(np.maximum.accumulate(drawn), abs=1e-6)
    assert 0 < probabilities[0] <= probabilities[-1] < 1


def test_shifts_and_shifted_probabilities_by_hand():
    # Without a prior, 3 right of 4 at odds of 1 would be odds of 3: a shift of log 3 = 1.1. The prior holds it back.
    half, right = np.full(4, 0.5), np.array([True, True, True, False])
    shift = fit_shift(half, right, np.ones(4))
    assert 3 - 4 / (1 + np.exp(-shift)) == pytest.approx(shift)
    assert fit_shift(half, right, np.full(4, 1e6)) == pytest.approx(np.log(3), abs=1e-5)
    assert fit_shift(half, right, np.zeros(4)) == 0
    trees = BoostedTrees([stump(0, 0.0, 0.5, 1.0)], len(CONFIDENCE_FEATURES))
    confidence = MatchProbability(trees, np.array([0.5, 1.0]), np.array([0.2, 0.5])).shifted(np.log(4))
    assert confidence(np.zeros((1, len(CONFIDENCE_FEATURES)))) == pytest.approx([0.5])  # odds of 1/4 times 4
    assert confidence(np.ones((1, len(CONFIDENCE_FEATURES)))) == pytest.approx([0.8])


@pytest.mark.parametrize("seed", range(3))
def test_a_shift_has_the_highest_posterior_of_a_grid(seed):
    generator = np.random.default_rng(seed)
    probability, right = generator.uniform(0.01, 0.6, 50), generator.random(50) < 0.1
    weight = generator.uniform(0.5, 4, 50)
    grid = np.linspace(-8, 8, 16001)[:, None]
    moved = 1 / (1 + np.exp(-np.log(probability / (1 - probability)) - grid))
    posterior = (weight * np.log(np.where(right, moved, 1 - moved))).sum(axis=1) - grid[:, 0] ** 2 / 2
    assert fit_shift(probability, right, weight) == pytest.approx(grid[posterior.argmax(), 0], abs=1e-3)


def test_probabilities_between_knots_are_interpolated():
    trees = BoostedTrees([stump(0, 0.0, 0.5, 1.0), stump(1, 0.0, 0.0, 1.5)], len(CONFIDENCE_FEATURES))
    confidence = MatchProbability(trees, np.array([0.5, 2.5]), np.array([0.2, 0.6]))
    features = np.zeros((4, len(CONFIDENCE_FEATURES)))
    features[:, :2] = [[-1, -1], [1, -1], [-1, 1], [1, 1]]  # .5, 1, 2 and 2.5
    assert confidence(features) == pytest.approx([0.2, 0.3, 0.5, 0.6])


def some(seed, count=300):
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, len(CONFIDENCE_FEATURES)))
    features[:, PLACE] = 1
    right = generator.random(count) < 1 / (1 + np.exp(-2 * features[:, 0]))
    return Matches(features, right, np.ones(count), np.arange(count) % NUM_FOLDS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda matches: matches.right | True, "wrong"),
        (lambda matches: matches.right & False, "right"),
        (lambda matches: matches.right & (matches.fold == 1), "right .*: change split.test_from"),
    ],
)
def test_too_few_right_or_wrong_matches_are_an_error(change, message):
    matches = some(0)
    with pytest.raises(ValueError, match=f"too few best matches .* are {message}"):
        learn_confidence(matches._replace(right=change(matches)), 0)


@pytest.mark.integration
def test_probabilities_of_a_fold_do_not_depend_on_its_labels():
    matches = some(0)
    mine = matches.fold == 2
    # Only isotonic regression sees the labels of the fold, and it keeps the order of the outputs.
    turned = np.where(mine, ~matches.right, matches.right)
    first, second = (learn_confidence(matches._replace(right=right), 0)[1][mine] for right in (matches.right, turned))
    order = np.lexsort([second, first])  # by the first, equal ones by the second
    assert (np.diff(second[order]) >= -1e-12).all()


@pytest.mark.integration
def test_probabilities_are_calibrated_on_the_best_matches_alone():
    matches = some(0)
    features = matches.features.copy()
    features[:, PLACE] = 1 + np.arange(300) // 4 % 2
    both = matches._replace(features=features)
    turned = np.where(both.is_best, matches.right, ~matches.right)
    confidence, held_out = learn_confidence(both._replace(right=turned), 0)
    outputs = confidence.trees.predict(features)
    assert len(held_out) == 300
    # The trees learn from all 300, so that their probabilities differ from those of the 152 best ones alone.
    alone, _ = learn_confidence(both.take(both.is_best), 0)
    assert not np.array_equal(alone.trees.predict(features), outputs)
    share = np.average(np.interp(held_out[both.is_best], confidence.probabilities, confidence.probabilities))
    assert share == pytest.approx(matches.right[both.is_best].mean(), abs=0.02)


def test_calibration_error_by_hand():
    probability = np.array([0.05, 0.15, 0.18, 0.95, 1.0])
    right = np.array([False, True, False, True, False])
    # bins: |.05 - 0| + |.33 - 1| + |1.95 - 1| = 1.67, over 5
    assert calibration_error(probability, right) == pytest.approx(1.67 / 5)
    assert calibration_error(np.empty(0), np.empty(0, dtype=bool)) == 0
    assert calibration_error(np.ones(3), np.ones(3, dtype=bool)) == 0


def test_what_was_learnt_survives_json():
    targets = (
        TargetResult(0.5, 0.1 + 0.2, "met", 30, 22, 22 / 30, 0.56, 0.89, "2017-03-01", "2018-02-01"),
        TargetResult(0.7, None, "no threshold"),
    )
    of_lists = (TargetResult(0.7, 0.9, "met", 9, 8, 8 / 9, 0.7, 1.0, list_length=3),)
    matching = TriageModel(RANKER, learn_confidence(some(0), 0)[0], targets, 0.7, of_lists)
    again = TriageModel.from_json(matching.as_json(), "here")
    assert (again.targets, again.target_precision, again.target) == (targets, 0.7, targets[1])
    assert (again.list_targets, again.list_target) == (of_lists, of_lists[0])
    features = some(2).features
    assert (again.confidence(features) == matching.confidence(features)).all()
    scores = [model.ranker.scores(features[:, : len(FEATURES)]) for model in (again, matching)]
    assert (scores[0] == scores[1]).all()
    assert again.as_json() == matching.as_json()


def test_a_confidence_learns_when_the_best_match_is_right():
    confidence = learn_confidence(some(0), 0)[0]
    features, right = some(2)[:2]
    assert calibration_error(confidence(features), right) < 0.15
    high, low = features[:, 0] > 1, features[:, 0] < -1
    assert confidence(features[high]).mean() > 0.6 > 0.4 > confidence(features[low]).mean()


def test_what_other_features_or_an_older_version_learnt_is_refused():
    trees = BoostedTrees([stump(0, 0.0, 0.0, 1.0)], 3)
    plain = MatchProbability(trees, np.array([0.0]), np.array([0.5])).as_dict()
    with pytest.raises(ValueError, match="the confidence reads 3 features; run the backtest again"):
        MatchProbability.from_dict(plain)
    old = {"weights": {}, "confidence": {}, "threshold": 0.4, "precision": 0.7}
    with pytest.raises(ValueError, match=r"older version of gedbd: run gedbd backtest again"):
        TriageModel.from_json(json.dumps(old), "here")


def margins(*scores):
    """The features of confidence for candidates with such scores."""
    table = np.tile(np.arange(float(len(FEATURES))), (len(scores), 1))
    return confidence_features(table, np.array(scores, dtype=float))


def test_margins_by_hand():
    found = margins(5.0, 3.0, 2.0)
    assert found.shape == (3, len(CONFIDENCE_FEATURES))
    assert found[:, 0].tolist() == [5, 3, 2]
    assert found[:, 1].tolist() == [2, -2, -3]  # ahead of the next; the others of the first
    assert found[:, 2].tolist() == [3, 1, 0]  # ahead of the third
    assert found[:, 3].tolist() == [3, 1, 0]  # ahead of the last
    assert found[0, 4:6].tolist() == [5, 1]
    assert found[0, 6:8].tolist() == [1, FEATURES.index("group size")]
    assert found[:, PLACE].tolist() == [1, 2, 3]
    assert (found[:, len(CONFIDENCE_FEATURES) - len(FEATURES) :] == np.arange(len(FEATURES))).all()
    assert CONFIDENCE_FEATURES[-len(FEATURES) :] == FEATURES
    assert margins(5.0)[0, :3].tolist() == [5, 0, 0]
    assert margins().shape == (0, len(CONFIDENCE_FEATURES))


def test_nothing_is_suggested_by_the_default_model():
    model = TriageModel.from_json(default_model().as_json(), "here")
    assert model.target.status == "not measured"
    assert model.target.suggest_from is None
    assert model.target.statement.startswith("Nothing is suggested automatically: ")
    probability = model.confidence(np.zeros((2, len(CONFIDENCE_FEATURES))))
    assert ((probability >= 0) & (probability <= 1)).all()
    with pytest.raises(ValueError, match="no target was measured on this tracker; run"):
        find_target(model.targets, 0.8, "webhook.target_precision")
