"""Other users of the machine cannot read what the commands write, whatever the umask of the user."""

import json
import os
import sys
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from fixed_server import running_server
from small_hub import REPOSITORY, SECRET, issue, signed, worked

import gedbd.commands.fetch
import gedbd.commands.index
import gedbd.commands.serve
import gedbd.train
from gedbd.triage.feedback import FeedbackStore

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such modes")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder to run commands in, for a user whose files others may read."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    former = os.umask(0o022)
    yield tmp_path
    assert os.umask(former) == 0o022  # a command gives it back


def run(monkeypatch, command, *options):
    monkeypatch.setattr(sys, "argv", ["gedbd", *options])
    command.main()


def readable(folder: Path) -> dict[str, str]:
    """The files and folders in a folder that others can read, with their modes."""
    modes = {path: path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    assert modes
    return {str(path.relative_to(folder)): oct(mode) for path, mode in modes.items() if mode & 0o077}


def test_what_an_index_and_a_service_leave(home, monkeypatch):
    run(monkeypatch, gedbd.commands.index, "dataset=demo", "encoder=tiny", "out=deep/index")
    left = []

    def listen(app, host, port, limits):
        webhook = app.state.service.webhook
        with TestClient(app, base_url="http://localhost") as client:
            report = {"title": "Crash", "issue_id": "70"}
            assert client.post("/webhooks/github", **signed(issue(), "issues")).status_code == 202
            worked(webhook)
            given = {"report": report, "candidate": "1058", "verdict": "accept", "source": "api"}
            assert client.post("/api/feedback", json=given).status_code == 200
            left.extend(path.name for path in Path("deep/index").iterdir())
            assert readable(home) == {}

    monkeypatch.setattr("gedbd.service.server.listen", listen)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    run(monkeypatch, gedbd.commands.serve, "index=deep/index", f"webhook.repository={REPOSITORY}")
    databases = ("index", "feedback", "webhook")
    assert {f"{name}.sqlite{end}" for name in databases for end in ("", "-wal", "-shm")} <= set(left)
    assert any(path.name.endswith(".sqlite") for path in (home / "cache").iterdir())
    assert readable(home) == {}


def test_what_is_fetched(home, monkeypatch):
    with running_server() as server:
        server.body = json.dumps([issue(3)["issue"] | {"updated_at": "2024-06-01T08:00:00Z"}]).encode()
        options = ["tracker=github", "project=ann/mail", f"tracker.base_url=http://{server.host}", "out=fetched"]
        run(monkeypatch, gedbd.commands.fetch, *options, "tracker.comments=false")
    assert list((home / "fetched").rglob("000001.json"))
    assert readable(home) == {}


def test_what_a_training_run_leaves(home, monkeypatch):
    tiny = ["encoder=tiny", "trainer.accelerator=cpu", "trainer.enable_progress_bar=false", "trainer.max_epochs=1"]
    run(monkeypatch, gedbd.train, "dataset=demo", *tiny)
    assert list((home / "outputs").rglob("best.ckpt"))
    assert readable(home) == {}


def test_modes_that_a_user_has_set_stay_and_programs_leave_private_databases(home):
    folder = home / "index"
    folder.mkdir()
    FeedbackStore(folder).close()
    assert {path.name: oct(path.stat().st_mode & 0o777) for path in folder.iterdir()} == {"feedback.sqlite": "0o600"}
    (folder / "feedback.sqlite").chmod(0o640)
    feedback = FeedbackStore(folder)
    assert readable(folder) == dict.fromkeys(("feedback.sqlite", "feedback.sqlite-wal", "feedback.sqlite-shm"), "0o640")
    feedback.close()
