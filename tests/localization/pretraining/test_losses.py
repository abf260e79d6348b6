"""Losses against naive loops."""

import math
from functools import partial

import numpy as np
import pytest
import pytorch_lightning as pl
import torch
from torch.optim import SGD
from transformers import BertConfig, BertModel

from gedbd.experiments.optimizers import constant
from gedbd.localization.code_encoder.code_inputs import InputParts
from gedbd.localization.code_encoder.masking import OBJECTIVES, Shares, active_weights
from gedbd.localization.code_encoder.pretraining_data import PretrainingDataModule, find_vocabulary
from gedbd.localization.code_encoder.pretraining_system import (
    PretrainingSystem,
    edge_logits,
    edge_sums,
    token_sums,
)


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


def test_weights_of_parts_that_are_left_out_count_as_none():
    weights = dict.fromkeys(OBJECTIVES, 1.0)
    assert list(active_weights(weights, InputParts(roles=False))) == ["mlm", "alignment", "edge", "type"]
    assert list(active_weights(weights, InputParts(nodes=False, types=False, roles=False))) == ["mlm"]
    assert active_weights(weights | {"mlm": 0, "edge": 0.5}, InputParts())["edge"] == 0.5
    for bad, message in (({"colour": 1}, "task.weights.colour is unknown"), ({"mlm": 0}, "leaves no objective")):
        with pytest.raises(ValueError, match=message):
            active_weights(bad, InputParts())


def sgd(encoder, head):
    return SGD([*encoder, *head], lr=1e-4)


def one_step(inputs, tokenizer, weights, reduction):
    """The change of the embeddings by a step of SGD over 38 methods, and the number of predictions by objective."""
    torch.manual_seed(0)
    config = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1, "intermediate_size": 8}
    backbone = BertModel(
        BertConfig(vocab_size=len(tokenizer), hidden_dropout_prob=0, attention_probs_dropout_prob=0, **config)
    )
    before = backbone.get_input_embeddings().weight.detach().clone()
    system = PretrainingSystem(backbone, weights, sgd, partial(constant, warmup_steps=1), 0, reduction)
    parts = np.array([0] * 38 + [1, 2])
    data = PretrainingDataModule(inputs, parts, list(weights), Shares(), find_vocabulary(tokenizer), 38, 0)
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "num_sanity_val_steps": 0}
    trainer = pl.Trainer(accelerator="cpu", max_epochs=1, enable_model_summary=False, **quiet)
    trainer.fit(system, data)
    totals = next(iter(data.train_dataloader())).totals
    return backbone.get_input_embeddings().weight.detach() - before, {name: int(totals[name]) for name in weights}


def test_a_sum_counts_each_objective_by_its_predictions(inputs, tokenizer):
    found, counts = one_step(inputs, tokenizer, {"type": 1.0, "role": 0.5}, "sum")
    assert counts["type"] != counts["role"]
    alone = {name: one_step(inputs, tokenizer, {name: 1.0}, "mean")[0] for name in counts}
    expected = counts["type"] * alone["type"] + 0.5 * counts["role"] * alone["role"]
    torch.testing.assert_close(found, expected, rtol=1e-2, atol=1e-6)
    together, _ = one_step(inputs, tokenizer, {"type": 1.0, "role": 0.5}, "mean")
    torch.testing.assert_close(together, alone["type"] + 0.5 * alone["role"], rtol=1e-2, atol=1e-7)
