"""Trainings that are killed, ended, run twice at once, or lose one of their processes leave no wrong result."""

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
from gedbd.io.locks import RUN_LOCK, sole_process

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


def start(folder: Path, *options: str, program: str = "") -> subprocess.Popen[str]:
    """Starts a training in a folder."""
    folder.mkdir(exist_ok=True)
    code = ["-m", "gedbd.train"]
    if program:  # in a file: Lightning starts the other processes by it
        (folder / "program.py").write_text(program)
        code = ["program.py"]
    environment = os.environ | {
        "GEDBD_CACHE": str(folder.parent / "cache"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(gedbd.train.__file__).parents[1]),
    }
    command = [sys.executable, *code, *OPTIONS, *options]
    with (folder / "log.txt").open("a") as log:
        return subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log, text=True)


def finish(folder: Path, *options: str) -> None:
    """Runs a training to its end."""
    status = start(folder, *options).wait(timeout=300)
    assert status == 0, (folder / "log.txt").read_text()[-2000:]


def check_equal(folder: Path, expected: Path) -> None:
    """Compares all numbers of two runs, but durations."""
    for name in ("metrics.csv", "predictions.parquet", "queries.parquet"):
        read = pd.read_parquet if name.endswith(".parquet") else pd.read_csv
        found, wanted = (
            table[[column for column in table.columns if "second" not in column]]
            for table in (read(folder / "run" / name), read(expected / "run" / name))
        )
        pd.testing.assert_frame_equal(found, wanted, check_exact=True)
    states = [
        torch.load(one / "run" / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for one in (folder, expected)
    ]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[1])


@pytest.mark.slow
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


@pytest.mark.slow
def test_sigterm_ends_a_training_with_its_status_and_the_same_command_continues(tmp_path):
    finish(tmp_path / "whole")
    process = start(tmp_path / "ended")
    deadline = time.monotonic() + 120
    while not (tmp_path / "ended" / "run" / "checkpoints" / "last.ckpt").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=60) == 143
    told = (tmp_path / "ended" / "log.txt").read_text()
    assert "last.ckpt" in told
    assert "Traceback" not in told
    finish(tmp_path / "ended")
    check_equal(tmp_path / "ended", tmp_path / "whole")


def test_a_second_training_in_a_folder_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run").mkdir()
    monkeypatch.setattr(sys, "argv", ["gedbd", *OPTIONS])
    with (
        sole_process(tmp_path / "run" / RUN_LOCK, "x"),
        pytest.raises(SystemExit, match=f"run is in use by process {os.getpid()}"),
    ):
        gedbd.train.main()


@pytest.mark.slow
def test_a_process_that_dies_ends_the_others_and_the_run_continues(tmp_path):
    two = ("trainer=ddp", "trainer.devices=2", "encoder.dropout=0")
    finish(tmp_path / "whole", *two)
    process = start(tmp_path / "died", *two, program=FAILING_RANK)
    assert process.wait(timeout=120) not in (0, None)
    told = (tmp_path / "died" / "log.txt").read_text()
    assert "rank 1" in told
    finish(tmp_path / "died", *two)
    check_equal(tmp_path / "died", tmp_path / "whole")
