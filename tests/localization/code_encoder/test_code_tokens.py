"""The tokens of code in a tokenizer and in the embeddings."""

import torch
from transformers import AutoTokenizer, BertForMaskedLM

from gedbd.encoders.tiny_bert import tiny_backbone, tiny_tokenizer
from gedbd.localization.code_encoder.code_inputs import CODE_TOKENS, ROLE_TOKENS, TYPE_TOKENS, add_code_tokens


def test_there_are_55_types_and_43_roles_and_5_others() -> None:
    assert len(TYPE_TOKENS) == 55
    assert len(ROLE_TOKENS) == 43
    assert len(set(CODE_TOKENS)) == 103
    assert TYPE_TOKENS[0] == "[TYPE:INTEGER]"
    assert ROLE_TOKENS[3] == "[ROLE:LOCAL]"


def test_each_architecture_gets_the_tokens_and_rows_once(model) -> None:
    backbone, tokenizer = model
    old = len(tokenizer)
    before = backbone.get_input_embeddings().weight.detach().clone()
    assert add_code_tokens(tokenizer, backbone, seed=3) == 103
    weight = backbone.get_input_embeddings().weight.detach().clone()
    assert len(tokenizer) == len(weight) == backbone.config.vocab_size == old + 103
    assert torch.equal(weight[:old], before)
    assert add_code_tokens(tokenizer, backbone, seed=4) == 0
    assert torch.equal(backbone.get_input_embeddings().weight, weight)


def test_new_rows_have_the_mean_and_spread_of_the_old_ones() -> None:
    tokenizer = tiny_tokenizer()
    backbone = tiny_backbone(32, 1, 0.1, 0, len(tokenizer))
    with torch.no_grad():
        backbone.get_input_embeddings().weight.mul_(torch.linspace(0.1, 30, 32)).add_(7)
    add_code_tokens(tokenizer, backbone)
    old, new = backbone.get_input_embeddings().weight.detach().tensor_split([len(tokenizer) - 103])
    assert torch.allclose(new.mean(0), old.mean(0), atol=0.3)
    assert torch.allclose(new.std(0) / old.std(0), torch.ones(32), atol=0.3)


def test_the_seed_determines_the_rows_and_other_random_numbers_stay() -> None:
    rows = []
    for seed in (1, 1, 2):
        tokenizer = tiny_tokenizer()
        backbone = tiny_backbone(8, 1, 0.1, 0, len(tokenizer))
        state = torch.get_rng_state()
        add_code_tokens(tokenizer, backbone, seed)
        assert torch.equal(torch.get_rng_state(), state)
        rows.append(backbone.get_input_embeddings().weight.detach())
    assert torch.equal(rows[0], rows[1])
    assert not torch.equal(rows[0], rows[2])


def test_embeddings_with_rows_to_spare_are_not_cut() -> None:
    tokenizer = tiny_tokenizer()
    backbone = tiny_backbone(8, 1, 0.1, 0, len(tokenizer) + 200)
    add_code_tokens(tokenizer, backbone)
    assert backbone.config.vocab_size == len(tokenizer) + 97


def test_a_language_model_grows_at_both_ends() -> None:
    tokenizer = tiny_tokenizer()
    backbone = tiny_backbone(8, 1, 0.1, 0, len(tokenizer))
    model = BertForMaskedLM(backbone.config)
    add_code_tokens(tokenizer, model)
    assert model(torch.tensor([[len(tokenizer) - 1]])).logits.shape == (1, 1, len(tokenizer))


def test_brackets_of_code_are_no_markers_in_a_saved_tokenizer_either(tmp_path, tokenizer) -> None:
    tokenizer.save_pretrained(tmp_path)
    for one in (tokenizer, AutoTokenizer.from_pretrained(tmp_path)):
        assert one("x[N][CLS]").tokens()[:5] == ["[CLS]", "x", "[", "n", "]"]
        assert one.convert_tokens_to_ids("[N]") == len(tokenizer) - 102
