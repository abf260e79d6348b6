"""Trainings and other runs that are killed, ended or started together, or lose one of their processes, stay right."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest
import torch

import gedbd.train
from gedbd.encoders.encoder_weights import read_state
from gedbd.experiments.resuming import WholeCheckpointIO
from gedbd.io.checksums import CHECKSUMS, check_whole

ROOT = Path(gedbd.train.__file__).parents[1]
OPTIONS = [
    *("encoder=tiny", "graph=none", "pairs=grouped", "batch_size=64", "ranking.parts=[test]", "hydra.run.dir=run"),
    *("trainer.accelerator=cpu", "trainer.max_epochs=3", "trainer.enable_progress_bar=false"),
]
KILLS = 4
FAILING_RANK = """
import os, signal
import gedbd.train
from gedbd.experiments.callbacks import EpochTable
from pytorch_lightning.utilities import rank_zero_only

def die(self, trainer, system):
    if rank_zero_only.rank == 1 and trainer.current_epoch == 1:
        os.kill(os.getpid(), signal.SIGKILL)

EpochTable.on_train_epoch_start = die
gedbd.train.main()
"""
WRITER = """
import sys
import pytorch_lightning as pl
import torch
from gedbd.experiments.resuming import save_whole

trainer = pl.Trainer(accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False)
save_whole(trainer)
for value in range(1000):
    weights = {"state_dict": {"weight": torch.full((int(sys.argv[2]),), float(value))}}
    trainer.strategy.checkpoint_io.save_checkpoint(weights, sys.argv[1])
    print(value, flush=True)
"""

pytestmark = [pytest.mark.slow, pytest.mark.no_cover]


def start(folder: Path, *options: str, program: str = "") -> subprocess.Popen[str]:
    """Starts a training in a folder."""
    folder.mkdir(exist_ok=True)
    code = ["-m", "gedbd.train"]
    if program:  # in a file: Lightning starts the other processes by it
        (folder / "program.py").write_text(program)
        code = ["program.py"]
    own = {"GEDBD_CACHE": str(folder.parent / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, *code, *OPTIONS, *options]
    with (folder / "log.txt").open("a") as log:
        return subprocess.Popen(command, cwd=folder, env=os.environ | own, stdout=log, stderr=log, text=True)


def finish(folder: Path, *options: str) -> None:
    """Runs a training to its end."""
    status = start(folder, *options).wait(timeout=300)
    assert status == 0, (folder / "log.txt").read_text()[-2000:]


def check_equal(folder: Path, expected: Path) -> None:
    """Compares all numbers of two runs, but durations."""
    for name in ("metrics.csv", "predictions.parquet", "queries.parquet"):
        read = pd.read_parquet if name.endswith(".parquet") else pd.read_csv
        tables = [read(one / "run" / name) for one in (folder, expected)]
        kept = [table[[column for column in table.columns if "second" not in column]] for table in tables]
        pd.testing.assert_frame_equal(*kept, check_exact=True)
    states = [read_state(one / "run" / "checkpoints" / "last.ckpt") for one in (folder, expected)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])


def test_a_training_that_is_killed_again_and_again_ends_like_another(tmp_path):
    started = time.monotonic()
    finish(tmp_path / "whole")
    duration = time.monotonic() - started
    draw = random.Random(0)
    for _ in range(KILLS):
        process = start(tmp_path / "killed")
        try:
            process.wait(timeout=draw.uniform(0.5, 1.0) * duration)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    finish(tmp_path / "killed")
    check_equal(tmp_path / "killed", tmp_path / "whole")
    left = {path.name for path in (tmp_path / "killed" / "run").rglob("*") if path.name.endswith((".part", ".tmp"))}
    assert not left


def test_sigterm_ends_a_training_with_its_status_and_the_same_command_continues(tmp_path):
    finish(tmp_path / "whole")
    process = start(tmp_path / "ended")
    deadline = time.monotonic() + 120
    while not (tmp_path / "ended" / "run" / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    output = (tmp_path / "ended" / "log.txt").read_text()
    assert "last.ckpt" in output
    assert "Traceback" not in output
    finish(tmp_path / "ended")
    check_equal(tmp_path / "ended", tmp_path / "whole")


def test_a_process_that_dies_ends_the_others_and_the_run_continues(tmp_path):
    two = ("trainer=ddp", "trainer.devices=2", "encoder.dropout=0")
    finish(tmp_path / "whole", *two)
    process = start(tmp_path / "died", *two, program=FAILING_RANK)
    assert process.wait(timeout=120) not in (0, None)
    assert "rank 1" in (tmp_path / "died" / "log.txt").read_text()
    finish(tmp_path / "died", *two)
    check_equal(tmp_path / "died", tmp_path / "whole")


def other_disk() -> Path:
    """A folder on another file system than that of pytest's folders."""
    folder = Path("/dev/shm")
    if not folder.is_dir() or folder.stat().st_dev == Path("/tmp").stat().st_dev:
        pytest.skip("there is no second file system")
    return folder


def listing(folder: Path) -> list[tuple[str, int, int]]:
    found = []
    for file in os.scandir(folder):
        try:
            found.append((file.name, file.stat().st_size, file.stat().st_ino))
        except FileNotFoundError:
            continue
    return sorted(found)


@pytest.mark.parametrize("moment", range(3))
def test_a_writer_that_is_killed_leaves_the_checkpoint_before_or_the_new_one(tmp_path, moment):
    path = tmp_path / "checkpoints" / "last.ckpt"
    environment = os.environ | {"TMPDIR": str(other_disk()), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", WRITER, str(path), str(12 << 20)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as writer:
        for _ in range(2 + moment):
            last = int(writer.stdout.readline())
        # The name or the size of something in the folder changes: the next one is being written.
        before = listing(path.parent)
        deadline = time.monotonic() + 30
        while listing(path.parent) == before and time.monotonic() < deadline:
            pass
        writer.send_signal(signal.SIGKILL)
    check_whole(path)
    value = float(read_state(path)["weight"][0])
    assert value >= last
    assert value == read_state(path)["weight"].unique()
    WholeCheckpointIO().save_checkpoint({"state_dict": {"weight": torch.zeros(1)}}, path)
    assert sorted(file.name for file in path.parent.iterdir()) == [CHECKSUMS, "last.ckpt"]
