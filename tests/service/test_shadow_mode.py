"""A week of a made-up tracker, replayed in shadow mode: file, API and summary agree, and GitHub gets no request."""

import json
import logging
import re
import sqlite3
from contextlib import closing

import pytest
from small_github import REPOSITORY
from small_index import open_small
from webhook_events import OUTCOMES, SENTENCE, SUGGESTED, WEEK_EVENTS, Sender, issue

from gedbd.service.duplicate_suggestions import Suggestion, SuggestionLog
from gedbd.service.event_table import WEBHOOK_FILE, EventTable
from gedbd.service.forgetting import forget_beside
from gedbd.service.webhook import Webhook, append_summary

SWITCH = "Shadow mode: nothing is written to GitHub, suggestions are only recorded. To post them, "


@pytest.fixture
def replayed(hook_of, client_of):
    """The service after the week, its events sent over HTTP; it has a token for the small GitHub."""
    hook = hook_of(suggest="shadow")
    send = Sender(client_of(hook), hook)
    for payload, kind in WEEK_EVENTS:
        assert send(payload, kind).status_code == 202
    return send


def recorded(path):
    """The suggestions in a file."""
    with closing(EventTable(path)) as table:
        return SuggestionLog(table).read()


def test_file_page_and_summary_agree_and_nothing_is_written(replayed, index, hub, tmp_path):
    suggestions = recorded(index.folder / WEBHOOK_FILE)
    assert {one.issue: one.outcome for one in suggestions} == OUTCOMES
    assert {one.issue: one.named[0].issue for one in suggestions if one.named} == SUGGESTED
    assert {one.mode for one in suggestions} == {"shadow"}
    assert "This may be a duplicate of #12" in suggestions[0].comment
    assert suggestions[1].reason == "the best match is below the threshold 0.600"

    answer = replayed.client.get("/api/suggestions").json()
    assert answer["statement"] == SENTENCE
    assert answer["how_to_write"] == f"{SWITCH}set webhook.suggest=comment."
    assert [(one["issue"], one["named"][0]["issue"], one["outcome"]) for one in answer["suggestions"]] == [
        (number, best, OUTCOMES[number]) for number, best in reversed(SUGGESTED.items())
    ]
    counts = {name: answer[name] for name in ("compared", "suggested", "right", "wrong", "unknown", "missed")}
    assert counts == {"compared": 7, "suggested": 6, "right": 1, "wrong": 2, "unknown": 3, "missed": 1}

    append_summary(tmp_path / "summary.md", replayed.hook, "#76 added")
    text = (tmp_path / "summary.md").read_text()
    assert SENTENCE in text
    assert f"{SWITCH}set webhook.suggest=comment, or the input suggest of the GitHub Action." in text
    rows = re.findall(r"^\| #(\d+) \| \S+ \| #(\d+) \| \d+% \| (.+) \|$", text, flags=re.MULTILINE)
    assert rows == [(number, best, OUTCOMES[number]) for number, best in reversed(SUGGESTED.items())]

    assert (hub.asked, hub.posted) == ([], {})
    assert replayed.hook.outbox.waiting() == []


def test_outcomes_follow_what_is_known_later(replayed, index):
    replayed(issue(72, "reopened", "calendar shows wrong week"))
    index.link("73", "31", "export: group")  # by an index that was built again, without an event
    replayed.client.post("/api/feedback", json={"report": {"issue_id": "74"}, "candidate": "12", "verdict": "reject"})
    latest = replayed.client.get("/api/suggestions?limit=5").json()["suggestions"]
    found = {one["issue"]: one["outcome"] for one in latest}
    assert found == {"72": "not yet known", "73": "right", "74": "wrong", "75": "wrong", "76": "not yet known"}
    log = replayed.hook.record
    assert {one.issue: one.outcome for one in log.read()} | found == OUTCOMES | found
    forget_beside(index.folder, "12", None)
    assert {one.issue for one in log.read()} == {"71", "72", "73", "76"}
    assert not any("attachment, large" in one.comment for one in log.read())
    replayed.client.delete("/api/reports/76?forget=true")
    assert {one.issue for one in log.read()} == {"71", "72", "73"}


