import pytest

from gedbd.corpora.clients.tracker_fetch import Scope


def whole(records, since=None, start=None):
    client, _ = records.server.client()
    return list(records.tracker.pages(client, Scope(records.project, since, start, None)))


def keys(steps):
    return [issue["key"] for step in steps for issue in step.records]


EXPECTED = [f"MAIL-{n}" for n in range(1, 6)]


def test_the_old_search_goes_by_offset(jira):
    steps = whole(jira)
    assert keys(steps) == EXPECTED
    assert [(step.size, step.total, step.next) for step in steps] == [
        (2, 5, {"start": 2, "total": 5}),
        (2, 5, {"start": 4, "total": 5}),
        (1, 5, None),
    ]
    assert "jql=project+%3D+%22MAIL%22+ORDER+BY+created+ASC&" in jira.server.asked[0]
    assert "fields=%2Aall&expand=changelog" in jira.server.asked[0]


def test_an_update_reaches_back_a_day_for_the_sake_of_time_zones(jira):
    jira.change()
    assert keys(whole(jira, since="2024-03-01T00:05:00Z")) == ["MAIL-2", "MAIL-4"]
    assert "AND+updated+%3E%3D+%222024-02-29%22+ORDER" in jira.server.asked[0]


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
    steps = whole(cloud)
    assert keys(steps) == EXPECTED
    assert [(step.total, step.next) for step in steps] == [
        (None, {"token": "t2"}),
        (None, {"token": "t4"}),
        (None, None),
    ]
    assert sum("/search?" in address for address in cloud.server.asked) == 1


def test_the_new_search_goes_on_by_its_token(cloud):
    assert keys(whole(cloud, start={"token": "t4"})) == ["MAIL-5"]


def test_a_token_that_has_expired_starts_the_list_again(cloud, capsys):
    assert keys(whole(cloud, start={"token": "old"})) == EXPECTED
    assert "the position in the list has expired" in capsys.readouterr().out


def test_a_token_that_stays_the_same_ends_with_an_error(cloud, reply):
    page = reply({"issues": [{"key": "MAIL-1"}], "nextPageToken": "t2"})
    cloud.server.faults = [reply({}, 410), page, page]
    with pytest.raises(ValueError, match="the pagination links back to this page"):
        whole(cloud)


def test_a_wrong_project_is_explained(jira, reply):
    said = "The value 'MAIL' does not exist for the field 'project'."
    jira.server.faults = [reply({"errorMessages": [said]}, 400)]
    with pytest.raises(ValueError, match=rf"search\?.*: the server returned 400 \({said}\)"):
        whole(jira)


def test_what_was_cut_is_fetched(jira, reply):
    jira.issues[0]["fields"]["comment"]["total"] = 3
    jira.issues[1]["changelog"]["total"] = 2
    plain = jira.answer

    def answer(path, query):
        if path == "/rest/api/2/issue/MAIL-1/comment":
            start = int(query["startAt"][0])
            return reply({"comments": [{"id": str(n)} for n in range(start, min(start + 2, 3))], "total": 3})
        if path == "/rest/api/2/issue/MAIL-2/changelog":
            return reply({"values": [{"id": "a"}, {"id": "b"}], "total": 2})
        return plain(path, query)

    jira.server.answer = answer
    first, second, *_ = [issue for step in whole(jira) for issue in step.records]
    assert [comment["id"] for comment in first["fields"]["comment"]["comments"]] == ["0", "1", "2"]
    assert [change["id"] for change in second["changelog"]["histories"]] == ["a", "b"]


@pytest.mark.parametrize("content", [{"issues": [{"key": "A-1"}]}, {"total": 1}, {"issues": [], "total": 9}, [1], None])
def test_another_shape_is_refused(jira, reply, content):
    jira.server.faults = [reply(content)]
    with pytest.raises(ValueError, match=r"search\?.*: unexpected response"):
        whole(jira)


@pytest.mark.parametrize("project", ["", 'A" OR project = "B', "A\\", "A\nB"])
def test_a_project_cannot_change_the_question(jira, project):
    with pytest.raises(ValueError, match="must be the key or name of a Jira project"):
        jira.tracker.check(project)
