import pytest

from gedbd.corpora.clients import gitlab_client as module
from gedbd.corpora.clients.gitlab_client import GitLab
from gedbd.corpora.clients.tracker_fetch import Scope


def whole(records, since=None):
    client, _ = records.server.client()
    return list(records.tracker.pages(client, Scope(records.project, since, None, None)))


def issues_of(steps):
    return {issue["iid"]: issue for step in steps for issue in step.records}


def test_notes_lie_under_closed_issues(gitlab):
    steps = whole(gitlab)
    issues = issues_of(steps)
    assert {n: [note["id"] for note in issue.get("notes", [])] for n, issue in issues.items()} == {
        1: [],
        2: [1, 2, 3],
        3: [],
        4: [1, 2, 3],
        5: [],
    }
    assert issues[2]["notes"][0]["body"] == "marked as a duplicate of #1"
    assert [(step.size, step.total) for step in steps] == [(2, 5), (2, 5), (1, 5)]
    assert gitlab.server.asked[0] == (
        "/api/v4/projects/group%2Fsub%2Frepo/issues?scope=all&order_by=created_at&sort=asc&per_page=2"
    )


def test_notes_can_be_left_out(gitlab):
    gitlab.tracker = GitLab(gitlab.server.url, page_size=2, comments=False)
    assert issues_of(whole(gitlab)) == {issue["iid"]: issue for issue in gitlab.issues}
    assert len(gitlab.server.asked) == 3


def test_an_update_asks_for_what_was_updated(gitlab):
    assert issues_of(whole(gitlab, since="2024-01-04T00:00:00Z")).keys() == {4, 5}
    assert "updated_after=2024-01-04T00%3A00%3A00Z" in gitlab.server.asked[0]


def test_long_lists_go_on_from_the_last_issue(gitlab, monkeypatch):
    monkeypatch.setattr(module, "MAX_OFFSET", 4)
    steps = whole(gitlab)
    assert issues_of(steps).keys() == {1, 2, 3, 4, 5}
    assert [[issue["iid"] for issue in step.records] for step in steps] == [[1, 2], [3, 4], [4, 5]]
    assert "created_after=2024-01-04T10%3A00%3A00Z" in "".join(gitlab.server.asked)


def test_page_numbers_serve_where_links_were_taken_away(gitlab):
    def answer(path, query):
        reply = gitlab.answer(path, query)
        page = int(query.get("page", ["1"])[0])
        return reply._replace(
            headers={
                "X-Next-Page": str(page + 1) if "Link" in reply.headers and "next" in reply.headers["Link"] else ""
            }
        )

    gitlab.server.answer = answer
    issues = issues_of(whole(gitlab))
    assert issues.keys() == {1, 2, 3, 4, 5}
    assert len(issues[4]["notes"]) == 3


def test_a_limit_in_the_middle_is_waited_for(gitlab, reply):
    limit = reply({"message": "Too many"}, 429, {"RateLimit-Remaining": "0", "RateLimit-Reset": "20"})
    gitlab.server.faults = [limit]
    client, slept = gitlab.server.client()
    assert len(issues_of(gitlab.tracker.pages(client, Scope(gitlab.project, None, None, None)))) == 5
    assert slept == [21]


def test_a_project_needs_a_name(gitlab):
    with pytest.raises(ValueError, match="project=/ must be group/project"):
        gitlab.tracker.check("/")


def test_notes_of_another_shape_are_refused(gitlab, reply):
    gitlab.server.faults = [reply([{"iid": 1, "state": "closed"}]), reply({"message": "none"})]
    with pytest.raises(ValueError, match=r"issues/1/notes\?.*: unexpected response"):
        whole(gitlab)
