import gzip
import re
import time
from base64 import b64encode
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest

from gedbd.corpora.clients import tracker_client
from gedbd.corpora.clients.bugzilla_client import Bugzilla
from gedbd.corpora.clients.github_client import GitHub
from gedbd.corpora.clients.gitlab_client import GitLab
from gedbd.corpora.clients.jira_client import Jira
from gedbd.corpora.clients.tracker_client import Answer, PageList, limit_wait_s
from gedbd.corpora.clients.tracker_fetch import fetch_tracker
from gedbd.corpora.dates import parse_mail_date
from gedbd.io.http import server_message

SECRETS = {"PRIVATE-TOKEN": "s3cret"}
DATE = {"Date": "Sun, 22 Nov 2026 10:00:00 GMT"}
TEN = datetime(2026, 11, 22, 10, tzinfo=UTC).timestamp()


@pytest.fixture
def fine(server, reply):
    server.answer = lambda path, query: reply({"path": path, "query": query})
    return server


def test_an_answer_is_read(fine):
    client, slept = fine.client()
    answer = client.get("/a", {"q": "x y", "ids": [1, 2]})
    assert answer.content == {"path": "/a", "query": {"q": ["x y"], "ids": ["1", "2"]}}
    assert answer.url == f"{fine.url}/a?q=x+y&ids=1&ids=2"
    assert client.started == parse_mail_date(answer.headers["Date"]).timestamp()
    assert slept == []


WAITING = r"http://127.0.0.1:\d+: the rate limit is reached; waiting 8 s, until [\d-]+ [\d:]+ UTC\n"


@pytest.mark.parametrize(
    ("faults", "max_wait_s", "slept", "said"),
    [
        *(
            [[({}, status), (b"<html>", status)], 3900, [1, 2], f"returned {status}; waiting"]
            for status in (500, 502, 503)
        ),
        ([({}, 500)] * 4, 3, [1, 2, 3, 3], "waiting 3 s"),
        ([({"path": "x" * 500}, 200, {}, 100)], 3900, [1], r"connection failed \(IncompleteRead\(100 bytes read"),
        ([({}, 429, {"Retry-After": "7"})], 3900, [8], f"^{WAITING}$"),
    ],
)
def test_a_failing_or_limited_server_is_asked_again(fine, reply, capsys, faults, max_wait_s, slept, said):
    fine.faults = [reply(*fault) for fault in faults]
    client, waits = fine.client(SECRETS, max_wait_s)
    assert client.get("/a").content["path"] == "/a"
    assert waits == slept
    assert re.search(said, capsys.readouterr().out)


def test_a_server_that_keeps_failing_is_given_up(fine, reply):
    fine.faults = [reply({}, 500)] * 6
    client, slept = fine.client()
    message = "/a: the server returned 500, 6 times in a row; run the same command to continue from here"
    with pytest.raises(ValueError, match=re.escape(fine.url + message)):
        client.get("/a")
    assert slept == [1, 2, 4, 8, 16]
    assert client.get("/a").content["path"] == "/a"


def test_an_exhausted_quota_is_waited_for(fine, reply):
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(time.time()) + 600)}
    fine.faults = [reply({"message": "API rate limit exceeded"}, 403, headers)]
    client, slept = fine.client()
    client.get("/a")
    assert 598 <= slept[0] <= 602


def test_a_wait_that_is_too_long_says_when_to_come_back(fine, reply):
    fine.faults = [reply({}, 429, {"Retry-After": "7200"})]
    client, slept = fine.client(max_wait_s=3900)
    with pytest.raises(
        ValueError, match=r"set SOME_TOKEN to raise it; run the same command again after 20.* \(in 120 min"
    ):
        client.get("/a")
    assert slept == []


@pytest.mark.parametrize(
    ("status", "headers", "message", "seconds"),
    [
        (429, {"Retry-After": "30"}, "", 31),
        (503, {"Retry-After": "30"}, "", 31),
        (429, {"Retry-After": "Sun, 22 Nov 2026 10:01:00 GMT"}, "", 61),
        (403, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(int(TEN) + 90)}, "", 91),
        (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": str(int(TEN) + 90)}, "", 91),
        (429, {"RateLimit-Remaining": "0", "RateLimit-Reset": "45"}, "", 46),
        (429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "2026-11-22T10:02:00Z"}, "", 121),
        (429, {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "soon"}, "", 60),
        (429, {"Retry-After": "-5"}, "", 60),
        (429, {"Retry-After": "Sun, 22 Nov 2026 09:00:00 GMT"}, "", 1),
        (403, {"X-RateLimit-Remaining": "12", "X-RateLimit-Reset": "9"}, "", None),
        (403, {}, "You have exceeded a secondary rate limit.", 60),
        (404, {"Retry-After": "30"}, "", None),
    ],
)
def test_waits_follow_the_servers_clock(status, headers, message, seconds):
    assert limit_wait_s(status, {**DATE, **headers}, message, now=0.0) == seconds


