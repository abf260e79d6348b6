import json
import re

import pytest

from gedbd.corpora.clients import github_client as module
from gedbd.corpora.clients.github_client import CommentStore, GitHub, StoredComment
from gedbd.corpora.clients.tracker_fetch import Scope, fetch_tracker


def whole(records, out, since=None, start=None):
    """All issues by number, what was shown, and the labels of the steps."""
    client, _ = records.server.client()
    shown = []
    client.say = shown.append
    steps = list(records.tracker.pages(client, Scope(records.project, since, start, out)))
    return {issue["number"]: issue for step in steps for issue in step.records}, shown, steps


def test_comments_and_events_lie_under_their_issue(github, tmp_path):
    issues, shown, steps = whole(github, tmp_path)
    assert {n: [note["id"] for note in issue["comments"]] for n, issue in issues.items() if issue["comments"]} == {
        1: [11],
        3: [12, 13],
    }
    assert issues[3]["comments"][0] == github.comments[1]
    assert issues[3]["events"] == [
        {"id": 21, "event": "marked_as_duplicate", "created_at": "2024-01-09T10:00:00Z"},
        {"id": 22, "event": "renamed", "created_at": "2024-01-10T10:00:00Z"},
    ]
    assert issues[2]["events"] == []
    assert issues[7]["title"] == "fault 7"
    assert [(step.label, step.size, step.total) for step in steps] == [
        ("comments", 2, 4),
        ("comments", 1, None),
        ("events", 2, None),
        ("issues", 2, 8),
        ("issues", 2, 8),
        ("issues", 2, 8),
        ("issues", 1, None),
    ]
    assert shown == []


def test_requests_are_as_the_interface_wants_them(github, tmp_path):
    whole(github, tmp_path)
    assert github.server.asked[0] == "/repos/owner/repo/issues/comments?per_page=2&sort=created&direction=asc"
    assert "/repos/owner/repo/issues/events?per_page=2" in github.server.asked
    assert "/repos/owner/repo/issues?per_page=2&state=all&sort=created&direction=asc" in github.server.asked


def test_comments_can_be_left_out(github, tmp_path):
    github.tracker = GitHub(github.server.url, page_size=2, comments=False)
    issues, _, steps = whole(github, tmp_path)
    assert {step.label for step in steps} == {"events", "issues"}
    assert issues[3]["comments"] == 0
    assert len(issues[3]["events"]) == 2


def test_an_update_keeps_the_older_comments_of_an_issue(github, tmp_path, make_client):
    fetch_tracker(github.tracker, github.project, tmp_path, 10, make_client=make_client)
    late = "2999-01-01T00:00:00Z"
    github.issues[2]["updated_at"] = late
    github.comments[1] |= {"body": "edited", "updated_at": late}
    github.comments.append(github.comment(14, 3, late))
    github.events.append(github.event(23, 3, "reopened", late))
    fetch_tracker(github.tracker, github.project, tmp_path, 10, make_client=make_client)
    (issue,) = json.loads((tmp_path / "pages" / "000005.json").read_text())
    assert [comment["body"] for comment in issue["comments"]] == ["edited", "text 13", "text 14"]
    assert [event["id"] for event in issue["events"]] == [21, 22, 23]


def test_an_update_reads_events_only_until_it_knows_them(github, tmp_path):
    github.events += [github.event(n, 1, "labeled", f"2024-02-{n}T00:00:00Z") for n in range(23, 29)]
    _, _, steps = whole(github, tmp_path, since="2024-02-27T00:00:00Z")
    assert [step.size for step in steps if step.label == "events"] == [2, 2]


def test_events_of_deleted_issues_do_no_harm(github, tmp_path):
    github.events.append(github.event(30, 3, "labeled", "2024-01-11T00:00:00Z") | {"issue": None})
    assert len(whole(github, tmp_path)[0][3]["events"]) == 2


def test_lists_with_cursors_are_as_long_as_the_newest_number(github, tmp_path, reply):
    plain = github.answer

    def answer(path, query):
        if query.get("direction") == ["desc"]:
            return reply(github.issues[-1:])
        found = plain(path, query)
        return found._replace(headers={name: links.split(", ")[0] for name, links in found.headers.items()})

    github.server.answer = answer
    steps = whole(github, tmp_path)[2]
    assert [step.total for step in steps if step.label == "issues"] == [7, 7, 7, None]
    assert sum("direction=desc" in address for address in github.server.asked) == 1


def ended_after(github, path_end, pages, status):
    """GitHub ends a list after so many pages: without a word, or with an error."""
    plain = github.answer

    def answer(path, query):
        page = int(query.get("page", ["1"])[0])
        reply = plain(path, query)
        if not path.endswith(path_end) or page < pages:
            return reply
        if page == pages:
            return reply._replace(headers={}) if status is None else reply
        return reply._replace(content={"message": "pagination is limited for this resource"}, status=status)

    github.server.answer = answer


