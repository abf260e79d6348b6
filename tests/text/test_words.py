"""Words of other languages than English, by hand."""

import random
import re
import unicodedata

import bm25s
import pytest

from gedbd.text.words import compose, find_words, normalise, separate, shared_phrases


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("程序打开文件时崩溃。", ["程序", "序打", "打开", "开文", "文件", "件时", "时崩", "崩溃"]),
        ("日本語・フォント", ["日本", "本語", "フォ", "ォン", "ント"]),
        ("ｶﾞｲﾄﾞ ＡＢＣ１２", ["ガイ", "イド", "abc12"]),  # narrow Katakana and wide letters
        ("파일을 열 수 없음", ["파일", "일을", "열", "수", "없음"]),
        ("点击Button1按钮A键", ["点击", "button1", "按钮", "键"]),  # a single letter is no word, a single ideograph is
        ("\U00020000\U00020001々", ["\U00020000\U00020001", "\U00020001々"]),
        ("Größe STRASSE straße", ["grösse", "strasse", "strasse"]),
        ("Отчёт ОТЧЕТ", [normalise("отчет")] * 2),
        ("naïve café snake_case x", ["naïve", "café", "snake_case"]),
        ("Windows™ m²", ["windows", "m²"]),  # NFKC would make windowstm of it
        ("\ud800 漢\udfff字", ["漢", "字"]),
        ("", []),
        ("。！？", []),
    ],
)
def test_words(text, words):
    assert find_words(text) == words


@pytest.mark.parametrize("text", ["Ränder prüfen", "ＡＢＣ", "ガイド", "첨부 파일", "Ещё йод", "Ångström"])
def test_the_forms_of_a_character_are_equal(text):
    assert find_words(unicodedata.normalize("NFD", text)) == find_words(text)
    assert find_words(text.upper()) == find_words(text)


def test_words_of_ascii_and_of_composed_latin_text_are_those_of_bm25s():
    letters = random.Random(0)
    ascii_texts = ["".join(map(chr, letters.choices(range(128), k=400))) for _ in range(50)]
    latin = ["A naïve Café – “quoted” text… 3µm ±2", "Pokémon © 2024 señor"]
    for text in ascii_texts + latin[1:]:
        (expected,) = bm25s.tokenize([text], stopwords=[], return_ids=False, show_progress=False)
        assert find_words(text) == expected
    assert find_words(latin[0]) == re.findall(r"\w\w+", latin[0].casefold())


def test_runs_end_identifiers():
    assert separate("在FooBar中") == " 在 FooBar 中 "
    assert separate("plain_text") == "plain_text"
    assert compose("e\u0301ｶﾞ") == "éガ"


def test_pairs_are_joined_to_what_both_texts_have():
    weights = {"打开": 1.0, "开文": 3.0, "文件": 1.0, "失败": 2.0, "datei": 4.0}
    assert shared_phrases(weights, "打开文件。失败", "失败：打开文件 datei") == {
        "datei": 4.0,
        "打开文件": 3.0,
        "失败": 2.0,
    }
    # The other text has the pairs, but never one after the other; the second 文件 is part of 开文件.
    assert shared_phrases(weights, "打开文件 文件", "打开 开文件").keys() == {"datei", "打开", "开文件"}
    assert shared_phrases({}, "打开", "打开") == {}