def test_our_clock_counts_where_the_server_tells_no_time():
    after = format_datetime(datetime.fromtimestamp(TEN + 5, UTC), usegmt=True)
    assert limit_wait_s(429, {"Retry-After": after}, "", now=TEN) == 6


TWICE = gzip.compress(gzip.compress(bytes(1 << 26)))
SPACES = b"[" + b" " * 1_000_000 + b"]"
NO_JSON = "/a: expected JSON, received"
TOO_LARGE = r"/a: more than 1 MB in one page; lower tracker.page_size"
BAD = {"message": "Bad token"}


@pytest.mark.parametrize(
    ("answer", "secrets", "message"),
    [
        *(((body,), {}, NO_JSON) for body in (b"<!doctype html><p>Sign in", b'[{"id": 1', b"", b"[" * 100_000)),
        ((SPACES,), {}, TOO_LARGE),
        ((gzip.compress(SPACES), 200, {"Content-Encoding": "gzip"}), {}, TOO_LARGE),
        ((TWICE, 200, {"Content-Encoding": "gzip, gzip"}), {}, TOO_LARGE),
        (({}, 302, {"Location": "/a"}), {}, "/a: more than 5 redirects"),
        ((BAD, 401), SECRETS, r"401 \(Bad token\); SOME_TOKEN is not accepted: has it expired, or is it mistyped\?"),
        ((BAD, 401), {}, r"401 \(Bad token\); it requires a token: set SOME_TOKEN"),
        ((BAD, 403), SECRETS, "does the owner of SOME_TOKEN have read access to this project"),
        ((BAD, 403), {}, "set SOME_TOKEN to a token with read access"),
        ((BAD, 404), SECRETS, "check project= and tracker.base_url; a private project needs a token that may read it$"),
        ((BAD, 404), {}, "a private project needs a token that may read it: set SOME_TOKEN"),
        ((BAD, 410), {}, "are issues disabled for this project"),
        ((BAD, 418), {}, r"the server returned 418 \(Bad token\)$"),
    ],
)
def test_a_refusal_or_an_odd_answer_is_explained(fine, reply, monkeypatch, answer, secrets, message):
    monkeypatch.setattr(tracker_client, "MAX_BYTES", 1_000_000)
    fine.faults = [reply(*answer)] * 6
    with pytest.raises(ValueError, match=message) as raised:
        fine.client(secrets)[0].get("/a")
    assert str(raised.value).startswith(fine.url)


@pytest.mark.integration
@pytest.mark.parametrize("drips", ["headers", "body"])
def test_an_answer_of_one_byte_at_a_time_is_ended(server, make_client, monkeypatch, drips):
    monkeypatch.setattr(tracker_client, "MAX_ANSWER_S", 0.1)

    def drip(handler):
        handler.server.asked.append(handler.path)
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if drips == "body" else b""))
        try:
            for _ in range(200):
                handler.wfile.write(b"x" if drips == "headers" else b" ")
                time.sleep(0.02)
        except OSError:
            handler.close_connection = True

    monkeypatch.setattr(server.RequestHandlerClass, "do_GET", drip)
    with pytest.raises(ValueError, match=r"no complete answer within 0\.1 s\), 6 times in a row"):
        make_client(server.url, {}, "SOME_TOKEN", 10, print).get("/a")
    assert len(server.asked) == 6


def test_the_same_address_twice_is_a_circle(fine):
    page_list = PageList(fine.client()[0])
    page_list.get("/a")
    with pytest.raises(ValueError, match=re.escape(f"{fine.url}/a: the pagination links back to this page")):
        page_list.get(f"{fine.url}/a")


def test_a_redirect_on_the_same_host_keeps_the_token(fine, reply):
    fine.faults = [reply({}, 301, {"Location": "/b"})]
    assert fine.client(SECRETS)[0].get("/a").content["path"] == "/b"
    assert [headers.get("PRIVATE-TOKEN") for headers in fine.headers] == ["s3cret", "s3cret"]


