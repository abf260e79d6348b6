"""A damaged cache costs time, never a wrong number: what is damaged is computed again, and that is said."""

import sqlite3
import warnings
import zlib
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from gedbd.encoders.embedding_cache import cached_vectors
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.text.token_cache import cached_tokens

TEXTS = ["crash on start", "the editor is slow", "no mail arrives", "window too small"]


@pytest.fixture
def encode(tiny, tmp_path):
    model, tokenizer = tiny
    return lambda: LoadedEncoder(model, tokenizer, 8, cache_dir=tmp_path).pool(TEXTS)


def only(folder: Path, pattern: str) -> Path:
    (file,) = folder.glob(pattern)
    return file


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 0b100
    file.write_bytes(content)


@pytest.mark.filterwarnings("error")
def test_a_whole_cache_is_read_without_a_word(encode):
    assert (encode() == encode()).all()


@pytest.mark.parametrize("damage", ["a bit", "shorter", "longer", "a text", "null"])
def test_a_damaged_vector_is_encoded_again(encode, tmp_path, damage):
    expected = encode()
    with closing(sqlite3.connect(only(tmp_path, "*.sqlite"))) as cache, cache:
        key, content = cache.execute("SELECT key, vector FROM vectors LIMIT 1").fetchone()
        flipped = bytes([content[0] ^ 1]) + content[1:]
        damaged = {"a bit": flipped, "shorter": content[:-9], "longer": content * 2, "a text": "x", "null": None}[
            damage
        ]
        cache.execute("UPDATE vectors SET vector = ? WHERE key = ?", (damaged, key))
    with pytest.warns(UserWarning, match="1 damaged vectors are encoded again"):
        np.testing.assert_allclose(encode(), expected, atol=1e-6)
    np.testing.assert_allclose(encode(), expected, atol=1e-6)


def test_a_text_of_no_encoding_in_place_of_a_vector_is_damage(encode, tmp_path):
    expected = encode()
    with closing(sqlite3.connect(only(tmp_path, "*.sqlite"))) as cache, cache:
        cache.execute("UPDATE vectors SET vector = CAST(x'ff00ff' AS TEXT)")
    with pytest.warns(UserWarning, match=r"is damaged \(.*\): it is deleted, and the texts are encoded again"):
        assert (encode() == expected).all()


@pytest.mark.parametrize("damage", ["empty", "half", "no database", "pages"])
def test_a_damaged_file_of_vectors_is_made_again(encode, tmp_path, damage):
    expected = encode()
    file = only(tmp_path, "*.sqlite")
    content = file.read_bytes()
    changed = {"empty": b"", "half": content[: len(content) // 2], "no database": b"x" * 9000}
    changed["pages"] = content[:1000] + b"\xff" * (len(content) - 1000)
    file.write_bytes(changed[damage])
    if damage == "empty":  # to SQLite this is a new database
        assert (encode() == expected).all()
        return
    with pytest.warns(UserWarning, match=r"is damaged \(.*\): it is deleted, and the texts are encoded again"):
        assert (encode() == expected).all()
    assert (encode() == expected).all()


def test_every_bit_of_a_file_of_vectors_may_flip(encode, tmp_path):
    expected = encode()
    file = only(tmp_path, "*.sqlite")
    whole = file.read_bytes()
    damaged = 0
    for place in [*range(0, 100, 5), 120, 150, *range(200, len(whole), len(whole) // 60)]:
        file.write_bytes(whole)
        flip(file, place)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            vectors = encode()
        damaged += len(told)
        np.testing.assert_allclose(
            vectors, expected, atol=1e-6, err_msg=str(place)
        )  # alone, a text is rounded otherwise
    assert damaged > 3


@pytest.mark.parametrize("place", [0, 17, 30, -1])
def test_a_flipped_bit_among_token_numbers_is_found(tiny, tmp_path, place):
    tokenizer = tiny[1]
    expected = cached_tokens(TEXTS, tokenizer, 8, tmp_path)
    ids = expected.ids.tolist()
    flip(only(tmp_path, "tokens-*"), place)
    with pytest.warns(UserWarning, match=r"is damaged \(it differs from its checksum\): the texts are tokenized again"):
        assert cached_tokens(TEXTS, tokenizer, 8, tmp_path).ids.tolist() == ids
    assert cached_tokens(TEXTS, tokenizer, 8, tmp_path).ids.tolist() == ids


@pytest.mark.parametrize("length", [0, 3, 16, 21, -4])
def test_a_short_file_of_token_numbers_is_made_again(tiny, tmp_path, length):
    tokenizer = tiny[1]
    ids = cached_tokens(TEXTS, tokenizer, 8, tmp_path).ids.tolist()
    file = only(tmp_path, "tokens-*")
    file.write_bytes(file.read_bytes()[:length])
    with pytest.warns(UserWarning, match="is damaged"):
        assert cached_tokens(TEXTS, tokenizer, 8, tmp_path).ids.tolist() == ids


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_vectors_that_are_not_finite_are_neither_stored_nor_used(tmp_path, value):
    def encode(texts):
        yield np.arange(len(texts)), np.ones((len(texts), 2), dtype=np.float32)

    def encode_odd(texts):
        yield np.arange(len(texts)), np.full((len(texts), 2), value, dtype=np.float32)

    file = tmp_path / "vectors.sqlite"
    with pytest.raises(ValueError, match=r"not finite: choose another encoder= .*backend\.precision=float32"):
        cached_vectors(file, 2, TEXTS, encode_odd)
    assert cached_vectors(file, 2, TEXTS, encode).all()
    odd = np.full(2, value, dtype=np.float32).tobytes()
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE vectors SET vector = ?", (odd + zlib.crc32(odd).to_bytes(4, "little"),))
    with pytest.warns(UserWarning, match="4 damaged vectors are encoded again"):
        assert np.isfinite(cached_vectors(file, 2, TEXTS, encode)).all()
