"""The files beside an index are damaged, locked, replaced or links of others: one line says which, and what to do."""

import logging
import os
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import optuna
import pytest
from fastapi.testclient import TestClient
from refusals import call, refuses
from small_github import REPOSITORY
from small_index import SmallIndex
from webhook_events import SECRET, issue, signed

import gedbd.commands.serve
from gedbd.corpora.bug_report import Report
from gedbd.corpora.clients.github_client import open_comments
from gedbd.corpora.feedback import FEEDBACK_FILE, FeedbackEvent, FeedbackStore, feedback_table
from gedbd.encoders.caches import cached_vectors
from gedbd.encoders.captioning import TABLE as CAPTIONS
from gedbd.experiments.wandb_workspace import write_sweep
from gedbd.io import sqlite_file
from gedbd.io.files import replacing, write_text
from gedbd.io.sqlite_file import CacheFile, StoreUnavailable
from gedbd.service.app import create_app
from gedbd.service.event_table import WEBHOOK_FILE, EventTable
from gedbd.service.webhook import Webhook
from gedbd.triage.storage.index_store import IndexStore
from hydra_plugins.gedbd.optuna_sweeper import check_study

STRANGER = 65534
VERDICT = {"report": {"title": "x"}, "candidate": "12", "verdict": "accept"}
BOTH = pytest.mark.parametrize("name", [FEEDBACK_FILE, WEBHOOK_FILE])


def overwrite_pages(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + random.Random(0).randbytes(len(whole) - 4096))


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_other_tables(path: Path) -> None:
    path.unlink()
    with closing(sqlite3.connect(path)) as file:
        file.executescript("CREATE TABLE events (x); CREATE TABLE comments (y); CREATE TABLE latest (z);")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 4096 * 4096]),
    "cut within a page": lambda path: path.write_bytes(path.read_bytes()[:5000]),
    "pages": overwrite_pages,
    "header": lambda path: path.write_bytes(b"x" * 100 + path.read_bytes()[100:]),
    "a text": lambda path: path.write_text("a,b\n" * 300),
    "a folder": make_folder,
    "other tables": make_other_tables,
}


def verdict(word: str = "accept", issue_id: str = "7", title: str = "Mail is lost") -> FeedbackEvent:
    return FeedbackEvent(Report(title, "", issue_id), "12", word, "web")


