"""What goes wrong while something is fetched is said with the address, and without what is secret in it."""

from pathlib import Path

import pytest
from local_server import FixedServer, running

from gedbd.corpora.clients.tracker_client import Client
from gedbd.corpora.file_download import fetch_tables
from gedbd.io.http import shown_url

SECRET = "s3cr3t"


def refused(server: FixedServer, path: str = f"/page?page=2&private_token={SECRET}") -> str:
    headers = {"Authorization": f"Bearer {SECRET}"}
    client = Client(f"http://{server.host}", headers, "SOME_TOKEN", 60, print, sleep=lambda seconds: None)
    with pytest.raises(ValueError, match=r"\w") as error:
        client.get(path)
    return str(error.value)


@pytest.mark.parametrize(
    ("status", "headers", "body"),
    [
        (302, {"Location": "http://[::1"}, b""),
        (302, {"Location": "http://127.0.0.1:99999/"}, b""),
        (302, {"Location": f"http://a..b/?sig={SECRET}"}, b""),
        (302, {"Location": f"ftp://user:{SECRET}@127.0.0.1/"}, b""),
        (200, {"Link": '<http://[::1>; rel="next"'}, b"[]"),
        (200, {"Link": "<" * 2_000}, b"[]<"),
        (200, {"Content-Length": "10000"}, b"[]"),
        (200, {"Content-Length": "-5"}, b"<"),
        (401, {}, b'{"message": "no ' + SECRET.encode() + b'"}'),
        (429, {"Retry-After": "999999999"}, b""),
    ],
)
def test_an_answer_that_is_wrong_is_told_with_its_address(server, status, headers, body):
    server.status, server.headers, server.body = status, headers, body
    message = refused(server)
    assert server.host in message
    assert SECRET not in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (302, {"Location": f"http://user:{SECRET}@127.0.0.1:1/?sig={SECRET}"}),
        (200, {"Content-Length": "many"}),
        (200, {"Content-Length": "99"}),
        (200, {"Content-Encoding": "gzip"}),
    ],
)
def test_a_download_that_goes_wrong_is_told_with_its_address(server, tmp_path: Path, status, headers):
    server.status, server.headers, server.body = status, headers, b"id\n1\n2\n"
    with pytest.raises(ValueError, match=r"\w") as error:
        fetch_tables(f"http://user:{SECRET}@{server.host}/data?token={SECRET}", tmp_path, {"bugs.csv": 1})
    message = str(error.value)
    assert server.host in message
    assert SECRET not in message
    assert len(message.splitlines()) == 1


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://h.org/a?page=2&per_page=100", "https://h.org/a?page=2&per_page=100"),
        (f"https://u:{SECRET}@h.org:8/a#{SECRET}", "https://h.org:8/a"),
        (f"https://{SECRET}@h.org", "https://h.org"),
        (f"https://u:{SECRET}@x@h.org/", "https://h.org/"),
        (f"https://h.org/?{SECRET}", "https://h.org/?***"),
        (f"https://h.org/?PAGE={SECRET}&page={SECRET}x", "https://h.org/?PAGE=***&page=***"),
        (f"https://h.org/?X-Amz-Signature={SECRET}&a;b={SECRET}", "https://h.org/?X-Amz-Signature=***&***"),
        (f"https://u:{SECRET}@[::1/?t={SECRET}", "https://[::1/?t=***"),
        (f"//u:{SECRET}@h.org/a\nb\x1b[2J", "//h.org/ab[2J"),
        (f"https:\\\\u:{SECRET}@h.org", "https:\\\\h.org"),
    ],
)
def test_what_is_shown_of_an_address(url, shown):
    assert shown_url(url) == shown


def test_a_download_is_not_redirected_to_another_server(server, tmp_path):
    with running(FixedServer()) as other:
        server.status, server.headers = 302, {"Location": f"http://{other.host}/bugs.csv"}
        other.body = b"id\n1\n"
        with pytest.raises(ValueError, match=rf"leads to http://{other.host}/bugs.csv.*set dataset.base_url"):
            fetch_tables(f"http://{server.host}", tmp_path, {"bugs.csv": 1})
        server.headers = {"Location": "/again"}
        with pytest.raises(ValueError, match="more than 5 redirects"):
            fetch_tables(f"http://{server.host}", tmp_path, {"bugs.csv": 1})
    assert list(tmp_path.iterdir()) == []
