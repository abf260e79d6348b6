"""The service over an index on disk, as the commands build one."""

import hashlib
import hmac
import json
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient
from small_hub import worked

from gedbd.service.app import Settings, create_app
from gedbd.service.webhook.receiver import Webhook
from gedbd.triage.report import Report

SECRET = "a secret"
EVENT = {"repository": {"full_name": "ann/mail"}, "sender": {"login": "ann", "type": "User"}}


@pytest.fixture(scope="module")
def client(stored_index):
    webhook = Webhook(stored_index, "ann/mail", None, SECRET)
    with TestClient(create_app(stored_index, Settings(), webhook), base_url="http://localhost") as started:
        yield started


def send(client, kind, delivery, **event):
    body = json.dumps(EVENT | event).encode()
    signed = "sha256=" + hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-Hub-Signature-256": signed, "X-GitHub-Event": kind, "X-GitHub-Delivery": delivery}
    answer = client.post("/webhooks/github", content=body, headers=headers | {"Content-Type": "application/json"})
    worked(client.app.state.service.webhook)
    return answer


def issue(number, title, **more):
    told = {
        "number": number,
        "title": title,
        "body": "It happens each time.",
        "state": "open",
        "user": {"login": "ann"},
    }
    return told | {"created_at": "2026-01-02T03:04:05Z", "labels": []} | more


def test_what_is_searched_is_what_the_index_finds(client, stored_index):
    report = replace(stored_index.get("1058"), issue_id="")
    body = {"title": report.title, "description": report.description, "created_at": report.created_at.isoformat()}
    answered = client.post("/api/search", json=body | {"component": report.component, "top_k": 5}).json()
    found = stored_index.search(Report(**body | {"created_at": report.created_at}, component=report.component), 5)
    assert [match["master"]["issue_id"] for match in answered["matches"]] == [match.master.issue_id for match in found]
    assert answered["matches"][0]["members"] == ["1058", "1284", "1475", "1782", "2457"]
    assert answered["reports"] == 425


def members(client, issue_id):
    """The group of a report, as a search for its own text shows it."""
    asked = {"title": "The teapot icon is upside down", "top_k": 50, "created_at": "2024-06-01"}
    groups = [match["members"] for match in client.post("/api/search", json=asked).json()["matches"]]
    return next((group for group in groups if issue_id in group), None)


def test_an_issue_comes_is_marked_and_goes(client, stored_index):
    for number, title in ((9001, "The teapot icon is upside down"), (9002, "Icon of the teapot stands on its head")):
        assert send(client, "issues", f"new {number}", action="opened", issue=issue(number, title)).status_code == 202
    assert members(client, "9001") == ["9001"]
    for number, other in [(9002, 9001), (9001, 9002), (9001, 9001)]:  # a duplicate, a circle, a duplicate of itself
        comment = {"body": f"Duplicate of #{other}", "user": {"login": "ann"}, "author_association": "OWNER"}
        event = {"action": "created", "issue": issue(number, "x"), "comment": comment}
        assert send(client, "issue_comment", f"{number} of {other}", **event).status_code < 300
    assert members(client, "9001") == ["9001", "9002"]
    send(client, "issues", "gone", action="deleted", issue=issue(9001, "x"))
    assert stored_index.get("9001") is None
    assert members(client, "9002") == ["9002"]


def test_a_group_parts_with_its_last_link(stored_index) -> None:
    def members() -> tuple[str, ...]:
        found = stored_index.search(stored_index.get("1058"), 50)
        return next(match.members for match in found if "1284" in match.members)

    before = members()
    stored_index.add([Report("Teapot icon", "Upside down.", "9101", component="x")])
    stored_index.link("9101", "1284", "webhook: comment 5")
    stored_index.link("1284", "9101", "webhook: comment 6")
    assert set(members()) == {*before, "9101"}
    assert not stored_index.unlink("9101", "1284", "webhook: comment 4")
    assert stored_index.unlink("9101", "1284", "webhook: comment 5")
    assert set(members()) == {*before, "9101"}
    assert stored_index.unlink("9101", "1284")
    assert members() == before
    assert not stored_index.unlink("9101", "1284")
    stored_index.delete("9101")
