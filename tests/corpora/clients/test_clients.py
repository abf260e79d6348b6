import json
import re

import pytest

from gedbd.corpora.clients import github_client, gitlab_client
from gedbd.corpora.clients.github_client import GitHub, open_comments
from gedbd.corpora.clients.gitlab_client import GitLab
from gedbd.corpora.clients.tracker_fetch import fetch_tracker

BUGS = (
    "/rest/bug?product=Mail+Client&include_fields=_default%2Cduplicates&order=bug_id&limit=2&f1=bug_id&o1=greaterthan"
)
# The first requests of each client.
REQUESTS = {
    "github": [
        "/repos/owner/repo/issues/comments?per_page=2&sort=created&direction=asc",
        "/repos/owner/repo/issues/events?per_page=2",
        "/repos/owner/repo/issues?per_page=2&state=all&sort=created&direction=asc",
    ],
    "gitlab": ["/api/v4/projects/group%2Fsub%2Frepo/issues?scope=all&order_by=created_at&sort=asc&per_page=2"],
    "jira": [
        "/rest/api/2/search?jql=project+%3D+%22MAIL%22+ORDER+BY+created+ASC&maxResults=2"
        "&fields=%2Aall&expand=changelog&startAt=0"
    ],
    "bugzilla": [f"{BUGS}&v1=0", "/rest/bug/3/comment?ids=4", "/rest/bug/3/history?ids=4", f"{BUGS}&v1=4"],
}


def test_requests_are_as_the_interface_wants_them(any_tracker, tmp_path):
    any_tracker.whole(folder=tmp_path)
    requests = [path for path in any_tracker.server.asked if not re.search("[?&]page=", path)]
    assert requests[: len(REQUESTS[any_tracker.tracker.name])] == REQUESTS[any_tracker.tracker.name]


@pytest.mark.parametrize(
    ("name", "since", "keys", "asked"),
    [
        ("gitlab", "2024-01-04T00:00:00Z", [4, 5], "updated_after=2024-01-04T00%3A00%3A00Z"),
        # A day earlier, for the sake of time zones.
        ("jira", "2024-03-01T00:05:00Z", ["MAIL-2", "MAIL-4"], "AND+updated+%3E%3D+%222024-02-29%22+ORDER"),
        ("bugzilla", "2024-01-10T00:00:00Z", [10, 12], "last_change_time=2024-01-10T00%3A00%3A00Z"),
    ],
)
def test_an_update_asks_for_what_was_changed(records_of, name, since, keys, asked):
    records = records_of(name)
    if name == "jira":
        records.change()
    assert list(records.by_key(records.whole(since))) == keys
    assert asked in records.server.asked[0]


EVENT = {"id": 1, "event": "renamed", "created_at": "2024-01-01T00:00:00Z"}
UNEXPECTED = "unexpected response"


@pytest.mark.parametrize(
    ("name", "contents", "message"),
    [
        ("github", [{"message": "hello"}], rf"issues/comments\?.*: {UNEXPECTED}"),
        ("github", [[{"id": "x", "issue_url": "a/3"}]], rf"issues/comments\?.*: {UNEXPECTED}"),
        ("github", [[], [EVENT | {"issue": {"number": "3"}}]], rf"events\?.*: {UNEXPECTED}: expected a whole number"),
        ("gitlab", [[{"iid": 1, "state": "closed"}], {"message": "none"}], rf"issues/1/notes\?.*: {UNEXPECTED}"),
        ("jira", [{"issues": [], "total": 9}], rf"search\?.*: {UNEXPECTED}"),
        ("bugzilla", [{"error": True, "message": "no"}], rf"rest/bug\?.*: {UNEXPECTED}"),
        ("bugzilla", [{"bugs": [{"id": 3}]}, {"bugs": []}], f"rest/bug/3/comment: {UNEXPECTED}"),
    ],
)
def test_an_answer_of_another_shape_is_refused_with_its_address(records_of, tmp_path, reply, name, contents, message):
    records = records_of(name)
    records.server.faults = [reply(content) for content in contents]
    with pytest.raises(ValueError, match=message):
        records.whole(folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "message", "projects"),
    [
        ("github", "must be owner/repo", ["repo", "a/b/c", "../b", "a/..", "a/b?x=1", "https://github.com/a/b", "a/ü"]),
        ("gitlab", "must be group/project", ["/", ""]),
        ("jira", "must be the key or name of a Jira project", ["", 'A" OR project = "B', "A\\", "A\nB"]),
        ("bugzilla", "must be the name of a Bugzilla product", [" "]),
    ],
)
def test_the_name_of_a_project_is_checked(records_of, name, message, projects):
    for project in projects:
        with pytest.raises(ValueError, match=message):
            records_of(name).tracker.check(project)


