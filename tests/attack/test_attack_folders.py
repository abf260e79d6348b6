"""Folders of commands: runs that begin together get their own, others cannot read them, strangers' are not trusted."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from refusals import call, refuses
from small_github import REPOSITORY
from webhook_events import SECRET, issue, signed, worked

import gedbd.commands.baseline
import gedbd.commands.fetch
import gedbd.commands.index
import gedbd.commands.serve
import gedbd.configuration.options
import gedbd.train
from gedbd import __main__ as cli
from gedbd.configuration.options import own_folders, run_dir, sweep_dir
from gedbd.corpora.feedback import FeedbackStore
from gedbd.io.locks import RUN_LOCK, sole_process
from gedbd.triage.storage.folder_store import compact_elsewhere

pytestmark = pytest.mark.slow

STARTED = "2026-10-25_00-30-05Z"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder to run commands in, for a user whose files others may read."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_NTASKS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)
    former = os.umask(0o022)
    yield tmp_path
    assert os.umask(former) == 0o022  # a command gives it back


@pytest.fixture
def stopped_clock(monkeypatch):
    """The clock stands still."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 10, 25, 0, 30, 5, tzinfo=UTC).astimezone(tz)

    monkeypatch.setattr(gedbd.configuration.options, "datetime", Stopped)


def new_run() -> Path:
    """What one command does: it makes a folder and leaves a file there."""
    with own_folders():
        folder = Path(run_dir(None, "demo", None, "tiny"))
        assert Path(run_dir(None, "demo", None, "tiny")) == folder
        (folder / "config.yaml").touch()
    return folder


def test_runs_and_sweeps_of_one_second_get_folders_of_their_own(stopped_clock):
    assert [new_run().name for _ in range(3)] == [f"{STARTED}{end}" for end in ("", "-2", "-3")]
    for end in ("", "-2"):
        with own_folders():
            assert sweep_dir() == f"outputs/sweeps/{STARTED}{end}"
            (Path(sweep_dir()) / "multirun.yaml").touch()


def test_of_processes_that_begin_together_each_makes_a_folder(tmp_path, stopped_clock):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: gedbd.configuration.options._create(tmp_path / "above", "name"), range(24)))
    assert len(set(made)) == 24


def test_a_folder_that_stays_empty_goes_and_outside_of_a_command_none_is_made(stopped_clock):
    with own_folders():
        empty = Path(run_dir(None, "demo", None, "tiny"))
        assert empty.is_dir()
    assert not empty.exists()
    assert not Path(run_dir(None, "demo", None, "tiny")).exists()
    assert new_run() == empty
    assert run_dir("old/2026-01-01/checkpoints/last.ckpt", "demo", None, "tiny") == "old/2026-01-01"


def test_a_command_that_fails_leaves_the_folder_of_another_alone(stopped_clock, monkeypatch):
    first = new_run()
    monkeypatch.setattr(gedbd.configuration.options, "started", lambda: first.name)
    with refuses("none.csv", SystemExit):
        call(gedbd.commands.baseline, "name=constant", "dataset=csv", "dataset.path=none.csv", "dataset.name=demo")
    assert (first / "config.yaml").is_file()
    assert [path.name for path in Path("outputs").rglob("2026*")] == [first.name]


def test_a_second_training_in_a_folder_is_refused(tmp_path):
    (tmp_path / "run").mkdir()
    in_use = f"run is in use by process {os.getpid()}"
    with sole_process(tmp_path / "run" / RUN_LOCK, "x"), refuses(in_use, SystemExit):
        call(gedbd.train, "encoder=tiny", "trainer.accelerator=cpu", "hydra.run.dir=run")


def readable(folder: Path) -> dict[str, str]:
    """The files and folders in a folder that others can read, with their modes."""
    modes = {path: path.stat().st_mode & 0o777 for path in folder.rglob("*")}
    assert modes
    return {str(path.relative_to(folder)): oct(mode) for path, mode in modes.items() if mode & 0o077}


def test_others_cannot_read_an_index_and_what_a_service_leaves(home, monkeypatch):
    left = []

    def listen(app, host, port, limits):
        with TestClient(app, base_url="http://localhost") as client:
            assert client.post("/webhooks/github", **signed(issue(), "issues")).status_code == 202
            worked(app.state.service.webhook)
            verdict = {"report": {"title": "Crash", "issue_id": "70"}, "candidate": "2661", "verdict": "accept"}
            assert client.post("/api/feedback", json=verdict).status_code == 200
            left.extend(path.name for path in Path("deep/index").iterdir())
            assert readable(home) == {}

    monkeypatch.setattr("gedbd.service.server.listen", listen)
    monkeypatch.setenv("GITHUB_WEBHOOK_SECRET", SECRET)
    call(gedbd.commands.index, "dataset=demo", "+dataset.last_n=60", "encoder=tiny", "out=deep/index")
    call(gedbd.commands.serve, "index=deep/index", f"webhook.repository={REPOSITORY}")
    databases = ("index", "feedback", "webhook")
    assert {f"{name}.sqlite{end}" for name in databases for end in ("", "-wal", "-shm")} <= set(left)
    assert any(path.name.endswith(".sqlite") for path in (home / "cache").iterdir())
    assert readable(home) == {}


def test_others_cannot_read_what_is_fetched(home, server):
    server.body = json.dumps([issue(3)["issue"] | {"updated_at": "2024-06-01T08:00:00Z"}]).encode()
    options = ["tracker=github", "project=ann/mail", f"tracker.base_url=http://{server.host}", "out=fetched"]
    call(gedbd.commands.fetch, *options, "tracker.comments=false")
    assert list((home / "fetched").rglob("000001.json"))
    assert readable(home) == {}


def test_others_cannot_read_what_a_training_run_leaves(home):
    call(gedbd.train, "dataset=demo", "+dataset.last_n=150", "encoder=tiny", "trainer=smoke")
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


@pytest.fixture
def trace(home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that modules in the current folder leave when they are imported."""
    for name in ("evil", "json", "gedbd", "numpy", "sqlite3", "sitecustomize", "hydra_plugins"):
        (home / f"{name}.py").write_text(f"open({str(home / 'trace')!r}, 'w')\n")
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # as if it were not set
    return home / "trace"


def test_processes_of_a_command_import_nothing_from_the_current_folder(trace, monkeypatch):
    def start(name: str, **_: object) -> None:
        for words in (["-m", "evil"], ["-c", "import evil"]):
            assert subprocess.run([sys.executable, *words], stderr=subprocess.DEVNULL, check=False).returncode == 1

    monkeypatch.setattr("gedbd.__main__.runpy.run_module", start)
    monkeypatch.setattr(sys, "argv", ["gedbd", "train"])
    cli.main()
    assert not trace.exists()


def test_the_process_that_compacts_an_index_imports_nothing_from_the_current_folder(trace):
    assert "index.sqlite" in compact_elsewhere(trace.parent / "index.sqlite")  # there is none
    assert not trace.exists()