@pytest.mark.parametrize("secrets", [SECRETS, {}])
@pytest.mark.parametrize(
    "elsewhere",
    [
        "{other}/b?token=s3cret",
        "http://localhost:{port}/b",
        "https://127.0.0.1:{port}/b",
        "//127.0.0.1:{other_port}/b",
        "http://127.0.0.1:{other_port}\\@127.0.0.1:{port}/b",
        "file:///etc/hostname",
    ],
)
@pytest.mark.parametrize("by", ["redirect", "link"])
def test_another_host_is_not_requested(fine, other_server, reply, secrets, elsewhere, by):
    ports = {"port": fine.server_port, "other": other_server.url, "other_port": other_server.server_port}
    target = elsewhere.format(**ports)
    fine.faults = [
        reply({}, 302, {"Location": target})
        if by == "redirect"
        else reply([], headers={"Link": f'<{target}>; rel="next"'})
    ]
    client, slept = fine.client(secrets)
    with pytest.raises(ValueError, match=r"nothing was sent there.* tracker.base_url|not a valid address") as raised:
        client.get(client.get("/a").links["next"])
    assert "s3cret" not in str(raised.value)
    assert len(str(raised.value).splitlines()) == 1
    assert (len(fine.asked), other_server.asked, slept) == (1, [], [])


def test_netrc_does_not_take_the_tokens_place(fine, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    fine.client({"Authorization": "Bearer s3cret"})[0].get("/a")
    assert fine.headers[0]["Authorization"] == "Bearer s3cret"


ENCODED = b64encode(b"me:s3cret").decode()


@pytest.mark.parametrize(("header", "sent"), [("Bearer s3cret", "s3cret"), (f"Basic {ENCODED}", f"s3cret, {ENCODED}")])
def test_a_message_that_repeats_the_token_does_not_show_it(fine, reply, monkeypatch, header, sent):
    monkeypatch.setenv("SOME_TOKEN", "s3cret")
    fine.faults = [reply({"message": f"unknown {sent}"}, 401)]
    with pytest.raises(ValueError, match=r"\(unknown \*\*\*(, \*\*\*)?\)") as raised:
        fine.client({"Authorization": header})[0].get("/a")
    assert not {"s3cret", ENCODED} & set(re.findall(r"\w+=*", str(raised.value)))


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"message": "two\\nlines \\u001b[31m"}', "two lines [31m"),
        (b'{"errorMessages": ["one", "two"]}', "one; two"),
        (b'{"error": true, "message": "no product"}', "no product"),
        (b'{"message": {"base": ["bad"]}}', "{'base': ['bad']}"),
        (b'{"error": {"message": "no such model", "code": 404}}', "no such model"),
        (b"<html>", ""),
        (b'{"message": "' + b"x" * 900 + b'"}', "x" * 200 + "..."),
    ],
)
def test_what_the_server_says_is_made_one_short_line(body, said):
    assert server_message(body) == said


@pytest.mark.parametrize(
    "base", ["github.com", "ftp://host", "https://", "https://host?page=1", "", "http://[::1", "http://h:port"]
)
def test_a_base_url_must_be_an_address_without_a_password(base, tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"tracker.base_url={base} must be an address such as")):
        fetch_tracker(Bugzilla(base, 1), "product", tmp_path / "out", 0)
    with pytest.raises(ValueError, match=r"tracker.base_url holds a name or password: [^@]*$"):
        fetch_tracker(Bugzilla("https://me:s3cret@host", 1), "product", tmp_path / "out", 0)
    assert not (tmp_path / "out").exists()


def test_tokens_come_from_the_environment(monkeypatch):
    trackers = [
        GitHub("https://h", 1, True),
        GitLab("https://h", 1, True),
        Bugzilla("https://h", 1),
        Jira("https://h", 1),
    ]
    assert [tracker.secrets() for tracker in trackers] == [{}] * 4
    for tracker in trackers:
        monkeypatch.setenv(tracker.token, " abc\n")
    assert [tracker.secrets() for tracker in trackers] == [
        {"Authorization": "Bearer abc"},
        {"PRIVATE-TOKEN": "abc"},
        {"X-BUGZILLA-API-KEY": "abc"},
        {"Authorization": "Bearer abc"},
    ]
    monkeypatch.setenv("JIRA_USER", "me@example.org")
    assert trackers[3].secrets() == {"Authorization": "Basic bWVAZXhhbXBsZS5vcmc6YWJj"}
    monkeypatch.delenv("JIRA_TOKEN")
    with pytest.raises(ValueError, match="JIRA_USER is set but JIRA_TOKEN is not"):
        trackers[3].secrets()


def test_a_token_with_a_line_break_is_refused_and_not_shown(monkeypatch):
    monkeypatch.setenv("GITHUB_TOKEN", "s3cret\nX-Other: 1")
    with pytest.raises(ValueError, match="GITHUB_TOKEN holds spaces") as raised:
        GitHub("https://h", 1, True).secrets()
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("content", [{"a": []}, {"issues": {}}, {"issues": [1]}, {"issues": [{"id": 1}]}, [], None])
def test_another_shape_is_refused_with_its_address(content):
    answer = Answer(content, "http://host/a", {}, {})
    with pytest.raises(ValueError, match=r"http://host/a: unexpected response: .*'key' under issues"):
        answer.records("issues", key="key")
