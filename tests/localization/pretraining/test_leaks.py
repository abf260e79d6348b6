"""Nothing of the methods that are held out reaches training, and every run is tested on the same pairs."""

from dataclasses import replace

import numpy as np
import pytest

from gedbd.corpora.corpus import Documents
from gedbd.corpora.splits import TEST, TRAIN, VAL
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder
from gedbd.localization.code_encoder.code_inputs import InputLimits, InputParts
from gedbd.localization.pretraining.masking import OBJECTIVES, ROLE, Shares
from gedbd.localization.pretraining.pretraining_data import PretrainingDataModule, find_vocabulary, read_inputs
from gedbd.localization.pretraining.pretraining_task import starting_point
from gedbd.localization.readers.java_sources import read_java_sources

PARTS = np.array([TRAIN] * 20 + [VAL] * 10 + [TEST] * 10, dtype=np.int8)


@pytest.fixture
def make_data(inputs, tokenizer):
    def make(seed=0, objectives=OBJECTIVES, methods=None):
        vocabulary = find_vocabulary(tokenizer)
        return PretrainingDataModule(methods or inputs, PARTS, objectives, Shares(), vocabulary, 8, seed)

    return make


@pytest.fixture
def other_inputs(table, tokenizer):
    """The same training methods, and others in validation and test."""
    changed = table.copy()
    changed.loc[PARTS != TRAIN, "description"] = "void other(double[] x) { for (double y : x) { print(y); } }"
    return read_inputs(changed, tokenizer, InputLimits(), InputParts())[0]


def test_evaluation_is_the_same_with_every_seed_and_in_every_epoch(make_data):
    first, second = make_data(0), make_data(1)
    second.train_dataloader().sampler.set_epoch(3)
    for one, other in zip(first.val_dataloader(), second.val_dataloader(), strict=True):
        assert one.code.input_ids.equal(other.code.input_ids)
        assert all(one.pairs[name].equal(other.pairs[name]) for name in one.pairs)


def test_evaluation_is_the_same_without_the_other_objectives(make_data):
    for one, other in zip(make_data().val_dataloader(), make_data(objectives=[ROLE]).val_dataloader(), strict=True):
        assert one.pairs[ROLE].equal(other.pairs[ROLE])


def test_training_does_not_depend_on_the_other_parts(make_data, other_inputs):
    for one, other in zip(
        make_data().train_dataloader(), make_data(methods=other_inputs).train_dataloader(), strict=True
    ):
        assert one.code.input_ids.equal(other.code.input_ids)
        assert one.n_id.max() < 20
        assert all(one.pairs[name].equal(other.pairs[name]) for name in one.pairs)


def test_the_tokenizer_is_made_of_training_methods(methods_file):
    corpus = read_java_sources("java", str(methods_file))
    table = corpus.reports.copy()
    table.loc[PARTS != TRAIN, ["description", "comment"]] = "zebra zebra zebra"
    changed = replace(corpus, documents=Documents("java", table, more_texts=("comment",)))
    sizes = {"layers": 1, "hidden": 8, "heads": 1, "intermediate": 8, "vocab_size": 400, "max_tokens": 512}
    encoder = UntrainedEncoder("untrained", dropout=0.1, attention_dropout=0.0, seed=0, **sizes)
    _, one = starting_point(encoder, corpus, PARTS)
    _, other = starting_point(encoder, changed, PARTS)
    assert one.get_vocab() == other.get_vocab()
