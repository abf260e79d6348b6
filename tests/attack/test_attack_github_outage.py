"""GitHub is away for a while, or asks for patience: no comment is lost, and nobody needs to send another event."""

import shutil
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from itertools import pairwise

import pytest
from fastapi.testclient import TestClient
from raw_http import until
from small_github import REPOSITORY
from webhook_events import issue

from gedbd.service.app import create_app
from gedbd.service.event_table import WEBHOOK_FILE, EventTable
from gedbd.service.github_comments import MARKER, MAX_TRIES, Outbox, OutboxComment, wait_after

pytestmark = pytest.mark.slow

FIRST = OutboxComment(REPOSITORY, "1", f"{MARKER} text")


def test_it_outlives_a_restart_in_an_outage(hook_of):
    hook = hook_of("http://127.0.0.1:9")  # nobody listens there
    hook.receive("issues", issue())
    assert hook.post_comments() == ["postponed"]
    hook.close()
    again = hook_of()
    assert 0 < again.outbox.next_due() - time.time() < 15
    assert again.post_comments() == []  # a start is no reason to ask sooner
    assert again.outbox.state(REPOSITORY, "70") == "pending"


def test_it_is_tried_for_a_day_and_longer_and_longer_apart(tmp_path):
    outbox = Outbox(EventTable(tmp_path / WEBHOOK_FILE))
    outbox.put(FIRST)
    now = 1e9
    moments, given_up = [], []
    while outbox.state(*FIRST[:2]) == "pending":
        now = max(now, outbox.next_due())
        assert outbox.due(now) == [FIRST]
        assert outbox.due(now - 0.1) == [] or not moments
        moments.append(now)
        given_up = outbox.postpone([FIRST], now)
    assert given_up == [FIRST]
    assert outbox.state(*FIRST[:2]) == "failed"
    assert len(moments) == MAX_TRIES
    assert 20 < (moments[-1] - moments[0]) / 3600 < 30
    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert 8 <= waits[0] <= 12
    assert max(waits) <= 1.2 * 3600
    assert len(set(waits)) == len(waits)  # services that failed together do not come back together
    assert 0 < wait_after(10**6) <= 1.2 * 3600
    outbox.table.close()


def test_what_is_given_up_is_logged_and_counted(hub, hook, caplog):
    words = []
    hook.poster.count = words.append
    hook.outbox.put(FIRST)
    hook.table.query("UPDATE events SET tries = ?", MAX_TRIES - 1)
    hub.failures = [("GET", 502)]
    assert hook.post_comments() == ["failed"]
    assert f"no comment on issue 1: given up after {MAX_TRIES} tries" in caplog.text
    assert words == ["failed"]


UNKNOWN = [
    ("POST", 0),
    ("POST", 502),
    ("POST", 503, {"Retry-After": "1800"}),
    ("POST", 201, {"Content-Length": "1000"}),  # the connection breaks in the middle of the answer
]
REFUSED = [("POST", 429), ("POST", 403, {"Retry-After": "1"}), ("POST", 401), ("POST", 302)]


@pytest.mark.parametrize("is_created", [True, False])
@pytest.mark.parametrize("failure", UNKNOWN)
def test_a_comment_without_a_clear_answer_is_looked_for_before_it_is_posted_again(hub, hook_of, failure, is_created):
    hook = hook_of(timeout_s=0.3)
    hook.outbox.put(FIRST)
    hub.failures = [failure]
    assert hook.poster.post_due() == ["unknown"]
    assert hub.asked == ["GET", "POST"]
    check_rest(hook)
    if is_created:
        hub.create_unanswered()
    assert restarted(hook_of, hook, 60).poster.post_due() == ["exists" if is_created else "posted"]
    assert len(hub.comments(1)) == 1


@pytest.mark.parametrize("failure", REFUSED)
def test_a_comment_that_is_refused_need_not_rest(hub, hook, failure):
    hook.outbox.put(FIRST)
    hub.failures = [failure]
    hook.post_comments()
    assert hook.outbox.rest_s() <= 0
    assert hook.table.query("SELECT posted_at FROM events WHERE kind = 'comment'") == [(0.0,)]


