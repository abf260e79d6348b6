"""On a full disk each command ends with one line, and what was whole before stays whole."""

import sqlite3
import subprocess
from pathlib import Path

import pytest
import torch
from refusals import call, mounted_disk, refuses

import gedbd.commands.baseline
import gedbd.commands.encode
import gedbd.commands.evaluate
import gedbd.commands.export
import gedbd.train
from gedbd.corpora.clients.github_client import open_comments
from gedbd.experiments.run_folder import Run
from gedbd.io.checksums import check_whole

SMALL = ["encoder=tiny", "graph=none", "ranking.parts=[]", "trainer=smoke"]

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A file system of its own, whose size can be set; caches and temporary files lie elsewhere."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    with mounted_disk(tmp_path / "disk", "2900k") as folder:
        yield folder


def remount(folder: Path, option: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{option}", str(folder)], check=True)


def fill(folder: Path, left: int) -> None:
    """Leaves so many bytes free."""
    with (folder / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            file.truncate(max(0, file.tell() - left))


def parts(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if ".part" in path.name or ".new_" in path.name]


def test_a_training_keeps_its_last_checkpoint_and_goes_on_when_there_is_space(disk):
    run = disk / "run"
    with refuses(r"^error: .*last.ckpt: no space left on device; free some space there", SystemExit):
        call(gedbd.train, *SMALL, "trainer.max_epochs=3", f"hydra.run.dir={run}")
    last = run / "checkpoints" / "last.ckpt"
    check_whole(last)
    assert torch.load(last, weights_only=True)["epoch"] == 0
    assert parts(disk) == []
    remount(disk, "size=30m")
    call(gedbd.train, f"ckpt_path={last}", "trainer.max_epochs=3", "trainer.accelerator=cpu")
    assert len(Run(run).epochs) == 3


def test_other_commands_end_with_one_line_and_leave_what_was_there(disk, tmp_path):
    remount(disk, "size=30m")
    run = disk / "run"
    call(gedbd.train, *SMALL, "trainer.max_epochs=1", f"hydra.run.dir={run}")
    call(gedbd.commands.evaluate, f"run={run}")
    call(gedbd.commands.encode, f"run={run}", f"out={disk / 'vectors.npz'}")
    before = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    fill(disk, left=8_000)
    full = r"^error: .*: no space left on device; free some space there"
    for command, words in (
        (gedbd.commands.evaluate, [f"run={run}"]),
        (gedbd.commands.encode, [f"run={run}", f"out={disk / 'vectors.npz'}"]),
        (gedbd.commands.export, [f"run={run}", "format=sentence_transformers", f"out={disk / 'model'}"]),
        (gedbd.commands.baseline, ["name=tfidf", "dataset=demo", f"hydra.run.dir={disk / 'other'}"]),
    ):
        with refuses(full, SystemExit):
            call(command, *words)
        assert parts(disk) == [], command.__name__
        for path in before:
            if "evaluation" not in path.parts:
                assert path.read_bytes() == before[path], path
    assert not (disk / "model").exists()
    assert len(Run(run / "evaluation" / "test").results)


def test_a_full_cache_folder_is_named(disk, tmp_path):
    fill(disk, left=30_000)
    options = ["dataset=demo", "encoder=tiny", f"out={tmp_path / 'v.npz'}", f"cache_dir={disk / 'cache'}"]
    with refuses(r"^error: .*cache.*(full|no space left on device|cannot be used)", SystemExit):
        call(gedbd.commands.encode, *options)


def test_a_fetch_does_not_call_a_file_damaged_because_the_disk_is_full(disk):
    fill(disk, left=8_000)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        open_comments(disk / "notes.sqlite")
    remount(disk, "size=30m")
    open_comments(disk / "notes.sqlite").close()
