import base64
import random
import re
import unicodedata

import bm25s
import numpy as np
import pytest
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from gedbd.text.words import (
    MAX_CHARACTERS,
    MAX_ERROR_LINES,
    MAX_IDENTIFIERS,
    MAX_LINE_LENGTH,
    MAX_NAME_LENGTH,
    CodeWords,
    compose,
    find_error_lines,
    find_identifiers,
    find_words,
    normalise,
    separate,
    shared_phrases,
    stop_words,
    without_stop_words,
)


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


def test_identifiers_and_error_lines_are_bounded():
    assert separate("在FooBar中") == " 在 FooBar 中 "
    assert separate("plain_text") == "plain_text"
    assert compose("e\u0301ｶﾞ") == "éガ"
    many = " ".join(f"name_{number}" for number in range(1000))
    assert find_identifiers(many) == [f"name_{number}" for number in range(MAX_IDENTIFIERS)]
    assert find_identifiers("x" * MAX_CHARACTERS + " openAll") == []
    name = "a_" + "b" * (MAX_NAME_LENGTH - 2)
    assert find_identifiers(f"{name} {name}b") == [name]
    lines = [f"error in step {chr(97 + number % 26)}{chr(97 + number // 26)} of all" for number in range(60)]
    assert find_error_lines("\n".join(lines)) == lines[:MAX_ERROR_LINES]
    (long,) = find_error_lines("error " + "mail " * 100)
    assert len(long) == MAX_LINE_LENGTH
    assert find_error_lines("x" * MAX_CHARACTERS + "\nerror: cannot open") == []


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


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("HTTPServer", ["httpserver", "http", "server"]),
        ("parseURL2Path(x)", ["parseurl2path", "parse", "url", "path"]),
        ("MAX_SIZE __init__ __ _x", ["max_size", "max", "size", "init"]),
        ("org.apache.JspUtil$Tag", ["org", "apache", "jsputil", "jsp", "util", "tag"]),
        ("utf8 404 3", ["utf8", "utf", "404"]),
        ("The parser of a file", ["parser", "file"]),
        ("src/main/Foo.java", ["src", "main", "foo", "java"]),
        ("größeMaße naïve", ["grössemasse", "naïve"]),
        ("在fooBar中打开文件", ["foobar", "foo", "bar", "中打", "打开", "开文", "文件"]),
        ("RÄNDER ra\u0308nder", ["ränder", "ränder"]),
        ("+    if (a) { return ioException; }", ["return", "ioexception", "io", "exception"]),
        ("A" * 101 + " " + "a" * 100, ["a" * 100]),
        ("", []),
    ],
)
def test_code_words(text, words):
    assert CodeWords()([text]) == [words]


def test_what_is_left_out():
    text = "the return isVoid void"
    assert CodeWords(java_keywords=True).of_text(text) == ["isvoid"]
    assert CodeWords([], java_keywords=True).of_text(text) == ["the", "isvoid", "is"]
    assert CodeWords(["isvoid"]).of_text(text) == ["the", "return", "is", "void", "void"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("The menu is lost. Try again!", []),
        ("openAll fails, OPENALL too", ["openall"]),
        ("call Mail.store.openAll() and Mail.store.openAll", ["mail.store.openall", "openall"]),
        ("java.util.List", ["java.util.list"]),  # its last part is a plain word
        ("draft_count __init__ _x a_ $scope", ["draft_count"]),
        ("at 0x00FF and 0xzz, 12345, 12ab, 3D", ["0x00ff"]),
        ("error MT5202 and CS0246, M1, M12a, HTTP404", ["mt5202", "cs0246", "http404"]),
        ("iPhone iOS McDonald's", ["iphone", "ios", "mcdonald"]),
        ("foo_bar foo_bar FOO_BAR foo_Bar", ["foo_bar"]),
        ("naïveName größer_als", ["naïvename", "größer_als"]),
        ("12é34 7_8", ["7_8"]),
    ],
)
def test_identifiers_by_hand(text, expected):
    assert find_identifiers(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("The menu is lost\nTry again", []),
        ("All fine\nERROR: cannot open folder 12\r\nmore", ["error cannot open folder 0"]),
        ("Crash at 0xAB12 after 17:03\nCrash at 0x9f after 3:1", ["crash at 0 after 0 0"]),
        ("error", []),  # too short to say anything
        ("  --- Failed: 'draft.txt' (denied) ---  ", ["failed draft txt denied"]),
        (
            "Can't open the mail store\vUnable to sync the mail",
            ["can t open the mail store", "unable to sync the mail"],
        ),
    ],
)
def test_error_lines_by_hand(text, expected):
    assert find_error_lines(text) == expected


HOSTILE = {
    "base64": base64.b64encode(np.random.default_rng(0).bytes(750_000)).decode(),
    "digits": "1" * 1_000_000,
    "dots": "A." * 500_000,
    "underscores": "_" * 1_000_000,
    "letters": "aB" * 500_000,
    "capitals": "A" * 1_000_000,
    "parts": "aA1" * 300_000,
    "small letters and underscores": "a_" * 500_000,
    "letters beyond ASCII": "aé" * 500_000,
    "hexadecimal marks": "0x" * 500_000,
    "an error in one line": "error " + "(" * 1_000_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts_are_read_in_linear_time(name, monkeypatch, hang_guard):
    """Far more than is read of a text, so that quadratic time could not be missed."""
    monkeypatch.setattr("gedbd.text.words.MAX_CHARACTERS", 10**9)
    find_identifiers(HOSTILE[name])
    find_error_lines(HOSTILE[name])
    assert len(CodeWords()([HOSTILE[name]])) == 1


def test_stop_words_are_those_of_scikit_learn():
    assert stop_words() == ENGLISH_STOP_WORDS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("How do I mount https://x.org/y on boot?", "mount boot?"),
        ("What is this?", "What is this?"),  # nothing but stop words: they are kept
        ("(The) disk", "disk"),
        ("https://x.org", ""),
        ("  ", ""),
    ],
)
def test_urls_and_stop_words_are_removed(text, expected):
    assert without_stop_words(text) == expected
