import pytest

from gedbd.corpora.clients.tracker_fetch import Scope


def whole(records, since=None):
    client, _ = records.server.client()
    return list(records.tracker.pages(client, Scope(records.project, since, None, None)))


def reports(steps):
    return {bug["id"]: bug for step in steps for bug in step.records}


@pytest.mark.parametrize(("lists_of_ids", "requests"), [(True, 10), (False, 14)])
def test_comments_and_history_come_with_each_report(bugzilla, lists_of_ids, requests):
    bugzilla.lists_of_ids = lists_of_ids
    found = reports(whole(bugzilla))
    assert list(found) == [3, 4, 9, 10, 12]
    assert all(bug["comments"][0]["text"] == f"about {number}" for number, bug in found.items())
    assert all(bug["history"] for bug in found.values())
    assert len(bugzilla.server.asked) == requests


def test_requests_are_as_the_interface_wants_them(bugzilla):
    whole(bugzilla)
    assert bugzilla.server.asked[:4] == [
        "/rest/bug?product=Mail+Client&include_fields=_default%2Cduplicates&order=bug_id&limit=2"
        "&f1=bug_id&o1=greaterthan&v1=0",
        "/rest/bug/3/comment?ids=4",
        "/rest/bug/3/history?ids=4",
        "/rest/bug?product=Mail+Client&include_fields=_default%2Cduplicates&order=bug_id&limit=2"
        "&f1=bug_id&o1=greaterthan&v1=4",
    ]


def test_each_report_comes_with_the_address_of_its_page(bugzilla):
    found = reports(whole(bugzilla))
    home = bugzilla.tracker.base_url.rstrip("/")
    assert [bug["web_url"] for bug in found.values()] == [f"{home}/show_bug.cgi?id={number}" for number in found]


def test_an_update_asks_for_what_was_changed(bugzilla):
    assert list(reports(whole(bugzilla, since="2024-01-10T00:00:00Z"))) == [10, 12]


def test_a_server_that_does_not_go_on_ends_with_an_error(bugzilla, reply):
    plain = bugzilla.answer
    bugzilla.server.answer = lambda path, query: plain(path, query | {"v1": ["0"]} if path == "/rest/bug" else query)
    with pytest.raises(ValueError, match="unexpected response: expected only ids above 4"):
        whole(bugzilla)


@pytest.mark.parametrize("content", [{"error": True, "message": "no"}, {"bugs": [{"id": "x"}]}, {"bugs": {}}, []])
def test_another_shape_is_refused(bugzilla, reply, content):
    bugzilla.server.faults = [reply(content)]
    with pytest.raises(ValueError, match=r"rest/bug\?.*: unexpected response"):
        whole(bugzilla)


def test_comments_of_another_shape_are_refused(bugzilla, reply):
    bugzilla.server.faults = [reply({"bugs": [{"id": 3}]}), reply({"bugs": []})]
    with pytest.raises(ValueError, match="rest/bug/3/comment: unexpected response"):
        whole(bugzilla)


def test_a_key_that_is_refused_is_explained(bugzilla, reply):
    said = {"error": True, "code": 306, "message": "The API key you specified is invalid."}
    bugzilla.server.faults = [reply(said, 400)]
    with pytest.raises(ValueError, match=r"returned 400 \(The API key you specified is invalid\.\)"):
        whole(bugzilla)


def test_a_project_needs_a_name(bugzilla):
    with pytest.raises(ValueError, match="must be the name of a Bugzilla product"):
        bugzilla.tracker.check(" ")
