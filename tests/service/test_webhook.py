import hashlib
import hmac
import json
import logging
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from raw_http import until
from small_github import HIDDEN, REPOSITORY
from small_index import FIGURE, LIST_TARGETS, TARGETS
from webhook_events import TITLE, issue, note

from gedbd.corpora.feedback import FeedbackEvent, feedback_table
from gedbd.service.github_comments import MARKER
from gedbd.service.webhook import Webhook, append_summary, is_signed, run_event


def test_a_new_issue_is_stored_and_gets_one_comment(send, hub, index):
    answer = send(issue(), delivery="d1")
    assert (answer.status_code, answer.json()) == (202, {"detail": "accepted"})
    assert index.get("70").title == TITLE
    (text,) = hub.comments()
    assert text.startswith(MARKER)
    assert "This may be a duplicate of #12 (probability 100%, open): attachment, large, sending, stops. " in text
    assert f"stops. {FIGURE}\n\nNothing was closed or labelled: that decision is left to a person." in text
    assert "#31" not in text
    again = send(issue(), delivery="d1")
    assert (again.status_code, again.json()["detail"]) == (200, "already accepted")
    send(issue(), delivery="d2")
    send(issue())
    assert len(hub.comments()) == 1
    text = send.client.get("/metrics").text
    assert 'gedbd_webhook_total{result="added"} 1.0' in text
    assert 'gedbd_webhook_total{result="repeated"} 1.0' in text
    assert 'gedbd_comments_total{result="posted"} 1.0' in text


def test_a_comment_names_several_suggestions_up_to_the_limit(index, hub, hook_of):
    index.target = replace(index.target, threshold=0.1)
    hook = hook_of(suggestions=2)
    assert hook.receive("issues", issue(title="attachment preview week calendar")).code == "added"
    assert hook.post_comments() == ["posted"]
    assert f"{FIGURE}\n\nAlso possible:\n- #" in hub.comments()[0]  # the figure is that of the best match
    assert hub.comments()[0].count("#") == 2


def test_no_other_report_takes_the_place_of_a_best_match_that_is_known_already(index, hub, hook, caplog):
    index.target = replace(index.target, threshold=0.1)
    with caplog.at_level(logging.INFO, "gedbd"):
        hook.receive("issues", issue(15, title="sending a large attachment: preview, progress bar stops at half"))
    assert hook.post_comments() == []
    assert "no comment on issue 15: the best match, 12, is already linked" in caplog.text


def test_nothing_is_suggested_below_the_threshold_or_without_a_token(send, hub, hook_of, index, caplog):
    with caplog.at_level(logging.INFO, "gedbd"):
        send(issue(71, title="attachment colours of the toolbar"))
        hook_of(posts=False).receive("issues", issue(74))
    assert len(index) == 6
    assert hub.posted == {}
    assert "no comment on issue 71: the best match is below the threshold 0.600" in caplog.text
    assert "no comment on issue 74: there is no token to post it with" in caplog.text


@pytest.mark.parametrize("target", TARGETS[1:])
@pytest.mark.parametrize("asked", [True, False])
def test_nothing_is_suggested_unless_the_backtest_met_the_target(index, hub, hook_of, caplog, target, asked):
    if not asked:
        index.target = target
    with caplog.at_level(logging.INFO, "gedbd"):
        hook = hook_of(target_precision=target.target_precision if asked else None)
        assert hook.receive("issues", issue()).code == "added"
        assert hook.post_comments() == []
    assert hub.asked == []
    assert caplog.messages == [
        "small: the webhook posts no comments, since its precision target was not met."
        " Targets met: 0.5; by lists of 3: 0.5.",
        f"no comment on issue 70: {target.statement}",
    ]


def test_the_threshold_is_that_of_the_target_asked_for(index, hub, hook_of):
    index.target = TARGETS[2]
    hook = hook_of(target_precision=0.5)
    hook.receive("issues", issue())
    assert hook.post_comments() == ["posted"]
    assert FIGURE in hub.comments()[0]


