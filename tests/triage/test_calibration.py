"""Probabilities, held against scikit-learn and numbers worked out by hand."""

import json

import numpy as np
import pytest
from gedbd.retrieval.features import FEATURES, Candidates
from sklearn.isotonic import IsotonicRegression
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from gedbd.triage.backtesting.targets import TargetResult
from gedbd.triage.calibration import (
    MATCH_FEATURES,
    NUM_COMPARED,
    Calibrator,
    calibration_error,
    fit_isotonic,
    learn_calibrator,
    match_features,
)
from gedbd.triage.triage_model import TriageModel, evenly_spaced


def test_calibration_by_hand():
    # levels of the regression: 0 (two), 1/2 (two), 1 (one); 2 of 5 are right, which counts as one candidate more
    knots, probabilities = fit_isotonic(
        np.array([1.0, 2.0, 3.0, 4.0, 5.0]), np.array([False, False, True, False, True])
    )
    assert knots.tolist() == [1.5, 3.5, 5.0]
    assert probabilities == pytest.approx([0.4 / 3, 1.4 / 3, 1.4 / 2])


@pytest.mark.parametrize("seed", range(5))
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


def test_probabilities_between_knots_are_interpolated():
    calibrator = Calibrator(np.array([1.0, 2.0]), 0.5, np.array([0.0, 2.0]), np.array([0.2, 0.6]))
    signals = np.array([[0.5, 0.0], [0.5, 0.25], [-9.0, 0.0], [0.0, 9.0]])
    assert calibrator(signals) == pytest.approx([0.4, 0.5, 0.2, 0.6])
    alone = Calibrator(np.array([1.0]), 0.0, np.array([3.0]), np.array([0.3]))
    assert alone(np.array([[-1.0], [9.0]])).tolist() == [0.3, 0.3]


def some(seed, count=400):
    generator = np.random.default_rng(seed)
    signals = generator.normal(size=(count, 3)) * [1, 10, 0.1] + [0, 5, 0]
    return signals, generator.random(count) < 1 / (1 + np.exp(-(signals[:, 0] + 0.1 * signals[:, 1])))


def test_verdicts_are_those_of_a_logistic_regression():
    train, val = some(0), some(1)
    calibrator = learn_calibrator(train, val)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(*train)
    mine = val[0] @ calibrator.weights + calibrator.bias
    assert mine == pytest.approx(model.decision_function(val[0]), abs=1e-8)
    knots, probabilities = fit_isotonic(mine, val[1])
    assert calibrator(val[0]) == pytest.approx(np.interp(mine, knots, probabilities))
    assert calibration_error(calibrator(val[0]), val[1]) < 0.05


@pytest.mark.parametrize(("place", "part"), [(0, "training"), (1, "validation")])
@pytest.mark.parametrize(("all_right", "which"), [(True, "wrong"), (False, "right")])
def test_nothing_to_tell_apart_is_an_error(place, part, all_right, which):
    parts = [some(0), some(1)]
    parts[place] = parts[place][0], np.full(400, all_right)
    with pytest.raises(ValueError, match=f"no candidate of the {part} part is {which}"):
        learn_calibrator(*parts)


def test_no_candidate_at_all_is_an_error_too():
    with pytest.raises(ValueError, match="no candidate of the validation part is right"):
        learn_calibrator(some(0), (np.empty((0, 3)), np.empty(0, dtype=bool)))


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
    matching = TriageModel({"dense": 1.25, "recency": -0.5}, learn_calibrator(some(0), some(1)), targets, 0.7)
    again = TriageModel.from_json(matching.as_json())
    assert (again.weights, again.targets, again.target_precision) == (matching.weights, targets, 0.7)
    assert again.target == targets[1]
    signals = some(2)[0]
    assert (again.calibrator(signals) == matching.calibrator(signals)).all()
    assert again.as_json() == matching.as_json()
    plain = matching.calibrator.as_dict()
    assert Calibrator.from_dict(json.loads(json.dumps(plain))).as_dict() == plain


def test_what_an_older_version_learnt_is_refused():
    old = {"weights": {}, "confidence": {}, "threshold": 0.4, "precision": 0.7}
    with pytest.raises(ValueError, match=r"older version of gedbd: run python -m gedbd.backtest again"):
        TriageModel.from_json(json.dumps(old))


def found(*scores):
    features = np.tile(np.arange(1.0, 7.0, dtype=np.float32), (len(scores), 1))
    return Candidates(np.arange(len(scores)), np.array(scores, dtype=np.float32), features)


def test_signals_by_hand():
    signals = match_features(found(5.0, 3.0, 2.0), [8.0, 0.0])
    assert signals.shape == (3, len(MATCH_FEATURES))
    assert signals[:, 0].tolist() == [5, 3, 2]
    assert signals[:, 1].tolist() == [2, -2, -3]  # ahead of the next; the others of the first
    assert signals[:, 2].tolist() == [3, 1, 0]
    assert signals[0, 3:9].tolist() == [1, 2, 3, 4, 5, 6]
    assert signals[0, 9:] == pytest.approx([4 / 8, 9 / 1e-6, np.log(9), 0])
    assert MATCH_FEATURES[3:9] == FEATURES


def test_one_candidate_is_ahead_of_nobody():
    assert match_features(found(5.0), [1.0, 1.0])[0, :3].tolist() == [5, 0, 0]
    assert match_features(found(), [1.0, 1.0]).shape == (0, len(MATCH_FEATURES))


def test_signals_do_not_depend_on_how_many_are_shown():
    scores = [9.0, 7.0, 6.0, 4.0, 3.0, 1.0, 0.0]
    few, many = match_features(found(*scores[:NUM_COMPARED]), [2.0, 2.0]), match_features(found(*scores), [2.0, 2.0])
    np.testing.assert_array_equal(many[:NUM_COMPARED], few)
    assert many[-1, 2] == -3


def test_rows_are_taken_evenly_spaced():
    assert evenly_spaced(np.arange(5), 5).tolist() == [0, 1, 2, 3, 4]
    assert evenly_spaced(np.array([3, 4, 7, 9, 11, 20]), 3).tolist() == [3, 7, 20]
    assert evenly_spaced(np.arange(10), 1).tolist() == [0]
    chosen = evenly_spaced(np.arange(1000), 300)
    assert len(np.unique(chosen)) == 300
    assert np.diff(chosen).max() <= 4