def test_comments_and_events_lie_under_their_issue(github, tmp_path):
    pages = github.whole(folder=tmp_path)
    issues = github.by_key(pages)
    comments = {number: issue["comments"] for number, issue in issues.items() if issue["comments"]}
    assert comments == {1: github.comments[:1], 3: github.comments[1:]}
    assert issues[3]["events"] == [
        {"id": 21, "event": "marked_as_duplicate", "created_at": "2024-01-09T10:00:00Z"},
        {"id": 22, "event": "renamed", "created_at": "2024-01-10T10:00:00Z"},
    ]
    assert (issues[2]["events"], issues[7]["title"], github.said) == ([], "fault 7", [])
    parts = [
        ("comments", 2, 4),
        ("comments", 1, None),
        ("events", 2, None),
        *[("issues", 2, 8)] * 3,
        ("issues", 1, None),
    ]
    assert [(page.label, page.size, page.total) for page in pages] == parts


def test_comments_can_be_left_out(github, gitlab, tmp_path):
    gitlab.tracker = GitLab(gitlab.server.url, page_size=2, comments=False)
    assert gitlab.by_key(gitlab.whole()) == {issue["iid"]: issue for issue in gitlab.issues}
    assert len(gitlab.server.asked) == 3
    github.server.answer = github.answer
    github.tracker = GitHub(github.server.url, page_size=2, comments=False)
    pages = github.whole(folder=tmp_path)
    assert {page.label for page in pages} == {"events", "issues"}
    issue = github.by_key(pages)[3]
    assert (issue["comments"], len(issue["events"])) == (0, 2)


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


def test_events_of_deleted_issues_do_no_harm(github, tmp_path):
    github.events.append(github.event(30, 3, "labeled", "2024-01-11T00:00:00Z") | {"issue": None})
    assert len(github.by_key(github.whole(folder=tmp_path))[3]["events"]) == 2


@pytest.mark.parametrize("status", [None, 422])
@pytest.mark.parametrize("kind", ["comments", "events"])
def test_long_lists_go_on_where_github_ends_them(github, tmp_path, monkeypatch, kind, status):
    """GitHub ends a list after two pages: without a word, or with an error."""
    monkeypatch.setattr(github_client, "LONG_LIST_PAGES", 2)
    github.comments += [github.comment(n, 5, f"2024-02-{n}T00:00:00Z") for n in range(14, 24)]
    github.events += [github.event(n, 3, "labeled", f"2024-02-{n}T00:00:00Z") for n in range(23, 29)]

    def answer(path, query):
        page = int(query.get("page", ["1"])[0])
        plain = github.answer(path, query)
        if not path.endswith(f"issues/{kind}") or page < 2:
            return plain
        if page == 2:
            return plain._replace(headers={}) if status is None else plain
        return plain._replace(content={"message": "pagination is limited for this resource"}, status=status)

    github.server.answer = answer
    issues = github.by_key(github.whole(folder=tmp_path))
    assert issues.keys() == set(range(1, 8))
    assert [comment["id"] for comment in issues[5]["comments"]] == list(range(14, 24))
    # Events are listed from the newest on, and cannot go on.
    events = [event["id"] for event in issues[3]["events"]]
    assert events == ([25, 26, 27, 28] if kind == "events" else list(range(21, 29)))
    told = ["events: GitHub lists none before 2024-02-25T00:00:00Z; older ones may be missing"]
    assert [line for line in github.said if kind in line] == (told if kind == "events" else [])


def test_a_list_that_ends_among_old_records_is_said(github, tmp_path, monkeypatch):
    monkeypatch.setattr(github_client, "LONG_LIST_PAGES", 1)
    for comment in github.comments:
        comment["updated_at"] = "2024-06-01T00:00:00Z"
    github.whole("2024-05-01T00:00:00Z", folder=tmp_path)
    end = github.comments[-1]["created_at"]
    assert github.said[0] == f"comments: GitHub ends the list at {end}; anything created later may be missing"


def test_damaged_comments_are_refused(tmp_path):
    (tmp_path / "notes.sqlite").write_bytes(b"no database at all" * 99)
    with pytest.raises(ValueError, match=r"notes\.sqlite: damaged"):
        open_comments(tmp_path / "notes.sqlite")


def test_notes_lie_under_closed_issues(gitlab):
    pages = gitlab.whole()
    issues = gitlab.by_key(pages)
    notes = {number: [note["id"] for note in issue.get("notes", [])] for number, issue in issues.items()}
    assert notes == {1: [], 2: [1, 2, 3], 3: [], 4: [1, 2, 3], 5: []}
    assert issues[2]["notes"][0]["body"] == "marked as a duplicate of #1"
    assert [(page.size, page.total) for page in pages] == [(2, 5), (2, 5), (1, 5)]


def test_long_lists_go_on_from_the_last_issue(gitlab, monkeypatch):
    monkeypatch.setattr(gitlab_client, "MAX_OFFSET", 4)
    assert [[issue["iid"] for issue in page.records] for page in gitlab.whole()] == [[1, 2], [3, 4], [4, 5]]
    assert "created_after=2024-01-04T10%3A00%3A00Z" in "".join(gitlab.server.asked)


