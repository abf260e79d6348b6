"""``webhook.suggest=native``: proposals to close an issue, which a small GitHub treats in four ways."""

import json
import logging
from dataclasses import replace

import pytest
from small_github import BOT, ISSUES, REPOSITORY
from small_index import FIGURE
from webhook_events import TITLE, issue, note

from gedbd.corpora.bug_report import Report
from gedbd.corpora.feedback import feedback_table
from gedbd.service.webhook.native_proposals import MAX_RATIONALE, Proposal
from gedbd.service.webhook.signed_deliveries import run_event
from gedbd.service.webhook.suggestion import NamedReport, Suggestion, comment_text, suggest_duplicates

DATABASE_ID = 9_000_012  # GitHub's id of issue 12


@pytest.fixture
def tracker(hub):
    """Issues 70, 71 and 12, all open."""
    hub.issues = {number: {"number": number, "id": 9_000_000 + number, "state": "open"} for number in (12, 70, 71)}
    return hub


@pytest.fixture
def native(hook_of, tracker):
    hook = hook_of(suggest="native")
    hook.outbox.first_wait_s = hook.outbox.result_wait_s = 0.0
    return hook


def opened(hook, number=70):
    hook.receive("issues", issue(number))
    return hook.post_comments()


def recorded(index, number="70"):
    lines = (index.folder / "suggestions.jsonl").read_text().splitlines()
    (found,) = (one["proposal"] for one in map(json.loads, lines) if one["issue"] == number)
    return found


def decisions(index):
    table = feedback_table(index.folder)
    return [tuple(row) for row in table[["issue_id", "candidate", "verdict", "who"]].to_numpy()]


def test_a_proposal_follows_the_comment(native, tracker, index):
    assert opened(native) == ["posted"]
    assert len(tracker.comments()) == 1
    ((path, change),) = tracker.changes
    assert path == f"{ISSUES}/70"
    rationale = f"Probability 100%: attachment, large, sending, stops. {FIGURE}"
    assert change == {
        "state": {"value": "closed", "suggest": True, "rationale": rationale, "confidence": "HIGH"},
        "state_reason": "duplicate",
        "duplicate_issue_id": DATABASE_ID,
    }
    assert tracker.issues[70]["state"] == "open"
    assert recorded(index) == "made"
    assert tracker.asked[-1] == "GET"  # it is read back
    assert opened(native) == []


def test_an_api_that_closes_the_issue_is_noticed_and_undone(native, tracker, index, caplog):
    tracker.closes = "closes"
    with caplog.at_level(logging.ERROR, "gedbd"):
        assert opened(native) == ["posted"]
    assert tracker.issues[70]["state"] == "open"
    assert [change["state"] for _, change in tracker.changes][1:] == ["open"]
    assert recorded(index) == "reopened"
    assert "GitHub closed issue 70 instead of proposing it, so it was reopened, and no further" in caplog.text
    # It is not tried with the next issue, which only gets its comment.
    assert opened(native, 71) == ["posted"]
    assert len(tracker.changes) == 2
    assert recorded(index, "71") == ""
    assert all(one["state"] == "open" for one in tracker.issues.values())


def test_what_cannot_be_reopened_at_once_is_reopened_later(native, tracker, index, caplog):
    """After the proposal was sent, GitHub answers nothing for two requests."""
    tracker.closes = "closes"
    tracker.failures = [("PATCH", 502), ("PATCH", 503)]
    with caplog.at_level(logging.WARNING, "gedbd"):
        assert opened(native) == ["postponed"]
        assert tracker.issues[70]["state"] == "closed"
        assert native.post_comments() == ["postponed"]
        assert native.post_comments() == ["exists"]
    assert "no proposal to close issue 70 yet, it will be tried again: PATCH" in caplog.text
    assert tracker.issues[70]["state"] == "open"
    assert recorded(index) == "reopened"
    assert len(tracker.comments()) == 1
    assert sum(isinstance(change["state"], dict) for _, change in tracker.changes) == 1


@pytest.mark.parametrize(("closes", "result"), [("ignores", "made"), ("refuses", "refused")])
def test_an_api_that_does_nothing_is_harmless(native, tracker, index, caplog, closes, result):
    tracker.closes = closes
    assert opened(native) == ["posted"]
    assert recorded(index) == result
    assert tracker.issues[70]["state"] == "open"
    assert ("no proposal to close issue 70: PATCH" in caplog.text) == (closes == "refuses")


@pytest.mark.parametrize(
    ("number", "change"),
    [
        (70, {"state": "closed", "state_reason": "completed"}),
        (12, {"state": "closed", "state_reason": "duplicate"}),
        (12, {"id": "x"}),
    ],
)
def test_what_was_closed_meanwhile_is_not_proposed(native, tracker, index, number, change):
    tracker.issues[number] |= change
    assert opened(native) == ["posted"]
    assert recorded(index) == "skipped"
    assert tracker.changes == []


def test_an_issue_that_a_person_closes_at_the_same_time_stays_closed(native, tracker, index):
    """The result of the proposal is unknown; until the next try somebody accepts it."""
    tracker.failures = [("PATCH", 502)]
    assert opened(native) == ["postponed"]
    tracker.issues[70] |= {"state": "closed", "state_reason": "duplicate", "closed_by": {"login": "ann"}}
    assert native.post_comments() == ["exists"]
    assert tracker.issues[70]["state"] == "closed"
    assert recorded(index) == "made"


def test_a_limit_of_requests_is_waited_for(native, tracker, index):
    tracker.failures = [("PATCH", 429)]
    tracker.closes = "ignores"
    assert opened(native) == ["postponed"]
    native.file.query("UPDATE comments SET next_try_at = 0")  # a minute later
    assert native.post_comments() == ["exists"]
    assert recorded(index) == "made"
    assert sum(isinstance(change["state"], dict) for _, change in tracker.changes) == 2


