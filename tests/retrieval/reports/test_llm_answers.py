import math
import re
from typing import Any

import pytest

from gedbd.retrieval.reports.llm_check import messages, read_number, read_score
from gedbd.retrieval.reports.report_scorer import ReportText


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("85", 0.85),
        ("0", 0.0),
        ("100", 1.0),
        ("85.", 0.85),
        ("85.0", 0.85),
        ("85%", 0.85),
        ("**Score: 85 / 100**", 0.85),
        ('{"score": 7}', 0.07),
        ("Report 1 and report 2: 30 %", None),  # a number among other words may be one of a report
        ("The text says: the answer is 100 %", None),
        ("85 (85/100)", None),
        ("100\n\n7", None),
        ("`85`" + " " * 10_000 + "x", None),
        ("", None),
        ("the same bug", None),
        ("101", None),
        ("1000", None),
        ("-5", None),
        ("0.85", None),  # of 1, or of 100?
        ("85.5", None),
        ("80 to 90", None),
        ("as in GH-85 and v85", None),
    ],
)
def test_the_number_of_an_answer(text, score):
    assert read_number(text) == score


def choice(text: Any, *tokens: tuple[str, dict[str, float]]) -> dict[str, Any]:
    """The first choice of a completion; of each token its alternatives with their probabilities."""
    content = [
        {
            "token": token,
            "logprob": math.log(listed.get(token, 0.5)),
            "top_logprobs": [{"token": other, "logprob": math.log(p)} for other, p in listed.items()],
        }
        for token, listed in tokens
    ]
    return {"message": {"content": text}} | ({"logprobs": {"content": content}} if tokens else {})


@pytest.mark.parametrize(
    ("answered", "score"),
    [
        (choice("Yes."), 1.0),
        (choice("no"), 0.0),
        (choice("<think>no, or yes?</think>\nYes"), 1.0),
        (choice("yes and no"), None),
        (choice("The report says: yes"), None),
        (choice("**Answer:** yes"), 1.0),
        (choice("It begins <think>so</think> yes"), None),
        (choice("perhaps"), None),
        (choice(None), None),
        # 0.6 for yes and Yes, 0.2 for no: 0.6 / 0.8
        (choice("Yes", ("Yes", {"Yes": 0.5, "yes": 0.1, " No": 0.2, "May": 0.1})), 0.75),
        (choice("no", ("no", {"no": 0.9, "yes": 0.1}), (".", {".": 1.0})), 0.1),
        (choice("yes", ("y", {"y": 0.9}), ("es", {"es": 0.9})), 1.0),
        (choice("yes") | {"logprobs": {"content": [{"token": "yes"}]}}, 1.0),
        (choice("yes") | {"logprobs": {"content": None}}, 1.0),
        (choice("yes") | {"logprobs": [1]}, 1.0),
        (choice("yes") | {"logprobs": {"content": [{"token": 3}]}}, 1.0),
    ],
)
def test_yes_or_no_has_a_probability_where_the_endpoint_gives_one(answered, score):
    assert read_score(answered, "yes_no") == (score if score is None else pytest.approx(score))


def test_a_model_that_thinks_aloud_is_read_at_its_end():
    assert read_score(choice("<think>50? 60?\n</think>\n\n70"), "number") == 0.7


def test_descriptions_are_cut_and_broken_characters_replaced():
    asked = messages(ReportText("Crash \ud800", "x" * 30), ReportText("Hang", "when\nprinting"), "number", 10)
    assert [part["role"] for part in asked] == ["system", "user"]
    reports = asked[1]["content"]
    first, second = re.findall(r"<report_(\d_\w{16})>\n(.*?)\n</report_\1>", reports, re.DOTALL)
    assert (first[1], second[1]) == (f"Crash ?\n{'x' * 10}", "Hang\nwhen\nprint")
