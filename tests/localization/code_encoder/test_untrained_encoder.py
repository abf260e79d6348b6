"""The encoder without pretrained weights, and its tokenizer."""

import pytest
import torch

from gedbd.encoders.backend import Torch
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder, byte_pair_tokenizer

SIZES = {"name": "untrained", "layers": 1, "hidden": 8, "heads": 2, "intermediate": 8, "vocab_size": 320}
SIZES |= {"max_tokens": 32, "dropout": 0.0, "attention_dropout": 0.0, "seed": 0}
TEXTS = ["int getValue() { return value; }", "void setValue(int value) { this.value = value; }"]


def test_the_same_texts_and_seed_give_the_same_encoder():
    first, second = (UntrainedEncoder(**SIZES).fit(TEXTS) for _ in range(2))
    assert first[1].get_vocab() == second[1].get_vocab()
    for name, value in first[0].state_dict().items():
        assert torch.equal(second[0].state_dict()[name], value)
    other, _ = UntrainedEncoder(**SIZES | {"seed": 1}).fit(TEXTS)
    assert not torch.equal(other.embeddings.word_embeddings.weight, first[0].embeddings.word_embeddings.weight)


def test_tokens_are_texts_in_their_places():
    tokenizer = byte_pair_tokenizer(TEXTS, 320)
    text = "int  getValue(ü)"
    found = tokenizer(text, return_offsets_mapping=True)
    assert tokenizer.decode(found["input_ids"], skip_special_tokens=True) == text
    pieces = [text[start:end] for start, end in found["offset_mapping"]]
    assert pieces[0] == pieces[-1] == ""  # [CLS] and [SEP]
    assert "".join(pieces[1:]).replace(" ", "").startswith("intgetValue(")
    assert len(tokenizer) <= 320


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"backend": Torch()}, "encoder=untrained has neither weights nor a tokenizer before it is pre-trained"),
        ({"hidden": 9}, "encoder.heads=2 must divide encoder.hidden=9"),
    ],
)
def test_what_cannot_work_is_refused(options, message):
    with pytest.raises(ValueError, match=message):
        UntrainedEncoder(**SIZES | options)
