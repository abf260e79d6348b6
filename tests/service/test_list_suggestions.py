"""Comments that name the three best matches together, by targets that were measured for such lists."""

import logging
from dataclasses import replace

import pytest
from small_github import REPOSITORY
from small_index import LIST_TARGETS
from webhook_events import issue

from gedbd.corpora.feedback import FeedbackEvent
from gedbd.service.webhook import Webhook, append_summary

# Half of these four words are in #31, half in #20, one in #12: together 1.25.
TITLE = "attachment preview week calendar"
FIGURE = (
    "Of 30 such lists of 3 on this tracker's reports from 2024-01-02 to 2024-02-28,"
    " 22 (73%, 95% interval 56% to 89%) named a duplicate."
)


def say(verdict, index, hook, *ids):
    for one in ids:
        hook.feedback.record(FeedbackEvent(index.get("70"), one, verdict, "api"))


def test_a_comment_names_the_three_best_matches_together(index, hub, hook_of):
    hook = hook_of(lists=True)
    hook.receive("issues", issue(title=TITLE))
    assert hook.post_comments() == ["posted"]
    heading, *bullets, gap, figure, empty, last = hub.comments()[0].splitlines()[1:]
    assert heading == "This may be a duplicate of one of these issues:"
    assert [line.split(":")[0] for line in bullets] == [
        "- #20 (probability 50%)",
        "- #31 (probability 50%)",
        "- #12 (probability 25%, open)",
    ]
    assert (gap, figure, empty) == ("", FIGURE, "")
    assert last.startswith("Nothing was closed")
    (suggestion,) = hook.record.read()
    assert (suggestion.is_list, [report.issue for report in suggestion.named]) == (True, ["20", "31", "12"])


def test_the_sum_of_the_probabilities_must_reach_the_threshold(index, hub, hook_of):
    index.list_target = replace(LIST_TARGETS[0], threshold=1.3)
    result = hook_of(lists=True).receive("issues", issue(title=TITLE))
    assert result.no_comment == "the best 3 matches together are below the threshold 1.300"


def test_no_list_without_one_of_the_measured_matches(index, hub, hook_of):
    hook = hook_of(lists=True)
    hook.receive("issues", issue(15, title=TITLE))
    assert hook.post_comments() == []
    assert [one.reason for one in hook.record.read()] == ["the match at place 3, 12, is already linked"]


def test_nothing_is_suggested_unless_the_target_of_lists_was_met(index, hook_of, caplog):
    with caplog.at_level(logging.INFO, "gedbd"):
        hook = hook_of(lists=True, target_precision=0.7)
    assert hook.receive("issues", issue(title=TITLE)).no_comment == LIST_TARGETS[1].statement
    assert "Targets met: 0.5; by lists of 3: 0.5." in caplog.text


@pytest.mark.parametrize(
    ("happens", "outcome"),
    [
        (lambda index, hook: None, "not yet known"),
        (lambda index, hook: index.link("70", "12", "export: group"), "right"),
        (lambda index, hook: say("accept", index, hook, "31"), "right"),
        (lambda index, hook: say("reject", index, hook, "31"), "not yet known"),
        (lambda index, hook: say("reject", index, hook, "12", "20", "31"), "wrong"),
    ],
)
def test_a_list_is_right_if_one_of_its_reports_is(index, hook_of, tmp_path, happens, outcome):
    hook = hook_of(lists=True, suggest="shadow")
    reason = hook.receive("issues", issue(title=TITLE)).no_comment
    assert "#20, #31, #12 would be suggested" in reason
    happens(index, hook)
    (judged,) = hook.record.judge(index, hook.feedback)
    assert judged.outcome == outcome
    append_summary(tmp_path / "summary.md", hook, "#70 added")
    assert f"| #20, #31, #12 | 100% | {outcome} |" in (tmp_path / "summary.md").read_text()


def test_a_list_of_another_length_is_refused(index):
    with pytest.raises(ValueError, match=r"^webhook.lists=true.*leave webhook.suggestions"):
        Webhook(index, REPOSITORY, lists=True, suggestions=2)
