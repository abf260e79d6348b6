import numpy as np
import pytest

from gedbd.triage.backtesting.targets import find_target
from gedbd.triage.confidence import CONFIDENCE_FEATURES
from gedbd.triage.triage_model import TriageModel, default_model


def test_nothing_is_suggested_by_the_default_model():
    model = TriageModel.from_json(default_model().as_json(), "here")
    assert model.target.status == "not measured"
    assert model.target.suggest_from is None
    assert model.target.statement.startswith("Nothing is suggested automatically: ")
    probability = model.confidence(np.zeros((2, len(CONFIDENCE_FEATURES))))
    assert ((probability >= 0) & (probability <= 1)).all()


def test_no_target_can_be_asked_of_it():
    with pytest.raises(ValueError, match="no target was measured on this tracker; run"):
        find_target(default_model().targets, 0.8, "webhook.target_precision")