def webhook(folder: Path) -> Webhook:
    return Webhook(SmallIndex(folder), REPOSITORY, None, SECRET)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index folder with both files, some pages long; only read."""
    folder = tmp_path_factory.mktemp("whole")
    hook = webhook(folder)
    for number in range(100):
        hook.feedback.record(verdict("accept", str(number + 100), "x" * 500))
    for number in range(30):
        hook.accept("issues", f"d{number}", issue(number + 1, body="x" * 500))
    hook.close()
    return folder


@pytest.fixture
def filled(whole: Path, tmp_path: Path) -> Path:
    """Such a folder, to damage."""
    return Path(shutil.copytree(whole, tmp_path / "index"))


@pytest.fixture
def hook(filled: Path) -> Webhook:
    return webhook(filled)


@pytest.fixture
def client(hook: Webhook) -> Iterator[TestClient]:
    with TestClient(create_app(hook.index, webhook=hook), base_url="http://localhost") as client:
        yield client


@BOTH
@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_told_in_one_line(filled: Path, name: str, damage: str) -> None:
    DAMAGE[damage](filled / name)
    with refuses(f"^{filled / name} .*(restore it from a backup, or move it|check the permissions)"):
        webhook(filled)
    if name == FEEDBACK_FILE:  # which is trained on, too
        with refuses(FEEDBACK_FILE):
            feedback_table(filled / name)


@pytest.mark.integration
def test_serving_with_a_damaged_file_ends_with_one_line(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gedbd.service.server.listen", lambda app, host, port: None)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    DAMAGE["cut"](filled / WEBHOOK_FILE)
    options = [f"index={filled}", "opened._target_=small_index.open_small", f"webhook.repository={REPOSITORY}"]
    with refuses(f"^error: {filled / WEBHOOK_FILE} .*restore it from a backup, or move it", SystemExit):
        call(gedbd.commands.serve, *options)


def test_an_empty_file_is_filled_but_not_trained_on(filled: Path) -> None:
    for name in (FEEDBACK_FILE, WEBHOOK_FILE):
        (filled / name).write_bytes(b"")
    with refuses(FEEDBACK_FILE):
        feedback_table(filled / FEEDBACK_FILE)
    webhook(filled).close()


@BOTH
def test_a_file_that_somebody_locks_is_named(filled: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "LOCK_TIMEOUT_S", 0.05)
    with closing(sqlite3.connect(filled / name, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode=EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        with refuses(rf"{name} is locked by another process"):
            webhook(filled)


def test_damage_while_serving_is_answered_with_503(
    hook: Webhook, client: TestClient, caplog: pytest.LogCaptureFixture
) -> None:
    hook.table.query("PRAGMA wal_checkpoint(TRUNCATE)")
    hook.table.query("PRAGMA cache_size=0")
    overwrite_pages(hook.index.folder / WEBHOOK_FILE)
    with caplog.at_level(logging.WARNING, "gedbd"):
        answer = client.post("/webhooks/github", **signed(issue(1000), "issues", "new"))
    assert answer.status_code == 503
    assert f"{WEBHOOK_FILE} is damaged" in answer.json()["detail"]
    assert client.post("/api/search", json={"title": "attachment"}).status_code == 200
    assert "Traceback" not in caplog.text


def test_a_folder_that_was_replaced_takes_neither_verdicts_nor_deliveries(whole, filled, client) -> None:
    for name in (FEEDBACK_FILE, WEBHOOK_FILE):
        (filled / name).rename(filled / f"old {name}")
        shutil.copyfile(whole / name, filled / name)
    for name, answer in (
        (FEEDBACK_FILE, client.post("/api/feedback", json=VERDICT)),
        (WEBHOOK_FILE, client.post("/webhooks/github", **signed(issue(1000), "issues", "new"))),
    ):
        assert answer.status_code == 503
        assert f"{name} was replaced or deleted" in answer.json()["detail"]
        (filled / f"old {name}").rename(filled / name)
    assert client.post("/api/feedback", json=VERDICT).status_code == 200


def test_a_large_file_is_not_checked_as_a_whole(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overwrite_pages(filled / FEEDBACK_FILE)
    monkeypatch.setattr(sqlite_file, "MAX_CHECKED_BYTES", 100)
    with closing(FeedbackStore(filled)) as feedback, refuses("restore it from a backup", StoreUnavailable):
        feedback.record(verdict())


def test_a_verdict_takes_the_same_work_however_many_were_recorded_before(tmp_path: Path) -> None:
    statements: list[str] = []
    with closing(FeedbackStore(tmp_path)) as feedback:
        feedback._sqlite.set_trace_callback(statements.append)
        for event in (verdict("accept"), verdict("reject"), verdict("accept", "8")):
            feedback.record(event)
        feedback.withdraw("7", "12", "api")
        feedback._sqlite.set_trace_callback(None)
        asked = [one for one in statements if one.startswith(("SELECT", "UPDATE", "DELETE", "INSERT"))]
        plans = [str(row[3]) for one in asked for row in feedback.query(f"EXPLAIN QUERY PLAN {one}")]
    assert plans
    assert not [plan for plan in plans if "SCAN" in plan or "TEMP" in plan]
    assert all("events_of_pair" in plan for plan in plans)


def zeros(texts):
    yield np.arange(len(texts)), np.zeros((len(texts), 2), dtype=np.float32)


def store_index(path: Path) -> None:
    with closing(IndexStore(path)) as store, store.transaction():
        pass


def make_feedback(path: Path) -> None:
    FeedbackStore(path.parent).close()


def make_study(path: Path) -> None:
    optuna.create_study(storage=f"sqlite:///{path}")


# Each database, with one of its tables, what makes it, and what opens it.
DATABASES: dict[str, tuple[str, str, Callable[[Path], object], Callable[[Path], object]]] = {
    "index": ("index.sqlite", "reports", store_index, store_index),
    "feedback": (FEEDBACK_FILE, "events", make_feedback, make_feedback),
    "feedback to train on": (FEEDBACK_FILE, "events", make_feedback, feedback_table),
    "webhook": (WEBHOOK_FILE, "events", EventTable, EventTable),
    "comments": ("notes.sqlite", "note", open_comments, open_comments),
    "cache": ("captions.sqlite", "captions", *[lambda path: CacheFile(path, CAPTIONS)] * 2),
    "study": ("study.db", "trials", make_study, check_study),
}
TRIGGER = "CREATE TRIGGER {0}_lost AFTER INSERT ON {0} BEGIN DELETE FROM {0}; END;"
EDIT = (  # puts text behind the first bracket
    "PRAGMA writable_schema=ON; UPDATE sqlite_master SET sql = substr(sql, 1, instr(sql, '(')) || '{1}'"
    " || substr(sql, instr(sql, '(') + 1) WHERE name = '{0}'"
)
PLANTED = {
    "a trigger": TRIGGER,
    "a view": "CREATE VIEW more AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n",
    "a table": "CREATE TABLE more (x)",
    "an index": "CREATE INDEX more ON {0} (hex(zeroblob(1000000)))",
    "a generated column": EDIT.format("{0}", "x AS (hex(zeroblob(1000000))), "),
    "a constraint": EDIT.format("{0}", "x CHECK (false), "),
    "a constraint between texts": EDIT.format("{0}", "x DEFAULT ''/*'' CHECK (false) CHECK (''*/''), "),
}


@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("planted", PLANTED)
@pytest.mark.parametrize("name", DATABASES)
def test_what_a_stranger_defines_in_a_database_does_not_run(tmp_path: Path, name: str, planted: str) -> None:
    file_name, table, make, use = DATABASES[name]
    make(tmp_path / file_name)
    use(tmp_path / file_name)
    with closing(sqlite3.connect(tmp_path / file_name)) as stranger:
        stranger.executescript(EDIT.format(table, "  \n-- a comment\n"))
    use(tmp_path / file_name)  # comments and spaces of an older version
    with closing(sqlite3.connect(tmp_path / file_name)) as stranger:
        stranger.executescript(PLANTED[planted].format(table))
    if name == "study" and planted not in ("a trigger", "a view"):
        return use(tmp_path / file_name)  # other versions of Optuna have other tables
    with refuses(rf"{file_name}\b.*(did not make|not as gedbd makes it)", Exception):
        use(tmp_path / file_name)


def test_a_cache_with_a_trigger_is_made_again(tmp_path: Path) -> None:
    file = tmp_path / "cache.sqlite"
    cached_vectors(file, 2, ["a"], zeros)
    with closing(sqlite3.connect(file)) as stranger:
        stranger.executescript(TRIGGER.format("vectors"))
    with pytest.warns(UserWarning, match="trigger 'vectors_lost', which gedbd did not make.: it is deleted"):
        assert cached_vectors(file, 2, ["a"], zeros).tolist() == [[0, 0]]


WRITERS: dict[str, Callable[[Path], object]] = {
    "results.json": lambda path: write_text(path, "{}"),
    "index.sqlite": lambda path: IndexStore(path).close(),
    FEEDBACK_FILE: lambda path: FeedbackStore(path.parent).close(),
    "sweep.yaml": lambda path: write_sweep("mine", path),
    "cache.sqlite": lambda path: cached_vectors(path, 2, ["a"], zeros),
}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make links of other users")
@pytest.mark.parametrize("name", WRITERS)
def test_a_link_of_another_user_in_a_shared_folder_is_not_followed(tmp_path: Path, name: str) -> None:
    victim, shared = tmp_path / "victim", tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    victim.touch()
    link = shared / name
    link.symlink_to(victim)
    os.lchown(link, STRANGER, STRANGER)
    with refuses(f"{name} is a symbolic link of another user: delete it"):
        WRITERS[name](link)
    assert victim.read_bytes() == b""
    os.lchown(link, os.geteuid(), os.getegid())
    WRITERS[name](link)
    assert link.is_symlink()
    assert victim.stat().st_size


@pytest.mark.parametrize("planted", [Path.symlink_to, Path.hardlink_to])
def test_a_temporary_file_is_a_new_one(tmp_path: Path, planted: Callable[[Path, Path], None]) -> None:
    """Its name can be guessed: it holds the name of the file, that of the machine and the number of the process."""
    victim, file = tmp_path / "victim", tmp_path / "a.csv"
    victim.write_text("kept")
    with replacing(file) as unfinished:
        unfinished.write_text("a")
    planted(unfinished, victim)
    write_text(file, "b")
    assert (victim.read_text(), file.read_text()) == ("kept", "b")
    assert not file.is_symlink()
    assert file.stat().st_nlink == 1