def test_the_target_is_that_of_the_index_as_it_is_now(index, hook_of):
    hook = hook_of(target_precision=0.5)
    index.targets = TARGETS[1:]  # it was built again from another backtest
    result = hook.receive("issues", issue())
    assert result.code == "added"
    assert result.no_comment.startswith("webhook.target_precision=0.5: the backtest of this index measured")
    assert hook.post_comments() == []


def test_events_keep_the_index_up_to_date(send, hub, index):
    send(issue(20, "edited", "Week 53 in January", body="Text."))
    assert (index.get("20").title, index.get("20").component) == ("Week 53 in January", "Calendar")
    done = {"state": "closed", "state_reason": "duplicate", "closed_at": "2024-06-02T08:00:00Z"}
    send(issue(20, "closed", "Week 53 in January", **done))
    assert (index.get("20").status, index.get("20").resolution) == ("closed", "duplicate")
    assert index.get("20").resolved_at == datetime(2024, 6, 2, 8, tzinfo=UTC)
    send(issue(20, "reopened", "Week 53 in January", closed_at=None))
    assert (index.get("20").status, index.get("20").resolved_at) == ("open", None)
    send(issue(20, "deleted"))
    assert index.get("20") is None
    send(issue(20, "deleted"))
    assert 'gedbd_webhook_total{result="unchanged"} 1.0' in send.client.get("/metrics").text
    send(issue(12, "transferred"))
    assert index.get("12") is None
    assert hub.posted == {}


def test_a_comment_of_a_member_links(send, index):
    send(note("Duplicate of #31"), "issue_comment", "c1")
    assert index.members("20") == ("20", "31")
    send(note("duplicate of #20.", 31), "issue_comment")  # a circle is one group
    send(note("Thanks.\r\nDuplicate of ann/mail#12\r\n", author_association="OWNER"), "issue_comment")
    assert index.members("20") == ("12", "15", "20", "31")
    table = feedback_table(index.folder)
    assert set(table[["issue_id", "candidate", "source"]].itertuples(index=False, name=None)) == {
        ("20", "31", "webhook"),
        ("31", "20", "webhook"),
        ("20", "12", "webhook"),
    }


@pytest.mark.parametrize(
    ("payload", "event", "words"),
    [
        (note("Duplicate of #20"), "issue_comment", "#20 cannot be a duplicate of itself"),
        (note("Duplicate of #999"), "issue_comment", "#999 is not in the index"),
        (note("I see this too"), "issue_comment", "names no duplicate"),
        (note("Duplicate of #12", action="edited"), "issue_comment", "has no id"),
        (note("Duplicate of #12", action="deleted"), "issue_comment", "has no link"),
        (note("Duplicate of #12", by="bea", author_association="NONE"), "issue_comment", "only owners, members"),
        (note("Duplicate of #12", user={"login": "x[bot]", "type": "Bot"}), "issue_comment", "by a bot"),
        (note(f"{MARKER}\nDuplicate of #12"), "issue_comment", "by a bot"),
        (issue(action="labeled"), "issues", "action labeled changes no text"),
        (issue(pull_request={"url": "x"}), "issues", "pull request"),
        ({"zen": "x"}, "star", "events of kind star are ignored"),
    ],
)
def test_what_is_passed_over_is_said(send, hook, index, hub, payload, event, words):
    assert send(payload, event).status_code == 202
    assert words in hook.receive(event, payload).detail
    assert 'gedbd_webhook_total{result="ignored"} 1.0' in send.client.get("/metrics").text
    assert len(index) == 4
    assert index.links == {("12", "15")}
    assert hub.posted == {}


@pytest.mark.parametrize(
    ("payload", "status", "words"),
    [
        (b"{", 400, "not JSON"),
        (b"[" * 100_000, 400, "not JSON"),
        (b"\xff", 400, "not JSON"),
        ([], 422, "the event is invalid"),
        ({}, 422, "action: Field required"),
        (issue() | {"issue": 5}, 422, "is invalid: issue"),
        (issue(number=-1), 422, "issue.number"),
        (issue(title=None), 422, "issue.title"),
        (issue(created_at="then"), 422, "issue.created_at"),
        (issue() | {"repository": {"full_name": "eve/mail"}}, 403, "only events of ann/mail are accepted"),
    ],
)
def test_what_does_not_fit_is_refused(send, index, payload, status, words):
    answer = send(payload)
    assert answer.status_code == status
    assert words in answer.json()["detail"]
    assert len(index) == 4


