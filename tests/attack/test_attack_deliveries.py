"""Deliveries come all at once, twice, late and out of order; the index may be away, and the service may be killed."""

import json
import logging
import sqlite3
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import requests
from raw_http import until
from served import serving
from small_index import SmallIndex
from webhook_events import Sender, issue, signed, worked

from gedbd.corpora.bug_report import Report
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.service.app import create_app
from gedbd.service.middleware import Settings

pytestmark = pytest.mark.slow


class SlowIndex(SmallIndex):
    """Stores nothing before it is let go, and fails as it is told."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.go, self.entered = threading.Event(), threading.Event()
        self.failures: list[Exception] = []
        self.go.set()
        self.order: list[str] = []

    def add(self, reports: Sequence[Report], fields: Sequence[str] | None = None) -> dict[str, str]:
        self.entered.set()
        assert self.go.wait(10)
        if self.failures:
            raise self.failures.pop(0)
        self.order += [report.issue_id for report in reports]
        return super().add(reports, fields)


@pytest.fixture
def index(tmp_path):
    return SlowIndex(tmp_path)


@pytest.fixture
def hook(hook_of):
    return hook_of(posts=False)


@pytest.fixture
def send(index, hook, client_of):
    return Sender(client_of(hook), hook, waits=index.go.is_set)


def test_a_burst_is_taken_while_searches_are_busy(index, hook):
    index.go.clear()
    app = create_app(index, Settings(searches_at_once=1, searches_waiting=0), hook)
    with serving(app) as port, ThreadPoolExecutor(40) as threads:

        def deliver(number):
            sent = signed(issue(number), "issues", f"d{number}")
            address = f"http://127.0.0.1:{port}/webhooks/github"
            return requests.post(address, data=sent["content"], headers=sent["headers"], timeout=10).status_code

        assert list(threads.map(deliver, range(100, 140))) == [202] * 40
        assert requests.get(f"http://127.0.0.1:{port}/api/reports/12", timeout=10).status_code == 200
        index.go.set()
        worked(hook)
    assert sorted(index.order) == [str(number) for number in range(100, 140)]


def test_fields_that_the_api_changes_while_an_event_is_applied_stay(index, send):
    index.go.clear()
    send(issue(20, "edited", "A later title"), delivery="d")
    until(index.entered.is_set)
    SmallIndex.add(index, [Report("A title", "Text.", "20", component="Compose")])
    index.go.set()
    worked(send.hook)
    report = index.get("20")
    assert report is not None
    assert (report.title, report.component) == ("A later title", "Compose")


def test_what_was_accepted_is_worked_after_a_restart(index, hook_of, client_of):
    before = hook_of(posts=False)
    assert before.accept("issues", "d1", issue(80)).status == 202
    before.table.close()  # as it is left by a kill
    client = client_of(hook_of(posts=False))
    until(lambda: index.get("80"))
    again = client.post("/webhooks/github", **signed(issue(80), "issues", "d1"))
    assert (again.status_code, again.json()) == (200, {"detail": "already accepted"})


def test_a_full_backlog_is_refused_and_nothing_of_it_is_kept(index, hook_of, client_of):
    hook = hook_of(posts=False, max_waiting=3)
    send = Sender(client_of(hook), hook, waits=index.go.is_set)
    index.go.clear()
    sent = [send(issue(number), delivery=f"d{number}") for number in range(100, 105)]
    assert [answer.status_code for answer in sent] == [202, 202, 202, 503, 503]
    assert int(sent[-1].headers["Retry-After"]) > 0
    assert "3 deliveries are waiting" in sent[-1].json()["detail"]
    assert "gedbd_webhook_waiting 3.0" in send.client.get("/metrics").text
    index.go.set()
    worked(hook)
    assert send(issue(104), delivery="d104").status_code == 202
    assert index.order == ["100", "101", "102", "104"]


@pytest.mark.parametrize("error", [StoreUnavailable("away", 0), sqlite3.OperationalError("locked"), OSError("full")])
def test_what_fails_as_the_index_is_away_is_tried_again_in_order(index, hook, send, error, monkeypatch):
    monkeypatch.setattr("gedbd.io.sqlite_file.StoreUnavailable.__init__", _at_once)
    index.failures = [error] * 3
    for number in (100, 101, 102):
        assert send(issue(number), delivery=str(number)).status_code == 202
    worked(hook)
    assert index.order == ["100", "101", "102"]
    assert (send.counted("added"), send.counted("dropped")) == (3, 0)


def _at_once(self, message, retry_after_s=5):
    Exception.__init__(self, message)
    self.retry_after_s = 0


@pytest.mark.parametrize("error", [ValueError("too long"), KeyError("x"), sqlite3.IntegrityError("unique")])
def test_what_will_always_fail_is_dropped_with_a_line_and_holds_nothing_up(index, send, error, caplog):
    index.failures = [error]
    with caplog.at_level(logging.WARNING, "gedbd"):
        for number in (100, 101):
            assert send(issue(number), delivery=str(number)).status_code == 202
    assert index.order == ["101"]
    assert "delivery 100 is dropped: " in caplog.text
    assert (send.counted("added"), send.counted("dropped")) == (1, 1)
    send(issue(100), delivery="100")  # somebody has sent it again by hand
    assert index.order == ["101", "100"]


@pytest.mark.parametrize(
    "extra",
    [
        {"title": "\ud800 and \x00"},
        {"body": "x" * 65_536 + "\U0001f600"},
        {"updated_at": "2024-06-01T10:00:00.123456+14:00"},
    ],
)
def test_odd_contents_are_stored_and_worked(index, send, extra):
    event = issue(80)
    event["issue"] |= extra
    payload = json.dumps(event).encode()
    assert send(payload, delivery="d" * 2000).status_code == 202
    assert isinstance(index.get(str(event["issue"]["number"])), Report)