def test_an_event_is_recorded_once_and_its_reason_is_logged(index, hook_of, caplog):
    hook = hook_of(suggest="shadow")
    with caplog.at_level(logging.INFO, "gedbd"):
        hook.receive("issues", issue())
        hook.receive("issues", issue())
    assert len(hook.record.read()) == 1
    assert "no comment on issue 70: shadow mode: #12 would be suggested, with a probability of 100%" in caplog.text
    assert hook.post_comments() == []


def test_what_is_posted_is_recorded_too(index, hook_of, hub):
    hook = hook_of(suggest="comment")
    hook.receive("issues", issue())
    assert hook.post_comments() == ["posted"]
    (suggestion,) = hook.record.read()
    assert (suggestion.mode, [suggestion.comment]) == ("comment", hub.comments())
    assert hook.how_to_write() == ""


def test_shadow_mode_is_the_default_of_the_command(hub, tmp_path, monkeypatch, run_command):
    """One event after the other from files, as the Action runs them; the record is not in the index folder."""
    (tmp_path / "my-index").mkdir()
    environment = {"TOKEN": "t0ken", "API_URL": hub.url, "STEP_SUMMARY": "summary.md", "REPOSITORY": REPOSITORY}
    for name, value in environment.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    options = ["index=my-index", "event=event.json", "webhook.log_file=kept/suggestions.sqlite"]
    monkeypatch.setattr(
        "gedbd.triage.stored_index.open_index", lambda folder, cache_dir, backend: open_small(folder, "", None)
    )
    printed = ""
    for number in (70, 71):
        (tmp_path / "event.json").write_text(json.dumps(issue(number)))
        printed += " ".join(run_command("serve", *options).split())
    assert "comments: none (shadow mode: #12 would be suggested, with a probability of 100%)" in printed
    assert printed.count(SWITCH) == 2
    summaries = (tmp_path / "summary.md").read_text().split("### Suggested duplicates")
    assert "1 new report was compared, 1 got a suggestion" in summaries[1]
    assert "2 new reports were compared, 2 got a suggestion" in summaries[2]
    assert summaries[2].count("not yet known |") == 2
    assert (hub.asked, hub.posted) == ([], {})
    assert [one.issue for one in recorded(tmp_path / "kept" / "suggestions.sqlite")] == ["70", "71"]
    assert recorded(tmp_path / "my-index" / WEBHOOK_FILE) == []


def test_a_file_of_an_earlier_version_or_of_another_kind_is_refused(index):
    path = index.folder / WEBHOOK_FILE
    with closing(sqlite3.connect(path)) as file, file:
        file.execute("CREATE TABLE inbox (number INTEGER)")
    with pytest.raises(ValueError, match=r"webhook.sqlite is damaged \(it has the table .*: .* move it and .* away"):
        Webhook(index, REPOSITORY)
    path.write_text('{"issue": "1"}\n' * 100)
    with pytest.raises(ValueError, match=r"webhook.sqlite is damaged \(file is not a database\): .*move it"):
        Webhook(index, REPOSITORY)


def test_the_oldest_suggestions_are_dropped(tmp_path, monkeypatch):
    monkeypatch.setattr("gedbd.service.duplicate_suggestions.MAX_ENTRIES", 2)
    with closing(EventTable(tmp_path / WEBHOOK_FILE)) as table:
        log = SuggestionLog(table)
        assert log.read() == []
        for number in ("1", "2", "3"):
            log.add(Suggestion(number), "shadow")
        assert [one.issue for one in log.read()] == ["2", "3"]


@pytest.mark.parametrize("limit", ["0", "1001", "x"])
def test_the_number_of_suggestions_is_bounded(replayed, limit):
    assert replayed.client.get(f"/api/suggestions?limit={limit}").status_code == 422


def test_a_service_without_a_webhook_has_no_suggestions(client_of):
    assert client_of().get("/api/suggestions").status_code == 404