def test_a_process_that_is_killed_while_it_posts_looks_later(index, hub, hook_of):
    hook = hook_of(timeout_s=60.0, deadline_s=60.0)
    hook.outbox.put(FIRST)
    hub.failures = [("POST", 0)]
    thread = threading.Thread(target=hook.poster.post_due)
    thread.start()
    until(lambda: hub.unanswered)
    shutil.copytree(index.folder, index.folder / "killed", ignore=shutil.ignore_patterns("killed"))
    hook.github.cancel()  # as a shutdown does
    thread.join()
    check_rest(hook)
    for folder in (index.folder, index.folder / "killed"):
        for passed_s, rests in ((0, True), (-3600, True), (50, True), (60, False)):  # -3600: the clock was set back
            again = restarted(hook_of, hook, passed_s, folder)
            assert (again.outbox.due(1e12) == []) == rests
            assert again.outbox.next_due() <= time.time() + 61
            again.table.query("UPDATE events SET posted_at = posted_at + ?", passed_s)
            again.close()


def check_rest(hook):
    """Nothing is due, also if the time of day is set forward, and the next try comes in a minute at the earliest."""
    assert hook.outbox.due(1e12) == []
    assert hook.outbox.next_due() > time.time() + 50


def restarted(hook_of, hook, passed_s, folder=None):
    """The webhook of a later process, some seconds after the last try."""
    hook.close()
    folder = folder or hook.index.folder
    file = EventTable(folder / WEBHOOK_FILE)
    file.query("UPDATE events SET posted_at = posted_at - ?, tried_at = 0, next_try_at = 0", passed_s)
    file.close()
    return hook_of(folder=folder)


def soon(seconds):
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize(
    ("status", "headers", "least", "most"),
    [
        (429, {"Retry-After": "1800"}, 1800, 2200),
        (403, {"Retry-After": lambda: soon(1800)}, 1700, 2200),
        (403, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": lambda: str(int(time.time()) + 1800)}, 1700, 2200),
        (429, {}, 50, 100),  # GitHub: at least a minute
        (429, {"Retry-After": "999999999"}, 6 * 3600, 7.3 * 3600),  # not for years
        (503, {"Retry-After": "Mon, 99 Foo 2024"}, 8, 12),
        (429, {"x-ratelimit-remaining": "0", "x-ratelimit-reset": "0"}, 0, 100),
        (401, {}, 8, 12),
    ],
)
def test_github_is_not_asked_before_the_time_it_names(hub, hook, status, headers, least, most):
    # Times are written now, not when the cases are collected.
    sent = {name: value if isinstance(value, str) else value() for name, value in headers.items()}
    hub.failures = [("GET", status, sent)]
    for number in ("1", "2"):
        hook.outbox.put(OutboxComment(REPOSITORY, number, "text"))
    begun = time.time()
    assert hook.post_comments() == ["postponed"]
    assert hook.outbox.next_due() >= begun + least - 2  # Retry-After holds whole seconds
    assert hook.outbox.next_due() <= time.time() + most
    assert hook.outbox.due(time.time()) == []  # the limit is that of the token: it holds for all comments
    assert hook.outbox.state(REPOSITORY, "1") == "pending"


@pytest.mark.parametrize("back_s", [90, 86400 * 365 * 30])
def test_a_clock_that_is_set_back_does_not_postpone_a_comment(index, hub, hook, monkeypatch, back_s):
    hub.failures = [("GET", 503, {"Retry-After": "7200"})]
    hook.outbox.put(FIRST)
    assert hook.post_comments() == ["postponed"]
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - back_s)
    with TestClient(create_app(index, webhook=hook)):
        until(lambda: hook.outbox.state(*FIRST[:2]) == "posted")
    assert len(hub.comments(1)) == 1


def test_one_issue_that_always_fails_does_not_hold_the_others_up(index, hub, hook):
    for number in range(4):
        hook.outbox.put(OutboxComment(REPOSITORY, str(number), "text"))
    hook.outbox.first_wait_s = 0.01
    hub.broken.add(f"/repos/{REPOSITORY}/issues/0/comments")
    with TestClient(create_app(index, webhook=hook)):
        until(lambda: all(hub.comments(number) for number in (1, 2, 3)))
    assert hub.comments(0) == []
