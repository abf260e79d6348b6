import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from gedbd.text.tokens import CHARACTERS_PER_TOKEN, CHUNK_TEXTS, TokenTable, poorly_covered, tokenize

SENTENCE = "The editor crashes on start, after the last update; see stack trace (ABC-123) éü 日本 \t\r\n\n x"


def byte_level_tokenizer() -> PreTrainedTokenizerFast:
    """RoBERTa's kind of tokenizer, trained on a few words."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=320, initial_alphabet=alphabet, special_tokens=["<s>", "<pad>", "</s>"], show_progress=False
    )
    tokenizer.train_from_iterator([SENTENCE] * 3, trainer)
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", cls_token="<s>", sep_token="</s>")


def texts_of_all_lengths() -> list[str]:
    generator = np.random.default_rng(0)
    texts = [
        " ".join(generator.choice(SENTENCE.split(" "), size=count))
        for count in (0, 1, 3, 30, 300, 3000)
        for _ in range(5)
    ]
    return [*texts, "", " ", "\n" * 5000 + "crash", "q" * 5000, "a " * 20 + "b" * 5000]


def check_against_the_tokenizer_alone(texts: list[str], tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
    table = tokenize(texts, tokenizer, max_tokens)
    alone = tokenizer(texts, truncation=True, max_length=max_tokens)["input_ids"]
    for row, expected in enumerate(alone):
        assert table.ids[table.starts[row] : table.starts[row + 1]].tolist() == expected, texts[row][:50]
    assert table.lengths.tolist() == [len(expected) for expected in alone]
    assert table.lengths.max() == max_tokens
    assert table.pad_id == tokenizer.pad_token_id
    shortened = tokenize(texts, tokenizer, max_tokens + 20).truncated(max_tokens)
    assert shortened.ids.tolist() == table.ids.tolist()
    assert shortened.starts.tolist() == table.starts.tolist()


@pytest.mark.parametrize("max_tokens", [3, 4, 32])
@pytest.mark.parametrize("kind", ["word-piece", "byte-level"])
def test_same_numbers_as_the_tokenizer_alone(tiny, kind, max_tokens):
    tokenizer = tiny[1] if kind == "word-piece" else byte_level_tokenizer()
    check_against_the_tokenizer_alone(texts_of_all_lengths(), tokenizer, max_tokens)


def test_a_word_at_the_end_of_the_head_is_not_cut_in_two(tiny):
    tokenizer = tiny[1]
    word = "q" * (4 * CHARACTERS_PER_TOKEN + 100)  # longer than the head, and so long that it is one unknown token
    table = tokenize([word, "crash " + word], tokenizer, max_tokens=4)
    unknown, crash = tokenizer.unk_token_id, tokenizer.convert_tokens_to_ids("crash")
    assert table.ids.tolist() == [2, unknown, 3, 2, crash, unknown, 3]


def test_a_tokenizer_without_padding_is_refused_and_texts_keep_their_order(tiny):
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=tiny[1].backend_tokenizer, name_or_path="bare")
    with pytest.raises(ValueError, match="the tokenizer of bare has no padding token"):
        tokenize(["crash"], tokenizer, 8)
    texts = [f"crash {number % 7}" * (1 + number % 3) for number in range(CHUNK_TEXTS + 5)]
    table = tokenize(texts, tiny[1], 16)
    for row in (0, CHUNK_TEXTS - 1, CHUNK_TEXTS, CHUNK_TEXTS + 4):
        expected = tiny[1](texts[row])["input_ids"][:16]
        assert table.ids[table.starts[row] : table.starts[row + 1]].tolist() == expected


def test_padding_and_masks_by_hand():
    table = TokenTable(np.array([5, 6, 7, 8, 9, 4], dtype=np.int32), np.array([0, 3, 3, 4, 6]), pad_id=1)
    input_ids, attention_mask = table.batch(np.array([2, 0, 1]))
    assert input_ids.tolist() == [[8, 1, 1], [5, 6, 7], [1, 1, 1]]
    assert attention_mask.tolist() == [[1, 0, 0], [1, 1, 1], [0, 0, 0]]
    assert input_ids.dtype == attention_mask.dtype == torch.int64
    assert table.batch(np.array([3, 3]))[0].tolist() == [[9, 4], [9, 4]]
    some = table.of_rows(np.array([3, 1, 0]))
    assert (some.ids.tolist(), some.starts.tolist(), some.pad_id) == ([9, 4, 5, 6, 7], [0, 2, 2, 5], 1)


def test_how_much_of_a_text_a_tokenizer_has_no_words_for():
    known = ["[UNK]", "crash", "on", "start", "с", "##б", "##о", "##й", "打", "##开"]
    words = Tokenizer(models.WordPiece({word: number for number, word in enumerate(known)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    assert poorly_covered(["crash on start", "crash on"], tokenizer) == (0, 0)
    assert poorly_covered(["crash 崩溃"], tokenizer) == (0.5, 0)
    # Four letters of one Russian word and one English word; ideographs are words.
    assert poorly_covered(["сбой crash"], tokenizer) == (0, 0.8)
    assert poorly_covered(["打开"], tokenizer) == (0, 0)
    assert poorly_covered([""], tokenizer) == (0, 0)
