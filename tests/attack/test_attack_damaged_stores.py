"""The files beside an index are cut off, overwritten, locked or read-only: one line says which, and what to do."""

import logging
import os
import random
import shutil
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from small_hub import REPOSITORY, SECRET, issue, signed
from small_index import SmallIndex

import gedbd.commands.serve
from gedbd.io import sqlite_file
from gedbd.io.sqlite_file import StoreUnavailable
from gedbd.sampling.feedback_labels import FEEDBACK_FILE, feedback_table
from gedbd.service.app import create_app
from gedbd.service.webhook.receiver import Webhook
from gedbd.triage.bug_report import Report
from gedbd.triage.feedback import FeedbackEvent, FeedbackStore

WEBHOOK_FILE = "webhook.sqlite"
Damage = Callable[[Path], object]
BOTH = pytest.mark.parametrize("name", [FEEDBACK_FILE, WEBHOOK_FILE])


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 // 4096 * 4096])


def cut_within_a_page(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def overwrite_pages(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + random.Random(0).randbytes(len(whole) - 4096))


def overwrite_header(path: Path) -> None:
    path.write_bytes(b"x" * 100 + path.read_bytes()[100:])


def make_text(path: Path) -> None:
    path.write_text("a,b\n" * 300)


def make_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def make_other_tables(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as file:
        file.executescript("CREATE TABLE events (x); CREATE TABLE comments (y); CREATE TABLE latest (z);")
    file.close()


DAMAGE = [cut, cut_within_a_page, overwrite_pages, overwrite_header, make_text, make_folder, make_other_tables]
QUICK = (cut, make_folder)  # one that is damage, one that is none
SOME_SLOW = [one if one in QUICK else pytest.param(one, marks=pytest.mark.slow) for one in DAMAGE]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index folder with both files, some pages long; only read."""
    folder = tmp_path_factory.mktemp("whole")
    hook = Webhook(SmallIndex(folder), REPOSITORY, None, SECRET)
    for number in range(100):
        hook.feedback.record(FeedbackEvent(Report("x" * 500, "", str(number + 100)), "12", "accept", "api"))
    for number in range(30):
        hook.accept("issues", f"d{number}", issue(number + 1, body="x" * 500))
    hook.close()
    return folder


@pytest.fixture
def filled(whole: Path, tmp_path: Path) -> Path:
    """Such a folder, to damage."""
    shutil.copytree(whole, tmp_path, dirs_exist_ok=True)
    return tmp_path


@pytest.fixture
def serve(filled: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    monkeypatch.setattr("gedbd.service.server.listen", lambda app, host, port: None)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    options = [f"index={filled}", "opened._target_=small_index.open_small", f"webhook.repository={REPOSITORY}"]
    monkeypatch.setattr(sys, "argv", ["gedbd", *options])
    return gedbd.commands.serve.main


@BOTH
@pytest.mark.parametrize("damage", SOME_SLOW)
def test_serving_ends_with_one_line(filled: Path, serve: Callable[[], None], damage: Damage, name: str) -> None:
    damage(filled / name)
    with pytest.raises(SystemExit) as caught:
        serve()
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(f"error: {filled / name} ")
    assert "restore it from a backup, or move it" in line or "check the permissions" in line


@pytest.mark.parametrize("damage", [*DAMAGE, lambda path: path.write_bytes(b"")])
def test_training_on_it_ends_with_one_line(filled: Path, damage: Damage) -> None:
    path = filled / FEEDBACK_FILE
    damage(path)
    with pytest.raises(ValueError, match=FEEDBACK_FILE) as caught:
        feedback_table(path)
    assert "\n" not in str(caught.value)


@BOTH
def test_an_empty_file_is_filled(filled: Path, name: str) -> None:
    (filled / name).write_bytes(b"")
    Webhook(SmallIndex(filled), REPOSITORY, None, SECRET).close()


@BOTH
def test_a_file_that_somebody_locks_is_named(filled: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_file, "LOCK_TIMEOUT_S", 0.05)
    other = sqlite3.connect(filled / name, isolation_level=None)
    other.execute("PRAGMA locking_mode=EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(ValueError, match=rf"{name} is locked by another process"):
        Webhook(SmallIndex(filled), REPOSITORY, None, SECRET)
    other.close()


@BOTH
@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
def test_a_file_that_is_read_only_is_named(filled: Path, name: str) -> None:
    (filled / name).chmod(0o444)
    with pytest.raises(ValueError, match=rf"{name} cannot be changed"):
        Webhook(SmallIndex(filled), REPOSITORY, None, SECRET)


def test_damage_while_serving_is_answered_with_503(filled: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = SmallIndex(filled)
    hook = Webhook(index, REPOSITORY, None, SECRET)
    with TestClient(create_app(index, webhook=hook), base_url="http://localhost") as client:
        hook.file.query("PRAGMA wal_checkpoint(TRUNCATE)")
        hook.file.query("PRAGMA cache_size=0")
        overwrite_pages(filled / WEBHOOK_FILE)
        with caplog.at_level(logging.WARNING, "gedbd"):
            answer = client.post("/webhooks/github", **signed(issue(1000), "issues", "new"))
        assert answer.status_code == 503
        assert f"{WEBHOOK_FILE} is damaged" in answer.json()["detail"]
        assert client.post("/api/search", json={"title": "attachment"}).status_code == 200
    assert "Traceback" not in caplog.text


def test_a_folder_that_was_replaced_takes_neither_verdicts_nor_deliveries(filled: Path, tmp_path: Path) -> None:
    index = SmallIndex(filled)
    hook = Webhook(index, REPOSITORY, None, SECRET)
    feedback_body = {"report": {"title": "x"}, "candidate": "12", "verdict": "accept"}
    with TestClient(create_app(index, webhook=hook), base_url="http://localhost") as client:
        shutil.copytree(filled, tmp_path / "copy", ignore=shutil.ignore_patterns("*-wal", "*-shm", "copy"))
        for name in (FEEDBACK_FILE, WEBHOOK_FILE):
            (filled / name).rename(filled / f"old {name}")
        for name in (FEEDBACK_FILE, WEBHOOK_FILE):
            (tmp_path / "copy" / name).rename(filled / name)
        answer = client.post("/api/feedback", json=feedback_body)
        delivered = client.post("/webhooks/github", **signed(issue(1000), "issues", "new"))
        assert (answer.status_code, delivered.status_code) == (503, 503)
        assert f"{FEEDBACK_FILE} was replaced or deleted" in answer.json()["detail"]
        assert f"{WEBHOOK_FILE} was replaced or deleted" in delivered.json()["detail"]
        for name in (FEEDBACK_FILE, WEBHOOK_FILE):
            (filled / f"old {name}").rename(filled / name)
        assert client.post("/api/feedback", json=feedback_body).status_code == 200


def test_a_large_file_is_not_checked_as_a_whole(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overwrite_pages(filled / FEEDBACK_FILE)
    monkeypatch.setattr(sqlite_file, "MAX_CHECKED_BYTES", 100)
    feedback = FeedbackStore(filled)
    with pytest.raises(StoreUnavailable, match="restore it from a backup"):
        feedback.record(FeedbackEvent(Report("x"), "12", "accept", "api"))
    feedback.close()


def test_a_locked_feedback_file_is_unavailable_and_not_wrong(tmp_path: Path) -> None:
    feedback = FeedbackStore(tmp_path)
    feedback.file.query("PRAGMA busy_timeout=10")
    other = sqlite3.connect(tmp_path / FEEDBACK_FILE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    verdict = FeedbackEvent(Report("x"), "12", "accept", "api")
    with pytest.raises(StoreUnavailable, match=r"feedback.sqlite is locked by another process"):
        feedback.record(verdict)
    other.execute("ROLLBACK")
    assert feedback.record(verdict)
    other.close()
    feedback.close()
