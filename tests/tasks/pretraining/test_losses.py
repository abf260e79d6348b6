"""Losses against naive loops."""

import math

import pytest
import torch

from gedbd.encoders.code.code_inputs import InputParts
from gedbd.tasks.pretraining.masking import OBJECTIVES, active_weights
from gedbd.tasks.pretraining.pretraining_system import TokenHead, edge_logits, edge_sums, token_sums


def test_edge_loss_is_that_of_a_loop():
    hidden = torch.randn(2, 5, 4)
    row = torch.tensor([0, 1, 1])
    ends = torch.tensor([[0, 2, 4], [3, 1, 0]])
    label = torch.tensor([1, 0, 1])
    loss, right = 0.0, 0
    for pair in range(3):
        first = hidden[row[pair], ends[0, pair]]
        second = hidden[row[pair], ends[1, pair]]
        probability = 1 / (1 + math.exp(-float(first @ second) / 2))  # sqrt(4)
        loss -= math.log(probability if label[pair] else 1 - probability)
        right += (probability > 0.5) == bool(label[pair])
    found = edge_sums(edge_logits(hidden, row, ends), label)
    assert float(found.loss) == pytest.approx(loss, rel=1e-5)
    assert int(found.num_right) == right
    assert int(found.number) == 3


def test_token_loss_is_that_of_a_loop():
    logits = torch.randn(3, 6)
    target = torch.tensor([5, 0, 2])
    loss, right = 0.0, 0
    for place in range(3):
        exponentials = logits[place].exp()
        loss -= math.log(exponentials[target[place]] / exponentials.sum())
        right += int(logits[place].argmax()) == int(target[place])
    found = token_sums(logits, target)
    assert float(found.loss) == pytest.approx(loss, rel=1e-5)
    assert int(found.num_right) == right


def test_nothing_to_predict_gives_zero_with_a_gradient():
    hidden = torch.randn(1, 3, 4, requires_grad=True)
    none = torch.zeros((4, 0), dtype=torch.long)
    found = edge_sums(edge_logits(hidden, none[0], none[1:3]), none[3])
    found.loss.backward()
    assert found.loss.item() == 0
    assert int(found.number) == 0


def test_the_head_shares_the_embeddings():
    head = TokenHead(hidden=4, vocabulary=7)
    hidden, embeddings = torch.randn(2, 4), torch.randn(7, 4)
    state = torch.nn.functional.layer_norm(
        torch.nn.functional.gelu(hidden @ head.transform.weight.T + head.transform.bias), (4,)
    )
    torch.testing.assert_close(head(hidden, embeddings), state @ embeddings.T)


def test_weights_of_parts_that_are_left_out_count_as_none():
    weights = dict.fromkeys(OBJECTIVES, 1.0)
    assert list(active_weights(weights, InputParts(roles=False))) == ["mlm", "alignment", "edge", "type"]
    assert list(active_weights(weights, InputParts(nodes=False, types=False, roles=False))) == ["mlm"]
    assert active_weights(weights | {"mlm": 0, "edge": 0.5}, InputParts())["edge"] == 0.5


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({"colour": 1}, "task.weights.colour is unknown"),
        ({"mlm": 0}, "task.weights leaves no objective"),
    ],
)
def test_bad_weights_are_refused(weights, message):
    with pytest.raises(ValueError, match=message):
        active_weights(weights, InputParts())
