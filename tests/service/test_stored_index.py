"""The service over an index on disk, as the commands build one."""

from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from small_github import REPOSITORY
from webhook_events import SECRET, Sender, issue, note

from gedbd.corpora.bug_report import Report
from gedbd.service.app import create_app
from gedbd.service.middleware import Settings
from gedbd.service.webhook import Webhook

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def send(stored_index):
    webhook = Webhook(stored_index, REPOSITORY, None, SECRET)
    with TestClient(create_app(stored_index, Settings(), webhook), base_url="http://localhost") as client:
        yield Sender(client, webhook)


def test_what_is_searched_is_what_the_index_finds(send, stored_index):
    report = replace(stored_index.get("1058"), issue_id="")
    body = {"title": report.title, "description": report.description, "created_at": report.created_at.isoformat()}
    answered = send.client.post("/api/search", json=body | {"component": report.component, "top_k": 5}).json()
    found = stored_index.search(Report(**body | {"created_at": report.created_at}, component=report.component), 5)
    assert [match["master"]["issue_id"] for match in answered["matches"]] == [match.master.issue_id for match in found]
    assert answered["matches"][0]["members"] == ["1058", "1284", "1475", "1782", "2457"]
    assert answered["reports"] == 425


def members(client, issue_id):
    """The group of a report, as a search for its own text shows it."""
    asked = {"title": "The teapot icon is upside down", "top_k": 50, "created_at": "2024-06-01"}
    groups = [match["members"] for match in client.post("/api/search", json=asked).json()["matches"]]
    return next((group for group in groups if issue_id in group), None)


def test_an_issue_comes_is_marked_and_goes(send, stored_index):
    for number, title in ((9001, "The teapot icon is upside down"), (9002, "Icon of the teapot stands on its head")):
        assert send(issue(number, title=title), delivery=f"new {number}").status_code == 202
    assert members(send.client, "9001") == ["9001"]
    for number, other in [(9002, 9001), (9001, 9002), (9001, 9001)]:  # a duplicate, a circle, a duplicate of itself
        assert send(note(f"Duplicate of #{other}", number), "issue_comment").status_code < 300
    assert members(send.client, "9001") == ["9001", "9002"]
    send(issue(9001, "deleted"))
    assert stored_index.get("9001") is None
    assert members(send.client, "9002") == ["9002"]
