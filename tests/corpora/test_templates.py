import re
from typing import Any

import pandas as pd
import pytest
from small_models import byte_level
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.readers.bug_reports import BUG_FIELDS
from gedbd.corpora.templates import PARTS, FieldTemplate, title_description
from gedbd.encoders.pretrained import tiny_tokenizer
from gedbd.text.cleaning import Cleaning
from gedbd.text.tokens import cut_to_tokens, tokenize

TOKENS: dict[str, Any] = {"product": 6, "component": 8, "os": 6, "priority": 3, "summary": 32, "description": None}
TOKENS["screenshots"] = 24
REPORT = {"title": "Crash on start", "description": "It closes at once.", "product": "Mail", "component": "Inbox"}
REPORT |= {"os": "Windows 10", "priority": "P3"}
FORM = "[PRODUCT] Mail [COMPONENT] Inbox [OS] Windows 10 [PRIORITY] P3"


@pytest.fixture(scope="module")
def tokenizer() -> PreTrainedTokenizerBase:
    return tiny_tokenizer()


def table(*reports: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame([dict.fromkeys(BUG_FIELDS, "") | report for report in reports], dtype=str)


def maker(**changed: Any) -> FieldTemplate:
    order = changed.pop("order", PARTS)
    return FieldTemplate(order, TOKENS | changed.pop("tokens", {}), changed.pop("captions", None), Cleaning(**changed))


def captions_of(tmp_path, rows: str) -> str:
    (tmp_path / "captions.csv").write_text("image,sha256,caption,status\n" + rows)
    return str(tmp_path / "captions.csv")


def test_title_and_description_are_joined_and_nothing_is_added_to_what_is_empty():
    reports = pd.DataFrame({"title": [" Crash ", "", "Crash", ""], "description": ["on start\n", "boom", " ", ""]})
    assert title_description(reports).texts == ["Crash\non start", "boom", "Crash", ""]


@pytest.mark.parametrize(
    ("report", "changed", "text"),
    [
        (REPORT, {}, f"{FORM} [SUMMARY] Crash on start [DESCRIPTION] It closes at once."),
        ({"title": "Crash"}, {}, "[SUMMARY] Crash"),
        ({"description": "Boom", "priority": "---"}, {}, "[DESCRIPTION] Boom"),
        ({}, {}, ""),
        ({"component": "Mail/Inbox"}, {}, "[PRODUCT] Mail [COMPONENT] Inbox"),
        # Only a field of the form can say that it is empty.
        (
            {"title": "Unknown", "description": "none", "os": "Unspecified", "product": "None"},
            {},
            "[SUMMARY] Unknown [DESCRIPTION] none",
        ),
        (REPORT, {"order": ["description", "summary"]}, "[DESCRIPTION] It closes at once. [SUMMARY] Crash on start"),
        ({"description": "It closes at once."}, {"tokens": {"description": 2}}, "[DESCRIPTION] It closes"),
        ({"description": "See https://x.org/b/17 for more"}, {"urls": "mark"}, "[DESCRIPTION] See [URL] for more"),
    ],
)
def test_the_marked_form(tokenizer, report, changed, text):
    assert maker(**changed)(table(report), tokenizer, 128).texts == [text]


def test_one_part_a_line_as_in_the_replication_package_reads_the_same_with_wordpiece_alone(tokenizer, tmp_path):
    captions = captions_of(tmp_path, "a.png,1,a dialog,described\nb.png,2,a list,described\n")
    reports = table(REPORT | {"description": "It closes.\nAlways.", "attachments": "a.png;b.png"}, {"title": "Crash"})
    on_one_line, by_line = (
        FieldTemplate(PARTS, None, captions, Cleaning(), lines)(reports, tokenizer, 128).texts
        for lines in (False, True)
    )
    lines = ["[PRODUCT] Mail", "[COMPONENT] Inbox", "[OS] Windows 10", "[PRIORITY] P3", "[SUMMARY] Crash on start"]
    lines += [
        "[DESCRIPTION] It closes.",
        "Always.",
        "Visual Context:",
        "[Image:a.png] a dialog",
        "[Image:b.png] a list",
    ]
    assert by_line == ["\n".join(lines), "[SUMMARY] Crash"]
    assert tokenizer(by_line)["input_ids"] == tokenizer(on_one_line)["input_ids"]
    assert byte_level()(by_line)["input_ids"] != byte_level()(on_one_line)["input_ids"]


def test_line_breaks_count_as_tokens_of_the_markers(tmp_path):
    captions = captions_of(tmp_path, "a.png,1,abcdef abcdef,described\n")
    template = FieldTemplate(
        ["summary", "screenshots"], {"summary": 3, "screenshots": None}, captions, Cleaning(), True
    )
    # A token a character: the blank before a word is one of the summary's three, and the first line break is counted.
    (text,), _ = template(table({"title": "ab cd", "attachments": "a.png"}), byte_level(), 52)
    assert text == "[SUMMARY] ab\nVisual Context:\n[Image:a.png] abcdef"
    assert len(byte_level()(text)["input_ids"]) == 51


@pytest.mark.parametrize("unit", ["2024-01-05 12:00:01 INFO worker took 3 ms\n", "x", "(((", "unbroken-"])
def test_a_long_log_pushes_nothing_out(tokenizer, tmp_path, unit):
    captions = captions_of(tmp_path, "a.png,1,a dialog asks to save,described\n")
    log = (unit * 50_000)[:50_000]
    reports = table(REPORT | {"description": log, "attachments": "a.png", "title": "Crash on start while saving"})
    ((text,), _) = maker(captions=captions)(reports, tokenizer, 128)
    ids = tokenize([text], tokenizer, 128).ids.tolist()
    assert len(tokenizer(text)["input_ids"]) == len(ids)
    description = f"[DESCRIPTION] {log if unit == 'x' else unit[:10]}"
    screenshot = "Visual Context: [Image: a.png] a dialog asks to save"
    parts = (f"{FORM} [SUMMARY] Crash on start while saving", description, screenshot)
    places = [find(ids, tokenizer(part, add_special_tokens=False)["input_ids"]) for part in parts]
    assert places == sorted(places)
    assert len(ids) > 120 or unit == "x"  # which is one word, and one unknown token


def find(ids: list[int], wanted: list[int]) -> int:
    """Where some tokens stand one after the other."""
    return next(place for place in range(len(ids)) if ids[place : place + len(wanted)] == wanted)


def test_each_part_keeps_to_its_tokens_and_what_is_left_goes_to_the_open_one(tokenizer):
    words = "mail " * 500
    reports = table(dict.fromkeys(("product", "component", "os", "priority", "title", "description"), words))
    ((text,), _) = maker()(reports, tokenizer, 128)
    markers = sum(len(tokenizer.tokenize(f"[{part}]")) for part in PARTS if part != "screenshots")
    kept = {part.split("]")[0]: part.count("mail") for part in text.split("[")[1:]}
    left = 128 - 2 - 6 - 8 - 6 - 3 - 32 - markers
    assert kept == {"PRODUCT": 6, "COMPONENT": 8, "OS": 6, "PRIORITY": 3, "SUMMARY": 32, "DESCRIPTION": left}
    assert len(tokenize([text], tokenizer, 512).ids) == 128


def test_captions_of_the_images_that_a_report_names(tokenizer, tmp_path):
    text = maker(
        captions=captions_of(tmp_path, "a.png,1,a dialog,described\nb.png,2,,broken\nc.png,3,a list,described\n")
    )
    reports = table(*({"title": "x", "attachments": names} for names in ("a.png; log.txt;b.png;c.png", "b.png", "")))
    texts, warnings = text(reports, tokenizer, 128)
    assert texts == [
        "[SUMMARY] x Visual Context: [Image: a.png] a dialog [Image: c.png] a list",
        "[SUMMARY] x",
        "[SUMMARY] x",
    ]
    assert warnings == ("reports with a described screenshot: 1; images without a description: 1",)
    assert text(table({"title": "x"}), tokenizer, 128) == (
        ["[SUMMARY] x"],
        ("reports with a described screenshot: 0; images without a description: 0",),
    )
    with pytest.raises(ValueError, match="describes no image that these reports name"):
        text(table({"title": "x", "attachments": "other.png"}), tokenizer, 128)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"order": ["summary", "summary"]}, r"text.order=\['summary', 'summary'\]: name each part once: product"),
        ({"order": ["titel"]}, "name each part once"),
        ({"order": []}, "name each part once"),
        ({"tokens": {"summary": None}}, "summary and description have no number: only one part may have none"),
        ({"tokens": {"os": 0}}, "text.tokens.os=0 must be 1 or more"),
        ({"logs": "drop"}, "text.cleaning.logs=drop"),
    ],
)
def test_settings_that_make_no_text_are_refused(changed, message):
    with pytest.raises(ValueError, match=message):
        maker(**changed)


