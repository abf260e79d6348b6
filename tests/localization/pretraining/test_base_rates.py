"""Base rates by hand."""

import numpy as np
import pytest

from gedbd.localization.code_encoder.code_inputs import CodeEdges, CodeInput
from gedbd.localization.pretraining.masking import EdgePairs, Sample
from gedbd.localization.pretraining.pretraining_output import BaseRates, keys_of

NONE = np.zeros((2, 0), dtype=np.int32)
# [CLS] [C] 8 tokens of code [SEP] [N] 4 nodes [T] 3 types [SEP]
METHOD = CodeInput(
    np.zeros(21, dtype=np.int32),
    np.array([[1, 0], [2, 8], [12, 4], [17, 3], [0, 0]]),
    CodeEdges(NONE, NONE, NONE, NONE),
    pad_id=0,
)


def sample(targets, **pairs):
    made = {name: EdgePairs(np.array(ends).T, np.array(label)) for name, (ends, label) in pairs.items()}
    return Sample(METHOD, np.arange(len(targets)), np.array(targets), made)


def test_the_most_frequent_token_and_the_majority_by_type():
    train = [sample([7, 7, 8], type=([(12, 17), (13, 17), (14, 18), (12, 18)], [1, 1, 1, 0]))]
    test = [sample([7, 9], type=([(12, 17), (12, 18), (13, 19)], [1, 0, 0]))]
    rates = BaseRates(train).accuracies(test, ["mlm", "type"])
    # Type 17 is predicted as an edge, 18 is even and 19 unseen: no edges; all three are right.
    assert rates == {"mlm": 0.5, "type": 1.0}


def test_a_worse_guess_than_chance_counts_as_chance():
    train = [sample([1], edge=([(12, 13), (12, 14)], [1, 0]))]
    test = [sample([1], edge=([(12, 13), (12, 14)], [0, 1]))]
    assert BaseRates(train).accuracies(test, ["edge"])["edge"] == 0.5


def test_properties_of_pairs():
    keys, _ = keys_of(sample([1], edge=([(12, 15), (14, 13)], [1, 0])), "edge")
    assert keys.tolist() == [3, -1]
    # Token 6 of the code is at 4/8 of it, which is node 2 of 4: the second node after node 0.
    keys, _ = keys_of(sample([1], alignment=([(6, 12), (6, 14)], [1, 0])), "alignment")
    assert keys.tolist() == [2, 0]


def test_nothing_to_predict():
    assert BaseRates([]).accuracies([sample([])], ["mlm"])["mlm"] == pytest.approx(float("nan"), nan_ok=True)
