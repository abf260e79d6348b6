import multiprocessing
import pickle
from multiprocessing.synchronize import Barrier
from pathlib import Path

import numpy as np
import pytest
from tokenizers import processors
from transformers import PreTrainedTokenizerFast

from gedbd.encoders.caches import cached_tokens
from gedbd.encoders.pretrained import tiny_tokenizer
from gedbd.text.tokens import TokenTable, tokenize

TEXTS = ["crash on start", "", "the editor is slow", "crash", "日本", "crash on start", "a " * 100]
MAX_TOKENS = 8


class Silenced(PreTrainedTokenizerFast):
    """A tokenizer that raises when it is asked for anything but what it is."""

    def __call__(self, *args, **kwargs):
        raise RuntimeError("the tokenizer was asked")


def silenced(tokenizer: PreTrainedTokenizerFast) -> PreTrainedTokenizerFast:
    tokenizer.__class__ = type(type(tokenizer).__name__, (Silenced,), {"__module__": type(tokenizer).__module__})
    return tokenizer


def check_equal(table: TokenTable, expected: TokenTable) -> None:
    assert table.ids.dtype == np.int32
    assert table.starts.dtype == np.int64
    assert table.ids.tolist() == expected.ids.tolist()
    assert table.starts.tolist() == expected.starts.tolist()
    assert table.pad_id == expected.pad_id


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    return tiny_tokenizer()


@pytest.fixture
def expected(tokenizer) -> TokenTable:
    return tokenize(TEXTS, tokenizer, MAX_TOKENS)


def test_the_second_call_maps_what_the_first_one_tokenized(tokenizer, expected, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    check_equal(cached_tokens(TEXTS, tokenizer, MAX_TOKENS, tmp_path / "new" / "folder"), expected)
    tokenizer(["crash", "on start"], truncation=True, max_length=3, padding=True)  # leaves its mark in the tokenizer
    mapped = cached_tokens(TEXTS, silenced(tokenizer), MAX_TOKENS, "~/new/folder")
    assert not mapped.ids.flags.owndata
    assert not mapped.ids.flags.writeable
    rows = np.array([6, 1, 0, 6])
    for table in (mapped, pickle.loads(pickle.dumps(mapped))):
        check_equal(table, expected)
        for part, expected_part in zip(table.batch(rows), expected.batch(rows), strict=True):
            assert part.tolist() == expected_part.tolist()


@pytest.mark.parametrize(
    "texts", [TEXTS[:-1], [*TEXTS[:-1], "other"], TEXTS[::-1], ["crash", "on"], ["cras", "hon"], ["crashon", ""]]
)
def test_other_texts_are_tokenized(tokenizer, tmp_path, texts):
    cached_tokens(TEXTS, tokenizer, MAX_TOKENS, tmp_path)
    cached_tokens(["crashon"], tokenizer, MAX_TOKENS, tmp_path)
    check_equal(cached_tokens(texts, tokenizer, MAX_TOKENS, tmp_path), tokenize(texts, tokenizer, MAX_TOKENS))
    assert len(list(tmp_path.iterdir())) == 3


def test_every_tokenizer_and_length_has_a_file_of_its_own(tokenizer, tmp_path):
    cased, doubled, bare, left, padded = (tiny_tokenizer() for _ in range(5))
    cased.backend_tokenizer.normalizer.lowercase = False
    doubled.add_tokens(["slow"])
    bare.backend_tokenizer.post_processor = processors.TemplateProcessing(single="$A", special_tokens=[])
    left.truncation_side = "left"
    padded.pad_token = padded.unk_token
    readers = [(other, MAX_TOKENS) for other in (tokenizer, cased, doubled, bare, left, padded)]
    readers += [(tokenizer, 4), (tokenizer, 32)]
    for other, max_tokens in readers:
        check_equal(cached_tokens(TEXTS, other, max_tokens, tmp_path), tokenize(TEXTS, other, max_tokens))
    assert len(list(tmp_path.iterdir())) == len(readers)


@pytest.mark.parametrize("left", [0, 1, 3, 4, 8 * 4, 60, -4, -1, None])
def test_a_truncated_or_longer_file_is_written_again(tokenizer, expected, tmp_path, left):
    cached_tokens(TEXTS, tokenizer, MAX_TOKENS, tmp_path)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole + bytes(4) if left is None else whole[:left])
    with pytest.warns(UserWarning, match=rf"{file.name} is damaged .*: the texts are tokenized again"):
        check_equal(cached_tokens(TEXTS, tokenizer, MAX_TOKENS, tmp_path), expected)
    assert file.read_bytes() == whole
    check_equal(cached_tokens(TEXTS, silenced(tokenizer), MAX_TOKENS, tmp_path), expected)


def tokenize_at_once(folder: Path, barrier: Barrier, answers: "multiprocessing.Queue[TokenTable]") -> None:
    tokenizer = tiny_tokenizer()
    barrier.wait()
    answers.put(cached_tokens(TEXTS * 50, tokenizer, MAX_TOKENS, folder))


@pytest.mark.integration
def test_two_processes_at_once_are_both_right(tokenizer, tmp_path):
    fork = multiprocessing.get_context("fork")
    barrier, answers = fork.Barrier(2), fork.Queue()
    processes = [fork.Process(target=tokenize_at_once, args=(tmp_path, barrier, answers)) for _ in range(2)]
    for process in processes:
        process.start()
    expected = tokenize(TEXTS * 50, tokenizer, MAX_TOKENS)
    for _ in processes:
        check_equal(answers.get(timeout=60), expected)
    for process in processes:
        process.join(timeout=60)
        assert process.exitcode == 0
    check_equal(cached_tokens(TEXTS * 50, silenced(tokenizer), MAX_TOKENS, tmp_path), expected)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_folder_that_cannot_be_used_is_refused(tokenizer, tmp_path):
    cached_tokens(TEXTS, tokenizer, MAX_TOKENS, tmp_path / "cache")
    (file,) = (tmp_path / "cache").iterdir()
    file.unlink()
    file.mkdir()  # cannot be opened
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "cache", tmp_path / "file", tmp_path / "file" / "inside", "/proc"):
        with pytest.raises(ValueError, match=rf"cache_dir={folder} cannot be used .*: name a folder that can be"):
            cached_tokens(TEXTS, tokenizer, MAX_TOKENS, folder)
