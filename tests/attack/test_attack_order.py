"""Events come late and out of order: what GitHub told last counts, and what is gone stays gone."""

import logging
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from small_hub import REPOSITORY, SECRET, Sender, counted, issue, note
from small_index import SmallIndex

from gedbd.service.app import create_app
from gedbd.service.webhook.receiver import Webhook

EARLY, LATE, LATER = "2024-06-01T10:00:00Z", "2024-06-01T10:00:05Z", "2024-06-01T10:00:09Z"


@pytest.fixture
def send(index: SmallIndex) -> Iterator[Sender]:
    hook = Webhook(index, REPOSITORY, None, SECRET)
    with TestClient(create_app(index, webhook=hook), base_url="http://localhost") as client:
        yield Sender(client, hook)


def title_of(index: SmallIndex, issue_id: str) -> str:
    report = index.get(issue_id)
    assert report is not None
    return report.title


def test_an_older_edit_does_not_overwrite_a_newer_one(index: SmallIndex, send: Sender) -> None:
    send(issue(80, "edited", "second", updated_at=LATE))
    send(issue(80, "edited", "first", updated_at=EARLY))
    assert title_of(index, "80") == "second"
    assert counted(send, "outdated") == 1
    send(issue(80, "edited", "third", updated_at=LATE))  # GitHub tells whole seconds
    assert title_of(index, "80") == "third"
    for late in ("opened", "closed", "reopened", "transferred"):
        send(issue(80, late, "first", updated_at=EARLY))
        assert title_of(index, "80") == "third"


@pytest.mark.parametrize("gone", ["deleted", "transferred"])
def test_an_edit_after_a_deletion_does_not_bring_an_issue_back(index: SmallIndex, send: Sender, gone: str) -> None:
    send(issue(80, updated_at=EARLY))
    send(issue(80, gone, updated_at=LATE))
    for moment in ({"updated_at": EARLY}, {"updated_at": LATE}, {}):  # a deletion leaves the time of the last change
        for action in ("opened", "edited", "closed", "reopened"):
            send(issue(80, action, **moment))
            assert index.get("80") is None
        send(note("Duplicate of #12", 80) | {"issue": issue(80, **moment)["issue"]}, "issue_comment")
        assert index.get("80") is None
    send(issue(80, "reopened", "back", updated_at=LATER))  # as after a transfer there and back
    assert title_of(index, "80") == "back"


def test_a_deletion_counts_however_late_it_is_told(index: SmallIndex, send: Sender) -> None:
    send(issue(80, "edited", updated_at=LATER))
    send(issue(80, "deleted", updated_at=EARLY))
    assert index.get("80") is None
    send(issue(80, "edited", updated_at=LATER))
    assert index.get("80") is None


def test_a_report_that_the_export_brought_is_deleted_before_its_first_event(index: SmallIndex, send: Sender) -> None:
    send(issue(12, "deleted", updated_at=LATE))
    send(issue(12, "edited", updated_at=EARLY))
    assert index.get("12") is None


def test_an_issue_that_is_opened_late_is_compared_all_the_same(
    index: SmallIndex, send: Sender, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "gedbd"):
        send(issue(80, "edited", updated_at=LATE))
        send(issue(80, "opened", "an older title", updated_at=EARLY))
    assert title_of(index, "80") != "an older title"
    assert "no comment on issue 80: there is no token to post it with" in caplog.text
