"""GitHub takes calls and never answers, or one byte at a time: everything else goes on, and the service ends."""

import pytest
import requests
from fastapi.testclient import TestClient
from raw_http import until
from served import serving
from served_process import served
from small_github import REPOSITORY
from webhook_events import SECRET, issue, signed

from gedbd.service.app import create_app
from gedbd.service.github_comments import CommentClient, CommentError

LIMIT_S = 60.0  # of a request that must be answered
NEVER_S = 3600.0  # a test that waits so long for GitHub fails by its hang guard

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("hang_guard")]


@pytest.fixture
def hub(hub):
    """A GitHub that does not answer."""
    hub.silent.set()
    return hub


def deliver(home, number):
    sent = signed(issue(number), "issues", f"opened {number}")
    answer = requests.post(f"{home}/webhooks/github", sent["content"], headers=sent["headers"], timeout=LIMIT_S)
    assert answer.status_code == 202


def test_other_requests_are_answered_and_the_service_ends(index, hub, hook_of, monkeypatch):
    monkeypatch.setattr("gedbd.service.webhook.CANCEL_AFTER_S", 0.1)
    with serving(create_app(index, webhook=hook_of(timeout_s=NEVER_S))) as port:
        home = f"http://127.0.0.1:{port}"
        for number in range(100, 145):
            deliver(home, number)
        until(lambda: hub.asked)  # a comment is on its way
        for path in ("/", "/api/health", "/metrics", "/page/app.js"):
            assert requests.get(f"{home}{path}", timeout=LIMIT_S).status_code == 200
        for path, body in (("search", {"title": "large attachment"}), ("reports", {"issue_id": "9", "title": "new"})):
            assert requests.post(f"{home}/api/{path}", json=body, timeout=LIMIT_S).status_code == 200
        until(lambda: index.get("144"))  # the index follows the repository all the while


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "dripping"])
def test_an_attempt_ends_at_its_deadline(hub, drips):
    hub.drips = drips
    with pytest.raises(CommentError, match=r"not done within 0\.2 seconds") as caught:
        CommentClient("t0ken", hub.url, NEVER_S, deadline_s=0.2).comment_once(REPOSITORY, "7", "text", lambda: None)
    assert caught.value.is_temporary
    assert not caught.value.is_unknown
    assert len(hub.asked) <= 1


def test_a_comment_that_hangs_is_posted_once_github_answers(index, hub, hook_of):
    hook = hook_of(timeout_s=60.0, deadline_s=0.1)
    hook.outbox.first_wait_s = 0.01
    with TestClient(create_app(index, webhook=hook), base_url="http://localhost") as client:
        client.post("/webhooks/github", **signed(issue(), "issues", "d"))
        until(lambda: len(hub.asked) >= 2)
        assert hub.comments() == []
        hub.silent.clear()
        until(lambda: hook.outbox.state(REPOSITORY, "70") == "posted")
    assert len(hub.comments()) == 1


def test_sigterm_ends_the_process(tmp_path, hub, monkeypatch):
    hub.drips = True
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    monkeypatch.setenv("GITHUB_TOKEN", "t0ken")
    times = ["webhook.timeout_s=600", "webhook.deadline_s=600"]  # a tenth of them is waited for the end
    github = [f"webhook.api_url={hub.url}", f"webhook.repository={REPOSITORY}", "webhook.suggest=comment"]
    with served(tmp_path, *times, *github) as service:
        for number in range(100, 145):
            deliver(f"http://127.0.0.1:{service.port}", number)
        until(lambda: hub.asked)
        service.end()