def test_page_numbers_serve_where_links_were_taken_away(gitlab):
    def answer(path, query):
        plain = gitlab.answer(path, query)
        following = str(int(query.get("page", ["1"])[0]) + 1)
        return plain._replace(headers={"X-Next-Page": following if "next" in plain.headers.get("Link", "") else ""})

    gitlab.server.answer = answer
    issues = gitlab.by_key(gitlab.whole())
    assert issues.keys() == {1, 2, 3, 4, 5}
    assert len(issues[4]["notes"]) == 3


EXPECTED = [f"MAIL-{n}" for n in range(1, 6)]


def test_the_old_search_goes_by_offset(jira):
    pages = jira.whole()
    assert list(jira.by_key(pages)) == EXPECTED
    cursors = [{"start": 2, "total": 5}, {"start": 4, "total": 5}, None]
    assert [(page.size, page.total, page.next) for page in pages] == list(zip([2, 2, 1], [5] * 3, cursors, strict=True))


@pytest.fixture
def cloud(jira, reply):
    """The same issues behind Jira Cloud's search."""

    def answer(path, query):
        if path == "/rest/api/2/search":
            return reply({"errorMessages": ["The requested API has been removed."]}, 410)
        if path != "/rest/api/2/search/jql":
            return jira.answer(path, query)
        token = query.get("nextPageToken", ["t0"])[0]
        if token not in {"t0", "t2", "t4"}:
            return reply({"errorMessages": ["The provided next page token is invalid or expired."]}, 400)
        start = int(token[1:])
        issues = jira.rows(query)[start : start + 2]
        more = {"nextPageToken": f"t{start + 2}"} if start < 4 else {"isLast": True}
        return reply({"issues": issues} | more)

    jira.server.answer = answer
    return jira


def test_where_the_old_search_is_gone_the_new_one_is_asked(cloud):
    pages = cloud.whole()
    assert list(cloud.by_key(pages)) == EXPECTED
    tokens = [{"token": "t2"}, {"token": "t4"}, None]
    assert [(page.total, page.next) for page in pages] == [(None, token) for token in tokens]
    assert sum("/search?" in address for address in cloud.server.asked) == 1


@pytest.mark.parametrize(("token", "keys"), [("t4", ["MAIL-5"]), ("old", EXPECTED)])
def test_the_new_search_goes_on_by_its_token_or_starts_again(cloud, token, keys):
    assert list(cloud.by_key(cloud.whole(start={"token": token}))) == keys
    assert any("the page token has expired" in line for line in cloud.said) == (token == "old")


def test_a_token_that_stays_the_same_ends_with_an_error(cloud, reply):
    page = reply({"issues": [{"key": "MAIL-1"}], "nextPageToken": "t2"})
    cloud.server.faults = [reply({}, 410), page, page]
    with pytest.raises(ValueError, match="the pagination links back to this page"):
        cloud.whole()


def test_what_was_cut_is_fetched(jira, reply):
    jira.issues[0]["fields"]["comment"]["total"] = 3
    jira.issues[1]["changelog"]["total"] = 2

    def answer(path, query):
        if path == "/rest/api/2/issue/MAIL-1/comment":
            start = int(query["startAt"][0])
            return reply({"comments": [{"id": str(n)} for n in range(start, min(start + 2, 3))], "total": 3})
        if path == "/rest/api/2/issue/MAIL-2/changelog":
            return reply({"values": [{"id": "a"}, {"id": "b"}], "total": 2})
        return jira.answer(path, query)

    jira.server.answer = answer
    first, second, *_ = jira.by_key(jira.whole()).values()
    assert [comment["id"] for comment in first["fields"]["comment"]["comments"]] == ["0", "1", "2"]
    assert [change["id"] for change in second["changelog"]["histories"]] == ["a", "b"]


@pytest.mark.parametrize(("lists_of_ids", "requests"), [(True, 10), (False, 14)])
def test_comments_and_history_come_with_each_bug(bugzilla, lists_of_ids, requests):
    bugzilla.lists_of_ids = lists_of_ids
    bugs = bugzilla.by_key(bugzilla.whole())
    assert list(bugs) == [3, 4, 9, 10, 12]
    for number, bug in bugs.items():
        assert bug["comments"][0]["text"] == f"about {number}"
        assert bug["history"]
        assert bug["web_url"] == f"{bugzilla.server.url}/show_bug.cgi?id={number}"
    assert len(bugzilla.server.asked) == requests


def test_a_server_that_does_not_go_on_ends_with_an_error(bugzilla):
    def answer(path, query):
        return bugzilla.answer(path, query | {"v1": ["0"]} if path == "/rest/bug" else query)

    bugzilla.server.answer = answer
    with pytest.raises(ValueError, match="unexpected response: expected only ids above 4"):
        bugzilla.whole()
