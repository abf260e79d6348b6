"""What is wrong with a server or its address is said in one line, without the password."""

import json
from contextlib import closing

import psycopg
import pytest
from postgres_server import fill_store, open_store
from run_commands import commands_in
from small_tracker import as_corpus, some_report

from gedbd.api.report_index import Index
from gedbd.corpora.bug_report import Report
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.triage.storage import postgres_connections
from gedbd.triage.storage.postgres_connections import ServerConnections
from gedbd.triage.storage.postgres_store import PostgresStore

pytestmark = pytest.mark.integration


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("mysql://u@h/d", "must be the address of a PostgreSQL database, such as postgresql://"),
        ("postgresql://u:hidden@h:port:1/d", "u@h:port:1/d: .*: start the server, or correct the address$"),
        ("postgresql://u:hidden@h/d?nonsense=1", "is not an address that PostgreSQL can read"),
        (
            "postgresql://u:hidden@127.0.0.1:1/d",
            "u@127.0.0.1:1/d: .*refused: start the server, or correct the address$",
        ),
    ],
)
def test_an_address_without_a_server(address, message):
    with pytest.raises(ValueError, match=message) as caught:
        PostgresStore(address)
    assert "hidden" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_psycopg_is_missing(monkeypatch):
    monkeypatch.setattr(postgres_connections, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'gedbd\[postgres\]'"):
        PostgresStore("postgresql://h/d")


def test_a_wrong_password_and_missing_rights(server, url):
    name = url.rpartition("/")[2]
    server.run("DROP ROLE IF EXISTS secured")
    server.run("CREATE ROLE secured LOGIN PASSWORD 'right'")
    for password in ("hidden", ""):
        with pytest.raises(ValueError, match=r"password.*: correct the user, and set PGPASSWORD") as caught:
            PostgresStore(server.address(name, f"secured:{password}" if password else "secured"))
        assert "hidden" not in str(caught.value)
    with pytest.raises(ValueError, match="let the owner of the database run CREATE EXTENSION vector"):
        PostgresStore(server.address(name, "secured:right"))


def test_no_database_no_extension_and_no_index(server, url):
    with pytest.raises(ValueError, match=r"nonesuch.*does not exist"):
        PostgresStore(server.address("nonesuch"))
    with pytest.raises(ValueError, match=r"holds no index: build one with gedbd index store="):
        PostgresStore(url, create=False)
    missing = psycopg.errors.FeatureNotSupported('extension "vector" is not available')
    assert "install pgvector on the server" in str(ServerConnections(url)._unavailable(missing))


def test_another_format(server, url, reader):
    fill_store(url, as_corpus([some_report(0)]), reader)
    server.run("UPDATE gedbd.totals SET format = 99", url.rpartition("/")[2])
    with pytest.raises(ValueError, match="has format 99, this version reads 1: run DROP SCHEMA gedbd CASCADE"):
        PostgresStore(url)


def test_a_lock_of_another_process(url, reader):
    fill_store(url, as_corpus([some_report(0)]), reader)
    with (
        closing(PostgresStore(url)) as first,
        closing(PostgresStore(url, timeout_s=0.05)) as second,
        first.transaction(),
        pytest.raises(StoreUnavailable, match="try again in a moment"),
    ):
        second.transaction().__enter__()


def test_connections_that_the_server_has_closed_are_made_again(server, url, reader):
    fill_store(url, as_corpus([some_report(0)]), reader)
    index = open_store(url, reader)
    server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gedbd'")
    assert len(index.search(Report("crash"))) == 1
    assert len(index) == 1
    index.close()


def test_commands(tmp_path, url):
    with commands_in(tmp_path) as run:
        options = ("dataset=demo", "encoder=tiny", "backend=torch", f"store={url}")
        assert f"{url}: 425 added" in run("index", *options)
        assert "425 unchanged" in run("index", *options)
        found = json.loads(run("search", f"store={url}", "crash", "top_k=1", "json=true"))["matches"][0]
        assert "1 forgotten" in run("index", f"store={url}", f"forget={found['best']['issue_id']}")
        for words, message in (
            (("index", *options, "out=folder"), "out=, store=: an index is in a folder or on a server"),
            (("search", "index=folder", f"store={url}", "x"), "index=, store=: an index is in a folder or on a server"),
            (("index", f"store={url}", "forget=nonesuch"), "forget=nonesuch: not in postgresql://"),
            (("search", "store='postgresql://u:hidden@h/d?x", "y"), r"u:\*\*\*@h"),
        ):
            with pytest.raises(SystemExit, match=message):
                run(*words)


@pytest.mark.slow
def test_python(url):
    corpus = as_corpus([some_report(number) for number in range(20)])
    with Index.build(corpus, url, "tiny") as index:
        assert index.changes.added == 20
        assert f"20 reports in {url}" in repr(index)
    with Index.open(url) as index:
        assert index.search(some_report(3, issue_id=""), 1)[0].best.issue_id == "3"
        assert index.remove(["3"]) == 1
