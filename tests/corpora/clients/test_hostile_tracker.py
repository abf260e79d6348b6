"""Trackers that never end a list, change it while it is read, answer slowly, or send values of any type."""

import json
import random
from datetime import UTC, datetime, timedelta
from itertools import count

import pytest

from gedbd.corpora.clients import tracker_client
from gedbd.corpora.clients.tracker_fetch import fetch_tracker

pytestmark = pytest.mark.integration

ODD = [None, True, -1, 1 << 63, 10**30, 1.5, float("nan"), "", "x", "\ud800", "9" * 30, [], [[]], [1], {}, {"id": 1}]


def run(records, out, make_client):
    return fetch_tracker(records.tracker, records.project, out, 10, make_client=make_client)


def fetched(out):
    """All records by key, the later ones in place of the earlier."""
    pages = sorted((out / "pages").iterdir())
    found = [record for file in pages for record in json.loads(file.read_text())]
    key = next(key for key in ("number", "iid", "key", "id") if key in found[0])
    return {record[key]: record for record in found}, len(found)


def endless(records, reply, kind):
    """A list without an end: the same page under other addresses, empty pages, or other records on each page."""
    numbers = count(1)
    name = records.tracker.name

    def answer(path, query):
        number = next(numbers)
        key = {"same": 1, "new": number}.get(kind)
        rows = [] if key is None else [key]
        link = {"Link": f'<{records.server.url}{path}?per_page=2&cursor={number}>; rel="next"', "X-Total": "999"}
        if name == "github":
            event = [{"id": row, "created_at": "2024-01-01T00:00:00Z", "issue_url": "a/1"} for row in rows]
            return reply(event, headers=link)
        if name == "gitlab":
            return reply([{"iid": row, "created_at": "2024-01-01", "state": "opened"} for row in rows], headers=link)
        if name == "jira":
            issues = [{"key": f"A-{row}", "fields": {}} for row in rows]
            return reply({"issues": issues, "total": 1 << 40, "nextPageToken": str(number)})
        if path == "/rest/bug":
            return reply({"bugs": [{"id": row + int(query["v1"][0])} for row in rows]})
        part = path.rpartition("/")[2]
        ids = [path.split("/")[3], *query.get("ids", [])]
        about = [{"id": int(row), "history": []} for row in ids]
        return reply({"bugs": {row: {"comments": []} for row in ids} if part == "comment" else about})

    return answer


@pytest.mark.parametrize("kind", ["same", "empty", "new"])
def test_a_list_without_an_end_is_ended(any_tracker, tmp_path, make_client, reply, monkeypatch, kind):
    monkeypatch.setattr(tracker_client, "MAX_PAGES", 15)
    any_tracker.server.answer = endless(any_tracker, reply, kind)
    ends_by_itself = (any_tracker.tracker.name, kind) in {("gitlab", "empty"), ("bugzilla", "empty")}
    with pytest.raises(ValueError, match=r"after 15 pages|10 pages in a row|links back|unexpected response|no visible"):
        run(any_tracker, tmp_path / "out", make_client)
    assert len(any_tracker.server.asked) < (3 if ends_by_itself else 60)


@pytest.mark.parametrize("part", ["comment", "changelog"])
def test_comments_without_an_end_are_ended(jira, gitlab, tmp_path, make_client, reply, part):
    plain = jira.answer
    jira.issues[0]["fields"]["comment"]["total"] = 9
    jira.issues[0]["changelog"]["total"] = 9
    jira.issues[0]["key"] = "MAIL-1/../../../admin"
    page = {"total": 1 << 40, "comments": [{"id": "1"}], "values": [{"id": "1"}]}
    ended = {"total": 1, "comments": [{"id": "1"}], "values": [{"id": "1"}]}
    jira.server.answer = lambda path, query: (
        plain(path, query) if path.endswith("/search") else reply(page if path.endswith(part) else ended)
    )
    with pytest.raises(ValueError, match=rf"{part}\?.*: after 1 records, 10 pages in a row"):
        run(jira, tmp_path / "out", make_client)
    assert all("/issue/MAIL-1%2F..%2F..%2F..%2Fadmin/" in path for path in jira.server.asked if "search" not in path)


def test_what_changes_while_a_list_is_read_is_not_lost(any_tracker, tmp_path, make_client, capsys):
    records = any_tracker
    name = records.tracker.name
    rows = records.bugs if name == "bugzilla" else records.issues
    plain, left = records.answer, [2]

    def answer(path, query):
        is_list = path.endswith(("/search", "/issues", "/bug"))
        if is_list:
            left[0] -= 1
        if is_list and left[0] == 0:
            # Between two pages the first issues go and another comes. GitHub goes on behind the last record.
            rows.append(dict(rows[-1]) | {records.key: "MAIL-99" if name == "jira" else 99, "created_at": "2024-01-30"})
            if name != "github":
                del rows[0:2]
        return plain(path, query)

    records.server.answer = answer
    told = run(records, tmp_path / "out", make_client)
    found, _ = fetched(tmp_path / "out")
    assert {row[records.key] for row in rows} <= set(found)
    if name in {"jira", "gitlab"}:
        assert "deleted or moved during the fetch" in capsys.readouterr().out
    assert "issues" in told


def test_a_server_whose_clock_is_ahead_hides_no_changes(github, tmp_path, make_client, monkeypatch):
    ahead = "Sun, 22 Nov 2150 10:00:00 GMT"
    monkeypatch.setattr(github.server.RequestHandlerClass, "date_time_string", lambda self, timestamp=None: ahead)
    run(github, tmp_path, make_client)
    soon = f"{datetime.now(UTC) + timedelta(minutes=1):%Y-%m-%dT%H:%M:%SZ}"
    github.issues[1]["updated_at"] = soon
    assert "1 new or changed issues" in run(github, tmp_path, make_client)


def refusal(call):
    """The message of a ValueError, empty for none."""
    try:
        call()
    except ValueError as error:
        return str(error)
    return ""


def mutated(value, chance, numbers):
    """The same JSON with other values in some places."""
    if numbers.random() < chance:
        return numbers.choice(ODD)
    if isinstance(value, list):
        return [mutated(item, chance, numbers) for item in value]
    if isinstance(value, dict):
        return {key: mutated(item, chance, numbers) for key, item in value.items() if numbers.random() > chance / 2}
    return value


def test_values_of_any_type_end_in_one_line_with_the_address(any_tracker, tmp_path, make_client, monkeypatch):
    monkeypatch.setattr(tracker_client, "MAX_PAGES", 20)
    numbers = random.Random(4)
    for chance in (0.01, 0.03, 0.1):
        for trial in range(3):
            out = tmp_path / f"{chance}_{trial}"

            def answer(path, query, chance=chance):
                plain = any_tracker.answer(path, query)
                return plain._replace(content=mutated(plain.content, chance, numbers))

            any_tracker.server.answer = answer
            said = refusal(lambda out=out: run(any_tracker, out, make_client))
            assert said == "" or any_tracker.server.url in said
            assert len(said.splitlines()) <= 1
            any_tracker.server.answer = any_tracker.answer
            if (out / "state.json").exists():
                run(any_tracker, out, make_client)
