"""GitHub takes calls and never answers, or one byte at a time: everything else goes on, and the service ends."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
import requests
from fastapi.testclient import TestClient
from served import serving
from small_hub import REPOSITORY, SECRET, Hub, comments, issue, running_hub, signed, until
from small_index import SmallIndex

import gedbd.commands.serve
from gedbd.service.app import create_app
from gedbd.service.webhook.database import OutboxComment
from gedbd.service.webhook.github_comments import CommentClient, CommentError
from gedbd.service.webhook.receiver import Webhook

ROOT = Path(gedbd.__file__).parent.parent
LIMIT_S = 60.0  # of a request that must be answered
NEVER_S = 3600.0  # a test that waits so long for GitHub fails by its hang guard

pytestmark = pytest.mark.usefixtures("hang_guard")


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A GitHub that does not answer."""
    with running_hub() as server:
        server.silent.set()
        yield server


def deliver(home: str, number: int, action: str = "opened") -> int:
    sent = signed(issue(number, action), "issues", f"{action} {number}")
    answer = requests.post(f"{home}/webhooks/github", data=sent["content"], headers=sent["headers"], timeout=LIMIT_S)
    return answer.status_code


def calls() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "gedbd-call"]


def test_other_requests_are_answered_and_the_service_ends(
    index: SmallIndex, hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gedbd.service.webhook.receiver.CANCEL_AFTER_S", 0.1)
    hook = Webhook(index, REPOSITORY, CommentClient("t0ken", hub.url, NEVER_S), SECRET)
    with serving(create_app(index, webhook=hook)) as port:
        home = f"http://127.0.0.1:{port}"
        with ThreadPoolExecutor(8) as threads:
            taken = list(threads.map(lambda number: deliver(home, number), range(100, 145)))
        assert set(taken) == {202}
        until(lambda: hub.asked)  # a comment is on its way
        for path in ("/", "/api/health", "/metrics", "/page/app.js"):
            assert requests.get(f"{home}{path}", timeout=LIMIT_S).status_code == 200
        for path, body in (("search", {"title": "large attachment"}), ("reports", {"issue_id": "9", "title": "new"})):
            assert requests.post(f"{home}/api/{path}", json=body, timeout=LIMIT_S).status_code == 200
        until(lambda: index.get("144"))  # the index follows the repository all the while
    assert not calls()


@pytest.mark.parametrize("drips", [False, True], ids=["silent", "dripping"])
def test_an_attempt_ends_at_its_deadline(hub: Hub, drips: bool) -> None:
    hub.drips = drips
    with pytest.raises(CommentError, match=r"not done within 0\.2 seconds") as caught:
        CommentClient("t0ken", hub.url, NEVER_S, deadline_s=0.2).comment_once(REPOSITORY, "7", "text", lambda: None)
    assert caught.value.is_temporary
    assert not caught.value.is_unknown
    until(lambda: not calls())  # nor does its thread go on, or begin another call
    assert len(hub.asked) <= 1


def test_a_body_that_drips_ends_at_the_deadline() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:

        def drip() -> None:
            line, _ = server.accept()
            with closing(line):
                line.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
                try:
                    while True:
                        line.sendall(b" ")
                        time.sleep(0.01)
                except OSError:
                    return

        thread = threading.Thread(target=drip)
        thread.start()
        github = CommentClient("t0ken", f"http://127.0.0.1:{server.getsockname()[1]}", NEVER_S, deadline_s=0.2)
        with pytest.raises(CommentError):
            github.comment_once(REPOSITORY, "7", "text", lambda: None)
        thread.join(LIMIT_S)
        assert not thread.is_alive()


def test_a_comment_that_hangs_is_posted_once_github_answers(index: SmallIndex, hub: Hub) -> None:
    hook = Webhook(index, REPOSITORY, CommentClient("t0ken", hub.url, 60.0, deadline_s=0.1), SECRET)
    hook.outbox.first_wait_s = 0.01
    with TestClient(create_app(index, webhook=hook), base_url="http://localhost") as client:
        client.post("/webhooks/github", **signed(issue(), "issues", "d"))
        until(lambda: len(hub.asked) >= 2)
        assert comments(hub) == []
        hub.silent.clear()
        until(lambda: comments(hub))
        until(lambda: hook.outbox.state(REPOSITORY, "70") == "posted")
    assert len(comments(hub)) == 1


def test_many_comments_that_hang_wait_for_one_try(index: SmallIndex, hub: Hub) -> None:
    hook = Webhook(index, REPOSITORY, CommentClient("t0ken", hub.url, 60.0, deadline_s=0.1), SECRET)
    for number in range(50):
        hook.outbox.put(OutboxComment(REPOSITORY, str(number), "text"))
    assert hook.post_comments() == ["postponed"]
    assert hook.outbox.due(time.time()) == []
    assert len(hook.outbox.waiting()) == 50
    assert len(hub.asked) <= 1
    hook.close()


@pytest.mark.slow
def test_sigterm_ends_the_process(tmp_path: Path, hub: Hub) -> None:
    hub.drips = True
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    options = [f"index={tmp_path}", "opened._target_=small_index.open_small", f"port={port}", "webhook.timeout_s=600"]
    more = ["webhook.deadline_s=600", f"webhook.api_url={hub.url}", f"webhook.repository={REPOSITORY}"]
    paths = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "service")])
    environment = os.environ | {"PYTHONPATH": paths, "GITHUB_WEBHOOK_SECRET": SECRET, "GITHUB_TOKEN": "t0ken"}
    home = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "gedbd.commands.serve", *options, *more]
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL) as service:
        until(lambda: service.poll() is not None or answers(home), 60)
        for number in range(100, 145):
            assert deliver(home, number) == 202
        until(lambda: hub.asked)
        service.send_signal(signal.SIGTERM)
        service.wait(60)  # one tenth of the time that GitHub is waited for


def answers(home: str) -> bool:
    try:
        return requests.get(f"{home}/api/health", timeout=1).ok
    except requests.ConnectionError:
        return False
