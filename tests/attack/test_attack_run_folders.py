"""Runs that begin in one second, or in an hour that comes twice, get folders of their own."""

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest

import gedbd.commands.baseline
import gedbd.configuration.resolvers
from gedbd.configuration.resolvers import own_folders, run_dir, started, sweep_dir

ROOT = Path(gedbd.__file__).parents[1]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("SLURM_NTASKS", "TORCHELASTIC_RUN_ID"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stopped_clock(monkeypatch):
    """The clock stands still."""

    class Stopped(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime(2026, 10, 25, 0, 30, 5, tzinfo=UTC).astimezone(tz)

    monkeypatch.setattr(gedbd.configuration.resolvers, "datetime", Stopped)


def new_run() -> Path:
    """What one command does: it makes a folder and leaves a file there."""
    with own_folders():
        folder = Path(run_dir(None, "demo", None, "tiny"))
        assert Path(run_dir(None, "demo", None, "tiny")) == folder
        (folder / "config.yaml").touch()
    return folder


def test_runs_of_one_second_get_folders_of_their_own(stopped_clock):
    folders = [new_run() for _ in range(3)]
    assert [folder.name for folder in folders] == [f"2026-10-25_00-30-05Z{end}" for end in ("", "-2", "-3")]


def test_the_hour_that_comes_twice_does_not(monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        name = started()
    finally:
        monkeypatch.undo()
        time.tzset()
    assert abs((datetime.now(UTC) - datetime.strptime(f"{name}+0000", "%Y-%m-%d_%H-%M-%SZ%z")).total_seconds()) < 60


def test_of_processes_that_begin_together_each_makes_a_folder(tmp_path, stopped_clock):
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: gedbd.configuration.resolvers._create(tmp_path / "above", "name"), range(24)))
    assert len(set(made)) == 24


def test_a_sweep_gets_a_folder_of_its_own(stopped_clock):
    names = []
    for _ in range(2):
        with own_folders():
            names.append(sweep_dir())
            (Path(names[-1]) / "multirun.yaml").touch()
    assert names == ["outputs/sweeps/2026-10-25_00-30-05Z", "outputs/sweeps/2026-10-25_00-30-05Z-2"]


def test_a_folder_that_stays_empty_goes(stopped_clock):
    with own_folders():
        empty = Path(run_dir(None, "demo", None, "tiny"))
        assert empty.is_dir()
    assert not empty.exists()
    assert new_run() == empty


def test_outside_of_a_command_no_folder_is_made():
    assert not Path(run_dir(None, "demo", None, "tiny")).exists()
    assert run_dir("old/2026-01-01/checkpoints/last.ckpt", "demo", None, "tiny") == "old/2026-01-01"


def test_a_command_that_fails_leaves_the_folder_of_another_alone(stopped_clock, monkeypatch):
    first = new_run()
    monkeypatch.setattr(
        sys, "argv", ["gedbd", "name=constant", "dataset=csv", "dataset.path=none.csv", "dataset.name=demo"]
    )
    monkeypatch.setattr(gedbd.configuration.resolvers, "started", lambda: first.name)
    with pytest.raises(SystemExit):
        gedbd.commands.baseline.main()
    assert (first / "config.yaml").is_file()
    assert [path.name for path in Path("outputs").rglob("2026*")] == [first.name]


@pytest.mark.slow
@pytest.mark.no_cover
def test_commands_that_start_together_leave_a_run_each(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "from gedbd.configuration import run_folder\nrun_folder.started = lambda: '2026-10-25_00-30-05Z'\n"
    )
    environment = os.environ | {"PYTHONPATH": f"{tmp_path}:{ROOT}", "GEDBD_CACHE": str(tmp_path / "cache")}
    words = [["name=constant", "dataset=demo"], ["name=closure", "dataset=demo"], ["name=constant", "--config-dir=."]]
    command = [sys.executable, "-m", "gedbd.commands.baseline", "hydra.run.dir=${run_dir:null,demo,null,same}"]
    running = [
        subprocess.Popen([*command, *mine], env=environment, cwd=tmp_path, stdout=subprocess.DEVNULL) for mine in words
    ]
    assert [process.wait(timeout=300) for process in running] == [0, 0, 0]
    runs = sorted(path.name for path in (tmp_path / "outputs" / "demo" / "same").iterdir())
    assert runs == [f"2026-10-25_00-30-05Z{end}" for end in ("", "-2", "-3")]
