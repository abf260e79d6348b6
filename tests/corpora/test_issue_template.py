"""Which lines belong to a tracker's issue template, by hand."""

import pytest

from gedbd.text.cleaning import template_lines, without_template


@pytest.mark.parametrize(
    "line",
    [
        "## Steps to reproduce",
        "h3. Actual result",
        "- [x] I have searched",
        "* [ ] I have read the rules",
        "**Expected behaviour**",
        "*Steps to reproduce:*",
        "=== System ===",
        "Actual result:",
        "\u6b65\u9aa4\uff1a",  # "steps:" in Chinese
    ],
)
def test_what_three_of_a_hundred_descriptions_share_is_the_template(line):
    texts = [f"{line}\nThe ruler number {number} is wrong" for number in range(3)]
    assert template_lines(texts) == {line.casefold()}
    assert template_lines(texts[:2]) == frozenset()
    assert template_lines(texts + ["It ends"] * 297) == {line.casefold()}
    assert template_lines(texts + ["It ends"] * 298) == frozenset()


@pytest.mark.parametrize("line", ["It crashes", "#5", "try:", "public:", "x = {'a':", "**bold** and not", "[x] done"])
def test_what_has_no_such_form_is_what_reporters_write(line):
    assert template_lines([line] * 100) == frozenset()


def test_twenty_copies_are_enough_in_a_large_tracker():
    texts = ["It ends"] * 5000
    assert template_lines(texts + ["# Steps"] * 20) == {"# steps"}
    assert template_lines(texts + ["# Steps"] * 19) == frozenset()


def test_an_instruction_needs_more_copies():
    texts = ["Please say what happens."] * 20
    assert template_lines(texts) == {"please say what happens."}
    assert template_lines(texts[1:]) == frozenset()
    assert template_lines(["It crashes again."] * 20) == frozenset()  # three words
    # 1% of 2,020 descriptions are more than 20.
    assert template_lines(texts + ["It ends"] * 2000) == frozenset()


def test_code_is_no_template_and_stays():
    code = "```\n# Run it\n```\n{code:java}\nCase 1:\n{code}\n# Steps\nClick"
    assert template_lines([code] * 3) == {"# steps"}
    assert without_template(code, {"# run it", "case 1:", "# steps"}) == code.replace("# Steps\n", "")


def test_what_is_left_of_a_description():
    template = template_lines(["### Bug\n\nIt crashes\n\n### Steps\n"] * 3)
    assert without_template("### BUG \n\nIt hangs\n\n### Steps\nClick\n", template) == "It hangs\n\nClick"
    assert without_template("### Bug\n\n### Steps", template) == "### Bug\n\n### Steps"
    assert without_template("", template) == ""
