"""Sweeps that go on: after a failing job, after a kill, with the same command."""

import errno
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import hydra
import pandas as pd
import pytest
import pytorch_lightning as pl
import torch
from filelock import FileLock
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import gedbd.commands.baseline
import gedbd.train
from gedbd.experiments.callbacks import EpochPruning, ResumableEarlyStopping
from gedbd.experiments.checkpoint import readable_checkpoint
from gedbd.experiments.sweeps.job_status import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    RUNNING,
    read_jobs,
    read_status,
    write_status,
)
from gedbd.experiments.sweeps.jobs import Pruned, job_folder, resumable_job
from gedbd.experiments.sweeps.optuna_sweeper import distribution

ROOT = Path(gedbd.train.__file__).parents[1]
TINY = ["encoder=tiny", "trainer.accelerator=cpu", "batch_size=32"]
KILLS = 5


@pytest.fixture
def sweep(tmp_path, monkeypatch):
    """Runs a command as a sweep in this process, in the folder ``sweep``; gives that folder."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)

    def run(command, *options):
        monkeypatch.setattr(sys, "argv", ["gedbd", "-m", *options, "hydra.sweep.dir=sweep"])
        command()
        return tmp_path / "sweep"

    return run


@pytest.fixture
def start(tmp_path):
    """Starts a command as a user does, with processes of its own."""
    shared = {"GEDBD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    def begin(*options, module="gedbd.train"):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": tmp_path}
        command = [sys.executable, "-m", module, *options]
        return subprocess.Popen(command, env=os.environ | shared, start_new_session=True, **pipes)

    return begin


@pytest.fixture
def fake_command(tmp_path):
    """Makes a command whose job gives, or raises, what a function has for its seed; and the seeds of jobs that ran."""
    hydra_section = OmegaConf.create({"hydra": OmegaConf.load(ROOT / "conf" / "baseline.yaml").hydra})
    del hydra_section.hydra.run
    quiet = {"defaults": ["_self_", *({f"override hydra/{name}_logging": "none"} for name in ("job", "hydra"))]}
    (tmp_path / "fake.yaml").write_text(OmegaConf.to_yaml(OmegaConf.merge(quiet, {"seed": 0}, hydra_section)))
    as_main = hydra.main(version_base="1.3", config_path=str(tmp_path), config_name="fake")

    def make(returned):
        ran = []

        def task(cfg):
            ran.append(cfg.seed)
            result = returned(cfg.seed)
            if isinstance(result, BaseException):
                raise result
            return result

        return as_main(resumable_job(task)), ran

    return make


def states(folder: Path) -> list[str]:
    return [status.state for status in read_jobs(folder).values()]


def test_a_sweep_goes_on_after_a_failure_and_the_same_command_retries_only_that(sweep, fake_command, capsys):
    broken = True

    def returned(seed):
        return ValueError("no such file\ninternals") if seed == 2 and broken else seed / 10

    command, ran = fake_command(returned)
    with pytest.raises(SystemExit) as raised:
        sweep(command, "seed=1,2,3")
    assert raised.value.code == 1
    assert ran == [1, 2, 3]
    told = capsys.readouterr().out
    assert "[2/3]  seed=2  failed: no such file\n" in told
    assert "failed: sweep/1: no such file (see its log.txt)" in told
    assert "2 of 3 runs" in told

    broken = False
    folder = sweep(command, "seed=1,2,3")
    assert ran == [1, 2, 3, 2]
    assert states(folder) == [FINISHED] * 3
    assert [status.value for status in read_jobs(folder).values()] == [0.1, 0.2, 0.3]
    told = capsys.readouterr().out
    assert "[1/3]  seed=1  finished before" in told
    assert "failed" not in told


def test_an_unexpected_error_and_a_pruned_job_do_not_end_a_sweep_either(sweep, fake_command, capsys):
    gone = FileNotFoundError(errno.ENOENT, "No such file or directory", "gone.csv")
    endings = {1: ZeroDivisionError("by zero"), 2: Pruned(0.25), 3: 0.5, 4: gone}
    command, ran = fake_command(endings.get)
    with pytest.raises(SystemExit):
        sweep(command, "seed=1,2,3,4")
    assert ran == [1, 2, 3, 4]
    summary = pd.read_csv("sweep/summary.csv")
    assert summary["state"].tolist() == ["failed", "pruned", "finished", "failed"]
    told = capsys.readouterr().out
    assert "failed: sweep/0: ZeroDivisionError: by zero" in told
    assert "failed: sweep/3: gone.csv: no such file or directory; check the path" in told
    assert "pruned at 0.250" in told


def test_an_interrupted_job_is_run_again(sweep, fake_command, capsys):
    interrupted = True
    command, ran = fake_command(lambda seed: KeyboardInterrupt() if seed == 2 and interrupted else 0.5)
    with pytest.raises(SystemExit) as raised:
        sweep(command, "seed=1,2,3")
    assert raised.value.code == 130
    assert capsys.readouterr().out.rstrip().endswith("/sweep continues the sweep")
    assert states(Path("sweep")) == [FINISHED, INTERRUPTED]
    interrupted = False
    sweep(command, "seed=1,2,3")
    assert ran == [1, 2, 2, 3]


def test_a_job_that_another_process_runs_is_left_alone(sweep, fake_command, capsys):
    command, ran = fake_command(lambda seed: 0.5)
    folder = sweep(command, "seed=1,2")
    status = read_status(folder / "0")
    assert status is not None
    write_status(folder / "0", replace(status, state=RUNNING))
    with FileLock(folder / "0" / ".lock"), pytest.raises(SystemExit):
        sweep(command, "seed=1,2")
    assert ran == [1, 2]
    assert states(folder) == [RUNNING, FINISHED]
    assert "another process is running this job" in capsys.readouterr().out
    sweep(command, "seed=1,2")
    assert ran == [1, 2, 1]


def test_jobs_are_recognised_by_their_options_whatever_their_numbers(sweep, fake_command, capsys):
    command, ran = fake_command(lambda seed: seed / 10)
    sweep(command, "seed=1,2")
    folder = sweep(command, "seed=3,2")
    assert ran == [1, 2, 3]
    values = {status.overrides[-1]: (job.name, status.value) for job, status in read_jobs(folder).items()}
    assert values == {"seed=1": ("0", 0.1), "seed=2": ("1", 0.2), "seed=3": ("2", 0.3)}
    assert "left out: 1 jobs in sweep" in capsys.readouterr().out
    assert pd.read_csv(folder / "summary.csv")["run"].tolist() == [1, 2]


def test_results_of_another_configuration_are_not_taken_for_a_jobs(sweep, fake_command, capsys):
    command, ran = fake_command(lambda seed: 0.5)
    folder = sweep(command, "seed=1,2")
    status = read_status(folder / "0")
    assert status is not None
    write_status(folder / "0", replace(status, settings="another"))
    with pytest.raises(SystemExit):
        sweep(command, "seed=1,2")
    assert ran == [1, 2]
    assert "its configuration has changed since it ran in" in capsys.readouterr().out
    assert states(folder) == [FAILED, FINISHED]


def test_a_new_job_gets_a_folder_that_holds_nothing_else(tmp_path):
    assert job_folder(str(tmp_path), 0, ["seed=1", "name=bm25"]) == "0"
    assert job_folder(str(tmp_path), 5, ["name=bm25", "seed=1"]) == "0"
    assert job_folder(str(tmp_path), 0, ["seed=2"]) == "1"
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "results.csv").touch()
    assert job_folder(str(tmp_path), 7, ["seed=3"]) == "8"
    assert job_folder(str(tmp_path), 4, ["seed=4"]) == "4"
    assert not list(tmp_path.glob(".new*"))


def test_half_a_checkpoint_is_not_gone_on_from(tmp_path, capsys):
    assert readable_checkpoint(tmp_path) is None
    path = tmp_path / "checkpoints" / "last.ckpt"
    path.parent.mkdir()
    torch.save({"weights": torch.ones(1000)}, path)
    assert readable_checkpoint(tmp_path) == str(path)
    whole = path.read_bytes()
    for size in (0, 2, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        assert readable_checkpoint(tmp_path) is None
    assert "cannot be read, so this run starts over" in capsys.readouterr().out


@pytest.mark.slow
def test_a_failing_file_in_a_real_sweep(sweep, tmp_path, capsys):
    source = (ROOT / "gedbd" / "corpora" / "demo.csv").read_bytes()
    (tmp_path / "one.csv").write_bytes(source)
    # A missing file is refused before the sweep starts, so this one fails in its job: it has no rows.
    (tmp_path / "two.csv").write_bytes(source.splitlines(keepends=True)[0])
    options = ["name=constant", "dataset=csv", "dataset.path=one.csv,two.csv", "ranking.parts=[]"]
    with pytest.raises(SystemExit):
        sweep(gedbd.commands.baseline.main, *options)
    assert "two.csv: there are no rows below the header" in capsys.readouterr().out
    (tmp_path / "two.csv").write_bytes(source)
    finished = (tmp_path / "sweep" / "0" / "results.csv").stat().st_mtime_ns
    folder = sweep(gedbd.commands.baseline.main, *options)
    assert (folder / "0" / "results.csv").stat().st_mtime_ns == finished
    assert pd.read_csv(folder / "summary.csv")["f1"].nunique() == 1
    assert "2 of 2 runs" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_that_stopped_early_is_not_trained_further(tmp_path, monkeypatch):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    still = ["optimizer.lr=0", "optimizer.head_lr=0", "patience=1", "trainer.max_epochs=5", "graph=none"]
    options = [*TINY, *still, "ranking.parts=[]", "+trainer.limit_train_batches=1", "hydra.run.dir=run"]
    for resumed in ([], ["ckpt_path=run/checkpoints/last.ckpt"]):
        monkeypatch.setattr(sys, "argv", ["gedbd", *options, *resumed])
        gedbd.train.main()
        assert pd.read_csv("run/metrics.csv")["epoch"].tolist() == [0, 1]


@pytest.mark.parametrize(("waited", "stops"), [(0, False), (1, True)])
def test_without_patience_a_training_begins_and_stops_after_the_first_epoch_that_is_no_better(waited, stops):
    stopping = ResumableEarlyStopping("val/f1", patience=0)
    stopping.wait_count = waited
    trainer = pl.Trainer(logger=False, enable_checkpointing=False, accelerator="cpu")
    stopping.on_train_start(trainer, pl.LightningModule())
    assert trainer.should_stop == stops


@pytest.mark.parametrize(
    ("option", "expected"),
    [
        ("a=interval(1e-6,1e-4)", "FloatDistribution(high=0.0001, log=False, low=1e-06, step=None)"),
        ("a=tag(log,interval(0.01,1))", "FloatDistribution(high=1.0, log=True, low=0.01, step=None)"),
        ("a=int(interval(2,8))", "IntDistribution(high=8, log=False, low=2, step=1)"),
        ("a=range(5,50,5)", "IntDistribution(high=45, log=False, low=5, step=5)"),
        ("a=range(0,1,0.25)", "FloatDistribution(high=0.75, log=False, low=0.0, step=0.25)"),
        ("a=dense,knn", "CategoricalDistribution(choices=('dense', 'knn'))"),
        ("a=choice(0.3,none)", "CategoricalDistribution(choices=('0.3', 'none'))"),
    ],
)
def test_hydras_ranges_are_optunas(option, expected):
    (override,) = OverridesParser.create().parse_overrides([option])
    assert repr(distribution(override)) == expected


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
def test_a_failing_job_of_two_processes_does_not_end_the_sweep(start, tmp_path):
    ddp = ["trainer=ddp", "trainer.devices=2", "trainer.max_epochs=1", "ranking.parts=[]", "graph=none"]
    process = start("-m", *TINY, *ddp, "+trainer.limit_val_batches=1,2", "hydra.sweep.dir=sweep")
    told = process.communicate(timeout=600)[0]
    assert process.returncode == 1, told
    assert states(tmp_path / "sweep") == [FAILED, FINISHED]
    assert "failed: sweep/0: reports were not encoded" in told


@pytest.mark.slow
def test_a_job_killed_while_its_results_are_written_writes_them_again(sweep):
    options = [*TINY, "trainer=smoke", "graph=none", "ranking.parts=[]", "seed=1,2"]
    folder = sweep(gedbd.train.main, *options)
    job = folder / "1"
    before = {name: (job / name).read_bytes() for name in ("metrics.csv", "results.csv")}
    status = read_status(job)
    assert status is not None
    write_status(job, replace(status, state=RUNNING, value=None))
    (job / "results.csv").unlink()
    sweep(gedbd.train.main, *options)
    assert read_status(job) == replace(status, seconds=read_status(job).seconds)
    assert {name: (job / name).read_bytes() for name in before} == before


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["submitit_local", "joblib", "ray"])
def test_other_launchers(start, tmp_path, launcher):
    pytest.importorskip(launcher.partition("_")[0])
    options = ["name=constant,bm25", "ranking.parts=[]", f"hydra/launcher={launcher}", "hydra.sweep.dir=sweep"]
    process = start("-m", *options, module="gedbd.commands.baseline")
    told = process.communicate(timeout=300)[0]
    assert process.returncode == 0, told
    assert states(tmp_path / "sweep") == [FINISHED] * 2
    assert pd.read_csv(tmp_path / "sweep" / "summary.csv")["name"].tolist() == ["constant", "bm25"]
    assert sorted(re.findall(r"\[\d/2\]", told)) == ["[1/2]", "[2/2]"]


@pytest.mark.slow
def test_a_search_prunes_and_goes_on_where_it_was_stopped(sweep, monkeypatch, capsys):
    optuna = pytest.importorskip("optuna")
    search = [
        "hydra/sweeper=optuna",
        "hydra.sweeper.pruner.n_startup_trials=1",
        "hydra.sweeper.pruner.n_warmup_steps=0",
    ]
    rest = ["trainer.max_epochs=3", "ranking.parts=[]", "graph=none", "+trainer.limit_train_batches=2"]
    space = ["optimizer.lr=tag(log,interval(1e-6,1e-2))", "fusion=text_only,weighted_sum"]

    def run(n_trials):
        return sweep(gedbd.train.main, *search, f"hydra.sweeper.n_trials={n_trials}", *TINY, *rest, *space)

    folder = run(6)
    whole = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/study.db").trials
    folder.rename(folder.with_name("whole"))

    killed = EpochPruning.on_train_epoch_end

    def kill(self, trainer, module):
        killed(self, trainer, module)
        if os.environ["GEDBD_TRIAL"].startswith("4@") and trainer.current_epoch == 0:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(EpochPruning, "on_train_epoch_end", kill)
        with pytest.raises(SystemExit):
            run(6)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # Lightning ignores further ones
    assert states(folder)[3:] == [INTERRUPTED]
    run(6)
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{folder}/study.db")
    assert [trial.params for trial in study.trials] == [trial.params for trial in whole]
    assert [trial.state.name for trial in study.trials] == [trial.state.name for trial in whole]
    assert [trial.value for trial in study.trials] == [trial.value for trial in whole]
    assert {trial.state.name for trial in study.trials} == {"COMPLETE", "PRUNED"}
    assert "best of 6 trials" in capsys.readouterr().out


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