@pytest.mark.parametrize("status", [None, 422])
def test_long_lists_go_on_where_github_ends_them(github, tmp_path, monkeypatch, status):
    monkeypatch.setattr(module, "LONG_LIST_PAGES", 2)
    github.comments += [github.comment(n, 5, f"2024-02-{n}T00:00:00Z") for n in range(14, 24)]
    ended_after(github, "issues/comments", 2, status)
    issues, shown, _ = whole(github, tmp_path)
    assert [comment["id"] for comment in issues[5]["comments"]] == list(range(14, 24))
    assert issues.keys() == set(range(1, 8))
    assert shown == []


@pytest.mark.parametrize("status", [None, 422])
def test_events_that_github_does_not_show_are_said(github, tmp_path, monkeypatch, status):
    monkeypatch.setattr(module, "LONG_LIST_PAGES", 2)
    github.events += [github.event(n, 3, "labeled", f"2024-02-{n}T00:00:00Z") for n in range(23, 29)]
    ended_after(github, "issues/events", 2, status)
    issues, shown, _ = whole(github, tmp_path)
    assert [event["id"] for event in issues[3]["events"]] == [25, 26, 27, 28]
    assert shown == ["events: GitHub returns none before 2024-02-25T00:00:00Z, even if there are any"]


def test_a_list_that_ends_among_old_records_is_said(github, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "LONG_LIST_PAGES", 1)
    for comment in github.comments:
        comment["updated_at"] = "2024-06-01T00:00:00Z"
    _, shown, _ = whole(github, tmp_path, since="2024-05-01T00:00:00Z")
    end = github.comments[-1]["created_at"]
    assert shown[0] == f"comments: GitHub ends the list at {end}; anything created later may be missing"


@pytest.mark.parametrize("number", [-1, 2**63, "3", None, [3]])
def test_odd_numbers_are_refused(github, tmp_path, reply, number):
    github.tracker = GitHub(github.server.url, page_size=2, comments=False)
    github.server.faults = [reply([github.event(1, number, "renamed", "2024-01-01T00:00:00Z")])]
    with pytest.raises(ValueError, match=r"issues/events\?.*: unexpected response: expected a whole number"):
        whole(github, tmp_path)


def test_another_refusal_is_not_taken_for_a_limit(github, tmp_path, reply):
    github.server.faults = [reply({"message": "Validation Failed"}, 422)]
    with pytest.raises(ValueError, match=r"the server returned 422 \(Validation Failed\)"):
        whole(github, tmp_path)


def test_a_next_page_that_is_the_same_ends_with_an_error(github, tmp_path):
    plain = github.answer("/repos/owner/repo/issues/comments", {"per_page": ["2"]})
    github.server.answer = lambda path, query: plain._replace(
        headers={"Link": f'<{github.server.url}/same>; rel="next"'}
    )
    with pytest.raises(ValueError, match=re.escape(f"{github.server.url}/same: the pagination links back")):
        whole(github, tmp_path)
    assert len(github.server.asked) == 3


@pytest.mark.parametrize("content", [{"message": "hello"}, [{"id": 1}], [{"id": "x", "issue_url": "a/3"}], ["a"]])
def test_comments_of_another_shape_are_refused(github, tmp_path, reply, content):
    github.server.faults = [reply(content)]
    with pytest.raises(ValueError, match=r"issues/comments\?.*: unexpected response"):
        whole(github, tmp_path)


def test_switched_off_issues_are_explained(github, tmp_path, reply):
    github.tracker = GitHub(github.server.url, page_size=2, comments=False)
    github.server.faults = [reply([]), reply({"message": "Issues are disabled for this repo"}, 410)]
    with pytest.raises(ValueError, match=r"Issues are disabled for this repo.*are issues disabled"):
        whole(github, tmp_path)


@pytest.mark.parametrize("project", ["repo", "a/b/c", "../b", "a/..", "a/b?x=1", "https://github.com/a/b", "/", "a/ü"])
def test_a_project_is_owner_and_repository(github, project):
    with pytest.raises(ValueError, match=re.escape(f"project={project} must be owner/repo")):
        github.tracker.check(project)


def test_notes_that_come_again_replace_what_they_were(tmp_path):
    notes = CommentStore(tmp_path / "notes.sqlite")
    first, second = StoredComment(2, 7, {"body": "b"}), StoredComment(1, 7, {"body": "\ud800 a"})
    notes.add("comments", [first, second, StoredComment(3, 8, {})])
    notes.add("comments", [StoredComment(2, 7, {"body": "c"})])
    notes.add("events", [StoredComment(2, 7, {"event": "closed"})])
    notes.close()
    again = CommentStore(tmp_path / "notes.sqlite")
    assert again.of_issue("comments", 7) == [{"body": "\ud800 a"}, {"body": "c"}]
    assert again.of_issue("events", 7) == [{"event": "closed"}]
    assert again.of_issue("comments", 9) == []


def test_damaged_notes_are_refused(tmp_path):
    (tmp_path / "notes.sqlite").write_bytes(b"no database at all" * 99)
    with pytest.raises(ValueError, match=r"notes\.sqlite: damaged"):
        CommentStore(tmp_path / "notes.sqlite")
