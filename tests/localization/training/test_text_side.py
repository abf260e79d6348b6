"""How an encoder of plain texts reads reports and changes."""

from gedbd.encoders.loaded_encoder import load_tiny_encoder
from gedbd.localization.code_encoder.code_inputs import InputLimits
from gedbd.localization.training.change_inputs import text_side

SIZES = {"dim": 8, "max_tokens": 32, "hidden": 16, "layers": 1, "dropout": 0.0, "seed": 0}


def test_a_comment_stands_behind_the_encoders_prefix():
    plain = load_tiny_encoder("tiny", "mean", **SIZES)
    query = load_tiny_encoder("tiny", "mean", **SIZES, prefix="query: ")
    tokenizer = plain.tokenizer
    for comment_tokens in (4, 10):
        limits = InputLimits(comment_tokens, 3, 0)
        comment = tokenizer("query: crash on start", add_special_tokens=False)["input_ids"]
        code = tokenizer("the editor", add_special_tokens=False)["input_ids"]
        expected = [tokenizer.cls_token_id, *comment[:comment_tokens], *code[:3], tokenizer.sep_token_id]
        assert text_side(query, limits).input("crash on start", "the editor").input_ids.tolist() == expected
        assert text_side(plain, limits).input("query: crash on start", "the editor").input_ids.tolist() == expected