def test_only_what_is_signed_is_taken(send, index, client_of):
    assert send(issue(), secret="another").status_code == 401
    for signature in ("", "sha256=", "sha1=abc", "sha256=" + "0" * 64, "é"):
        answer = send(issue(), **{"X-Hub-Signature-256": signature.encode()})
        assert answer.status_code == 401
        assert "signature" in answer.json()["detail"]
    assert send(issue(), "issue_comment").status_code == 422
    assert send({"zen": "x"}, "ping").json() == {"detail": "pong"}
    assert client_of().post("/webhooks/github", json={}).status_code == 404  # a service without a webhook
    assert len(index) == 4


@pytest.mark.parametrize(
    ("found", "result", "asked"),
    [
        (["talk"] * 50 + [HIDDEN] * 50 + [f"{MARKER} from another run"], "exists", ["GET", "GET"]),
        (["talk"] * 1001, "failed", ["GET"] * 10),
    ],
)
def test_all_comments_are_looked_at_or_none_is_posted(hub, hook_of, found, result, asked):
    hub.posted[f"/repos/{REPOSITORY}/issues/70/comments"] = found
    hook = hook_of()
    hook.receive("issues", issue())
    assert hook.post_comments() == [result]
    assert hub.asked == asked


def test_what_fails_is_logged_and_tried_again_later(send, hub, hook, caplog):
    hook.outbox.first_wait_s = hook.outbox.result_wait_s = 0.01
    hub.failures = [("POST", 500), ("POST", 500)]
    with caplog.at_level(logging.WARNING, "gedbd"):
        assert send(issue()).status_code == 202
        until(lambda: hook.outbox.state(REPOSITORY, "70") == "posted")
    assert "no comment on issue 70 yet, it will be tried again: POST /repos/ann/mail/issues/70/" in caplog.text
    assert "t0ken" not in caplog.text
    assert len(hub.comments()) == 1
    until(lambda: 'gedbd_comments_total{result="posted"} 1.0' in send.client.get("/metrics").text)
    assert 'gedbd_comments_total{result="unknown"} 2.0' in send.client.get("/metrics").text


def test_what_is_forbidden_is_not_tried_again(send, hub, hook):
    hub.failures = [("POST", 403)]
    send(issue())
    send({"zen": "x"}, "ping")
    assert (hub.comments(), hook.outbox.state(REPOSITORY, "70")) == ([], "failed")
    assert hub.asked == ["GET", "POST"]


def test_one_event_from_a_file(hub, hook_of, tmp_path):
    hook = hook_of()
    file = tmp_path / "event.json"
    file.write_text(json.dumps(issue(title="$(rm x) `id` large attachment")))
    assert run_event(hook, file, "issues") == "#70 added; comments: posted"
    assert run_event(hook, file, "issues") == "#70 unchanged; comments: none"
    hook.outbox.first_wait_s, hook.outbox.result_wait_s = 0.001, 0.05
    hub.failures = [("POST", 502, {"X-Creates": "1"})]
    file.write_text(json.dumps(issue(71)))
    assert run_event(hook, file, "issues") == "#71 added; comments: unknown, exists"  # it waits, and looks again
    assert len(hub.comments(71)) == 1
    assert not is_signed("", b"", "sha256=" + hmac.new(b"", b"", hashlib.sha256).hexdigest())
    file.write_text("{")
    with pytest.raises(ValueError, match=r"event.json is not an event"):
        run_event(hook, file, "issues")
    file.write_text(json.dumps(issue() | {"repository": {"full_name": "eve/mail"}}))
    with pytest.raises(ValueError, match=r"only events of ann/mail are accepted"):
        run_event(hook, file, "issues")