def test_budgets_that_leave_nothing_to_the_description_are_refused(tokenizer):
    budgets = r"take up to (\d+) of the {} tokens .*, 8 are needed for description: lower"
    with pytest.raises(ValueError, match=budgets.format(30)) as refused:
        maker()(table(REPORT), tokenizer, 32)
    taken = int(re.search(budgets.format(30), str(refused.value))[1])
    with pytest.raises(ValueError, match=budgets.format(taken + 7)):
        maker()(table(REPORT), tokenizer, taken + 7 + 2)  # two special tokens
    assert maker()(table(REPORT), tokenizer, taken + 8 + 2)
    tokenizer_like = type("Slow", (), {"is_fast": False, "name_or_path": "slow"})()
    with pytest.raises(ValueError, match="needs a fast tokenizer"):
        maker()(table(REPORT), tokenizer_like, 128)


def test_cutting_keeps_whole_words_where_there_are_any(tokenizer):
    texts = ["mail folder list", "mail-folder list", "zzzz", "", "mail " * 3000, " " * 3000 + "mail folder"]
    for budget in range(6):
        cut, counts = cut_to_tokens(texts, tokenizer, [budget] * len(texts))
        for text, short, count in zip(texts, cut, counts, strict=True):
            assert len(tokenizer.tokenize(short)) == count <= budget
            assert text.startswith(short)
        assert cut[0].split() == ["mail", "folder", "list"][:budget]
        assert cut[1] == ["", "mail", "mail-", "mail-folder", "mail-folder list", "mail-folder list"][budget]
        assert cut[5].split() == ["mail", "folder"][:budget]