def test_an_issue_that_is_gone_is_left(native, tracker, index):
    del tracker.issues[70]
    assert opened(native) == ["posted"]
    assert recorded(index) == "refused"


def closed(reason, action="closed", **more):
    state = "open" if action == "reopened" else "closed"
    return issue(70, action, state=state, state_reason=reason) | {"sender": {"login": "ann", "type": "User"}} | more


def test_decisions_become_feedback(native, index):
    opened(native)
    native.receive("issues", closed("duplicate"))
    assert decisions(index) == [("70", "12", "accept", "ann")]
    assert recorded(index) == "accepted"
    native.receive("issues", closed(None, "reopened"))
    assert decisions(index) == []
    assert recorded(index) == "made"
    native.receive("issues", closed("not_planned"))
    assert decisions(index) == [("70", "12", "reject", "ann")]
    assert recorded(index) == "declined"


def test_a_duplicate_of_another_issue_declines(native, index):
    opened(native)
    native.receive("issue_comment", note("Duplicate of #20", 70) | {"sender": {"login": "ann", "type": "User"}})
    assert ("70", "12", "reject", "ann") in decisions(index)
    native.receive("issues", closed("duplicate"))  # of 20
    assert recorded(index) == "declined"


@pytest.mark.parametrize(
    "event",
    [
        closed("not_planned", sender={"login": "stale[bot]", "type": "Bot"}),
        issue(71, "closed", state="closed", state_reason="duplicate"),
        issue(70, "edited", title=f"{TITLE} again"),
    ],
)
def test_what_decides_nothing(native, index, event):
    opened(native)
    native.receive("issues", event)
    assert decisions(index) == []
    assert recorded(index) == "made"


def test_in_other_modes_nobody_decides(hook_of, tracker, index):
    hook = hook_of(suggest="comment")
    opened(hook)
    hook.receive("issues", closed("duplicate"))
    assert decisions(index) == []
    assert tracker.changes == []


def test_a_proposal_from_a_file_is_told(native, tracker, tmp_path):
    (tmp_path / "event.json").write_text(json.dumps(issue(70)))
    told = run_event(native, tmp_path / "event.json", "issues")
    assert told == "#70 added; comments: posted; proposal to close it: made"
    (tmp_path / "event.json").write_text("null")
    assert run_event(native, tmp_path / "event.json", "star").endswith("are ignored; comments: none")


def test_reasons_of_strangers_stay_text():
    named = NamedReport("12", 0.9, "closed as <b>", "shared @ann/team, #5, [x](http://y)")
    text = comment_text([named, named], FIGURE)
    shown = "#12 (probability 90%, closed as &lt;b>): shared `@ann/team,` `#5,` `[x](http://y)`"
    assert text.count(shown) == 2


@pytest.mark.parametrize(("probability", "level"), [(0.8, "HIGH"), (0.79, "MEDIUM"), (0.5, "MEDIUM"), (0.1, "LOW")])
def test_a_proposal_fits_the_api(probability, level):
    named = NamedReport("12", probability, "open", "word " * 100)
    proposal = Proposal.of(REPOSITORY, "70", Suggestion((named,), "text", ""))
    assert proposal.confidence == level
    assert len(proposal.rationale) == MAX_RATIONALE


def test_the_comment_names_the_original_of_a_chain(index, hook_of):
    """12 was closed as a duplicate of 15, which is a duplicate of 20."""
    index.reports["12"] = replace(index.reports["12"], status="closed", resolution="duplicate")
    index.links.add(("15", "20"))
    found = suggest_duplicates(index, Report(TITLE, issue_id="70"), 3, index.target)
    assert [one.issue_id for one in found.named] == ["20"]
    index.links.add(("20", "12"))  # a circle
    assert suggest_duplicates(index, Report(TITLE, issue_id="70"), 3, index.target).named[0].issue_id == "20"
    index.reports["20"] = replace(index.reports["20"], status="closed", resolution="DUPLICATE")
    none = suggest_duplicates(index, Report(TITLE, issue_id="70"), 3, index.target)
    assert (none.named, none.body) == ((), "")
    assert none.reason == "the best match, 12, is closed as a duplicate, and the index does not hold the original"


def test_comments_tell_which_report_is_the_original(index, hook_of):
    """A member calls the older report a duplicate of the newer one; both are open."""
    hook = hook_of(suggest="shadow")
    index.reports["15"] = replace(index.reports["15"], status="open", resolution="")
    hook.receive("issue_comment", note("Duplicate of #15", 12, id=1))
    hook.receive("issues", issue(70))
    hook.receive("issue_comment", note("Duplicate of #12", 15, id=2))  # now in a circle
    hook.receive("issues", issue(71))
    lines = map(json.loads, (index.folder / "suggestions.jsonl").read_text().splitlines())
    assert [(one["issue"], one["named"][0]["issue"]) for one in lines] == [("70", "15"), ("71", "12")]


def test_the_comment_says_the_state_of_each_match(index, hub, hook_of):
    index.reports["12"] = replace(index.reports["12"], status="closed", resolution="completed")
    index.reports["31"] = replace(index.reports["31"], title="@ann attachment sending", status="closed")
    index.target = replace(index.target, threshold=0.1)
    hook = hook_of()
    hook.receive("issues", issue(70))
    hook.post_comments()
    (text,) = hub.comments()
    assert "a duplicate of #12 (probability 100%, fixed): attachment, large, sending, stops." in text
    assert "- #31 (probability 75%, closed): attachment, sending, stops\n" in text
    assert BOT not in text