@pytest.mark.parametrize(
    ("repository", "options", "message"),
    [
        *((one, {}, "must be owner/name") for one in (None, "", "mail", "ann/mail/x", "ann/../mail", "ann/m ail")),
        (
            REPOSITORY,
            {"target_precision": 0.95},
            "^webhook.target_precision=0.95: .* only the targets 0.5, 0.7",
        ),
        (REPOSITORY, {"lists": True, "suggestions": 2}, "^webhook.lists=true needs webhook.suggestions"),
        (REPOSITORY, {"suggest": "loud"}, r"webhook\.suggest=loud is unknown: choose shadow, comment$"),
    ],
)
def test_options_that_do_not_fit_are_refused(index, repository, options, message):
    with pytest.raises(ValueError, match=message):
        Webhook(index, repository, **options)


@pytest.mark.parametrize(
    ("url", "stored"), [("https://github.com/a/m/issues/40",) * 2, (None, ""), ("javascript:alert(1)", "")]
)
def test_the_page_of_an_issue_is_stored(index, hook_of, url, stored):
    assert hook_of().receive("issues", issue(40, html_url=url)).code == "added"
    assert index.get("40").url == stored


# Half of these four words are in #31, half in #20, one in #12: together 1.25.
LIST_TITLE = "attachment preview week calendar"
LIST_FIGURE = (
    "Of 30 such lists of 3 on this tracker's reports from 2024-01-02 to 2024-02-28,"
    " 22 (73%, 95% interval 56% to 89%) named a duplicate."
)


def say(verdict, index, hook, *ids):
    for one in ids:
        hook.feedback.record(FeedbackEvent(index.get("70"), one, verdict, "api"))


def test_a_comment_names_the_three_best_matches_together(index, hub, hook_of):
    hook = hook_of(lists=True)
    hook.receive("issues", issue(title=LIST_TITLE))
    assert hook.post_comments() == ["posted"]
    heading, *bullets, gap, figure, empty, last = hub.comments()[0].splitlines()[1:]
    assert heading == "This may be a duplicate of one of these issues:"
    assert [line.split(":")[0] for line in bullets] == [
        "- #20 (probability 50%)",
        "- #31 (probability 50%)",
        "- #12 (probability 25%, open)",
    ]
    assert (gap, figure, empty) == ("", LIST_FIGURE, "")
    assert last.startswith("Nothing was closed")
    (suggestion,) = hook.record.read()
    assert (suggestion.is_list, [report.issue for report in suggestion.named]) == (True, ["20", "31", "12"])


def test_the_sum_of_the_probabilities_must_reach_the_threshold(index, hub, hook_of):
    index.list_target = replace(LIST_TARGETS[0], threshold=1.3)
    result = hook_of(lists=True).receive("issues", issue(title=LIST_TITLE))
    assert result.no_comment == "the best 3 matches together are below the threshold 1.300"


def test_no_list_without_one_of_the_measured_matches(index, hub, hook_of):
    hook = hook_of(lists=True)
    hook.receive("issues", issue(15, title=LIST_TITLE))
    assert hook.post_comments() == []
    assert [one.reason for one in hook.record.read()] == ["the match at rank 3, 12, is already linked"]


def test_nothing_is_suggested_unless_the_target_of_lists_was_met(index, hook_of, caplog):
    with caplog.at_level(logging.INFO, "gedbd"):
        hook = hook_of(lists=True, target_precision=0.7)
    assert hook.receive("issues", issue(title=LIST_TITLE)).no_comment == LIST_TARGETS[1].statement
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
    reason = hook.receive("issues", issue(title=LIST_TITLE)).no_comment
    assert "#20, #31, #12 would be suggested" in reason
    happens(index, hook)
    (judged,) = hook.record.judge(index, hook.feedback)
    assert judged.outcome == outcome
    append_summary(tmp_path / "summary.md", hook, "#70 added")
    assert f"| #20, #31, #12 | 100% | {outcome} |" in (tmp_path / "summary.md").read_text()
