"""Sweeps that go on: after a failing job, after a kill, with the same command."""

import json
import os
import random
import signal
import time
from pathlib import Path

import pandas as pd
import pytest
from fake_jobs import states
from omegaconf import OmegaConf

from gedbd.experiments.sweep_jobs import (
    FINISHED,
    INTERRUPTED,
    read_jobs,
)

TINY = ["encoder=tiny", "trainer.accelerator=cpu", "batch_size=32"]
KILLS = 5


@pytest.mark.slow
def test_two_processes_in_every_job_with_the_default_folder(start, tmp_path):
    ddp = ["trainer=ddp", "trainer.devices=2", "trainer.max_epochs=1", "+trainer.limit_train_batches=2"]
    process = start("-m", *TINY, *ddp, "fusion.lambda_text=0.3,0.7", "ranking.parts=[test]")
    told = process.communicate(timeout=600)[0]
    assert process.returncode == 0, told
    (folder,) = (tmp_path / "outputs" / "sweeps").iterdir()
    assert list((tmp_path / "outputs").iterdir()) == [folder.parent]
    assert states(folder) == [FINISHED] * 2
    for job in ("0", "1"):
        assert {"metrics.csv", "results.csv", "predictions.parquet"} <= set(os.listdir(folder / job))
    assert len(pd.read_csv(folder / "summary.csv")) == 2
    assert len([line for line in told.splitlines() if line.startswith("[")]) == 2
    assert "example pairs" not in told
    assert "example pairs" in (folder / "0" / "log.txt").read_text()
    assert "fusion.lambda_text=0.3,0.7" in OmegaConf.load(folder / "multirun.yaml").hydra.overrides.task


@pytest.mark.slow
def test_ctrl_c_ends_a_sweep_whose_jobs_have_processes_of_their_own(start, tmp_path):
    ddp = ["trainer=ddp", "trainer.devices=2", "trainer.max_epochs=200", "ranking.parts=[]", "graph=none"]
    process = start("-m", *TINY, *ddp, "seed=1,2", "hydra.sweep.dir=sweep")
    while process.poll() is None and not (tmp_path / "sweep" / "0" / "checkpoints" / "last.ckpt").exists():
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    told = process.communicate(timeout=300)[0]
    assert process.returncode == 130, told
    assert "Traceback" not in told
    assert told.splitlines()[-1].endswith(f"hydra.sweep.dir={tmp_path / 'sweep'} continues the sweep")
    assert states(tmp_path / "sweep") == [INTERRUPTED]


@pytest.mark.slow
def test_a_search_prunes_and_goes_on_where_it_was_stopped(start, tmp_path):
    optuna = pytest.importorskip("optuna")
    search = [
        "hydra/sweeper=optuna",
        "hydra.sweeper.pruner.n_startup_trials=1",
        "hydra.sweeper.pruner.n_warmup_steps=0",
    ]
    rest = ["trainer.max_epochs=3", "ranking.parts=[]", "graph=none", "+trainer.limit_train_batches=2"]
    space = ["optimizer.lr=tag(log,interval(1e-6,1e-2))", "fusion=text_only,weighted_sum"]

    options = ["-m", *search, *TINY, *rest, *space, "hydra.sweeper.n_trials=6", "hydra.sweep.dir=sweep"]
    folder = tmp_path / "sweep"
    told = start(*options).communicate(timeout=600)[0]
    assert "best of 6 trials" in told
    whole = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/study.db").trials
    folder.rename(folder.with_name("whole"))

    process = start(*options)
    while process.poll() is None and not (folder / "3" / "checkpoints" / "last.ckpt").exists():
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=300)
    assert states(folder)[3:] == [INTERRUPTED]
    start(*options).communicate(timeout=600)
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/study.db")
    for name in ("params", "state", "value"):
        assert [getattr(trial, name) for trial in study.trials] == [getattr(trial, name) for trial in whole]
    assert {trial.state.name for trial in study.trials} == {"COMPLETE", "PRUNED"}


@pytest.mark.slow
def test_a_sweep_killed_five_times_ends_as_an_uninterrupted_one(start, tmp_path):
    grid = ["fusion.lambda_text=0.3,0.5,0.7", "loss.margin=0.3,0.5"]
    options = ["-m", *TINY, "trainer.max_epochs=2", "ranking.parts=[test]", "+trainer.limit_train_batches=4", *grid]
    whole = start(*options, "hydra.sweep.dir=whole")
    told = whole.communicate(timeout=600)[0]
    assert whole.returncode == 0, told

    folder = tmp_path / "killed"
    moments = random.Random(13)
    finished: dict[Path, int] = {}
    for _ in range(KILLS):
        process = start(*options, "hydra.sweep.dir=killed")
        wanted = written(folder) + moments.randint(1, 40)
        while written(folder) < wanted:
            assert process.poll() is None, process.communicate()[0]
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        for job, status in read_jobs(folder).items():
            if status.state == FINISHED:
                finished.setdefault(job, (job / "results.csv").stat().st_mtime_ns)
    last = start(*options, "hydra.sweep.dir=killed")
    told = last.communicate(timeout=600)[0]
    assert last.returncode == 0, told

    assert states(folder) == [FINISHED] * 6
    assert finished
    for job, written_at in finished.items():
        assert (job / "results.csv").stat().st_mtime_ns == written_at
    times = ["train/seconds", "train/reports_per_second"]
    for number in range(6):
        jobs = [tmp_path / name / str(number) for name in ("whole", "killed")]
        epochs = [pd.read_csv(job / "metrics.csv").drop(columns=times) for job in jobs]
        pd.testing.assert_frame_equal(epochs[1], epochs[0])
        for table in ("results.csv", "ranking.csv", "examples.csv"):
            one, two = (pd.read_csv(job / table) for job in jobs)
            pd.testing.assert_frame_equal(two, one)
        one, two = (pd.read_parquet(job / "predictions.parquet") for job in jobs)
        pd.testing.assert_frame_equal(two, one)
        values = [json.loads((job / "status.json").read_text())["value"] for job in jobs]
        assert values[0] == values[1]
    tables = [pd.read_csv(tmp_path / name / "summary.csv") for name in ("whole", "killed")]
    pd.testing.assert_frame_equal(tables[1], tables[0])


def written(folder: Path) -> int:
    """How many files a sweep has written, by number and by change."""
    return sum(1 for path in folder.rglob("*") if path.is_file())
