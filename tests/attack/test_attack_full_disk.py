"""On a full disk each command ends with one line, and what was whole before stays whole."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gedbd.commands.baseline
import gedbd.commands.encode
import gedbd.commands.evaluate
import gedbd.commands.export
import gedbd.train
from gedbd.corpora.clients.github_client import CommentStore
from gedbd.evaluation.run_folders import Run
from gedbd.io.checksums import check_whole
from gedbd.io.files import write_text

SMALL = [
    "encoder=tiny",
    "graph=none",
    "ranking.parts=[]",
    "trainer.accelerator=cpu",
    "trainer.enable_progress_bar=false",
    "+trainer.limit_train_batches=2",
]

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]


@pytest.fixture
def disk(tmp_path, monkeypatch):
    """A file system of its own, whose size can be set; caches and temporary files lie elsewhere."""
    folder = tmp_path / "disk"
    folder.mkdir()
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2900k", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.decode().strip()}")

    def resize(size: str) -> None:
        subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)

    yield folder, resize
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.fixture
def command(monkeypatch):
    """Runs a command in this process."""

    def run(main, *words):
        monkeypatch.setattr(sys, "argv", ["gedbd", *words])
        return main()

    return run


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


def test_a_training_keeps_its_last_checkpoint_and_goes_on_when_there_is_space(disk, command):
    folder, resize = disk
    run = folder / "run"
    with pytest.raises(SystemExit, match=r"^error: .*last.ckpt: no space left on device; free some space there"):
        command(gedbd.train.main, *SMALL, "trainer.max_epochs=3", f"hydra.run.dir={run}")
    last = run / "checkpoints" / "last.ckpt"
    check_whole(last)
    assert torch.load(last, weights_only=True)["epoch"] == 0
    assert parts(folder) == []
    resize("30m")
    command(gedbd.train.main, f"ckpt_path={last}", "trainer.max_epochs=3", "trainer.accelerator=cpu")
    assert len(Run(run).epochs) == 3


def test_other_commands_end_with_one_line_and_leave_what_was_there(disk, command, tmp_path):
    folder, resize = disk
    resize("30m")
    run = folder / "run"
    command(gedbd.train.main, *SMALL, "trainer.max_epochs=1", f"hydra.run.dir={run}")
    command(gedbd.commands.evaluate.main, f"run={run}")
    command(gedbd.commands.encode.main, f"run={run}", f"out={folder / 'vectors.npz'}")
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    fill(folder, left=8_000)
    full = r"^error: .*: no space left on device; free some space there"
    for main, words in (
        (gedbd.commands.evaluate.main, [f"run={run}"]),
        (gedbd.commands.encode.main, [f"run={run}", f"out={folder / 'vectors.npz'}"]),
        (gedbd.commands.export.main, [f"run={run}", "format=sentence_transformers", f"out={folder / 'model'}"]),
        (gedbd.commands.baseline.main, ["name=tfidf", "dataset=demo", f"hydra.run.dir={folder / 'other'}"]),
    ):
        with pytest.raises(SystemExit, match=full) as ended:
            command(main, *words)
        assert "\n" not in str(ended.value), main.__module__
        assert parts(folder) == [], main.__module__
        for path in before:
            if "evaluation" not in path.parts:
                assert path.read_bytes() == before[path], path
    assert not (folder / "model").exists()
    assert len(Run(run / "evaluation" / "test").results)


def test_a_full_cache_folder_is_named(disk, command, tmp_path):
    folder, _ = disk
    fill(folder, left=30_000)
    with pytest.raises(SystemExit, match=r"^error: .*cache.*(full|no space left on device|cannot be used)") as ended:
        command(
            gedbd.commands.encode.main,
            "dataset=demo",
            "encoder=tiny",
            f"out={tmp_path / 'v.npz'}",
            f"cache_dir={folder / 'cache'}",
        )
    assert "\n" not in str(ended.value)


def test_a_fetch_does_not_call_a_file_damaged_because_the_disk_is_full(disk):
    folder, resize = disk
    fill(folder, left=8_000)
    with pytest.raises(sqlite3.OperationalError, match="full"):
        CommentStore(folder / "notes.sqlite")
    resize("30m")
    CommentStore(folder / "notes.sqlite").close()


def test_a_read_only_folder_is_told_by_the_name_of_the_file(disk):
    folder, _ = disk
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
    with pytest.raises(OSError, match=r"Read-only file system: '.*/results.json'$"):
        write_text(folder / "results.json", "{}")
