"""Jobs of sweeps that go on: after a failure, after Ctrl-C, after a kill, with the same command."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import fake_jobs
import pandas as pd
import pytest
from fake_jobs import states
from filelock import FileLock
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import OmegaConf

import gedbd.commands.baseline
import gedbd.train
from gedbd.experiments.report.sweep_table import show_jobs, shown_metrics
from gedbd.experiments.seeds import summarise_seeds
from gedbd.experiments.sweep_jobs import (
    FAILED,
    FINISHED,
    INTERRUPTED,
    PRUNED,
    JobStatus,
    job_folder,
    read_jobs,
    write_status,
)
from gedbd.io.console import open_console
from hydra_plugins.gedbd.optuna_sweeper import distribution

ROOT = Path(gedbd.train.__file__).parents[1]


@pytest.fixture
def fake_sweep(sweep, tmp_path, monkeypatch):
    """Runs a sweep whose jobs end as ``fake_jobs.ENDINGS`` says of their seeds; gives its folder and the seeds run."""
    hydra_section = OmegaConf.create({"hydra": OmegaConf.load(ROOT / "conf" / "baseline.yaml").hydra})
    del hydra_section.hydra.run
    options = {"seed": 0, "trainer": {"enable_progress_bar": True}}
    quiet = {"defaults": ["_self_", *({f"override hydra/{name}_logging": "none"} for name in ("job", "hydra"))]}
    (tmp_path / "fake.yaml").write_text(OmegaConf.to_yaml(OmegaConf.merge(quiet, options, hydra_section)))
    monkeypatch.setenv("FAKE_CONFIG", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}:{Path(fake_jobs.__file__).parent}")

    def run(*options, **endings):
        monkeypatch.setenv("FAKE_ENDINGS", json.dumps(endings))
        ran = tmp_path / "ran.txt"
        ran.write_text("")
        try:
            sweep(fake_jobs.main, *options)
        finally:
            run.seeds = [int(line) for line in ran.read_text().split()]
        return tmp_path / "sweep"

    return run


@pytest.mark.integration
def test_a_sweep_goes_on_after_failed_and_pruned_jobs_and_the_same_command_retries_only_failed_ones(fake_sweep, capsys):
    with pytest.raises(SystemExit) as raised:
        fake_sweep("seed=1,2,3,4,5", s1="no rows", s2="pruned", s3="bug", s4="no file")
    assert raised.value.code == 1
    assert fake_sweep.seeds == [1, 2, 3, 4, 5]
    assert states(Path("sweep")) == [FAILED, PRUNED, FAILED, FAILED, FINISHED]
    told = capsys.readouterr().out
    assert "[1/5]  seed=1  failed: no such file\n" in told
    assert "failed: sweep/0: no such file (see its log.txt)" in told
    assert "pruned at 0.250" in told
    assert "failed: sweep/2: ZeroDivisionError: by zero" in told
    assert "failed: sweep/3: gone.csv: no such file or directory; check the path" in told
    assert "1 of 5 runs" in told
    assert "by zero" in Path("sweep/2/log.txt").read_text()
    assert pd.read_csv("sweep/summary.csv")["state"].tolist() == ["failed", "pruned", "failed", "failed", "finished"]

    folder = fake_sweep("seed=1,2,5")
    assert fake_sweep.seeds == [1]
    assert [status.value for status in read_jobs(folder).values()] == [0.1, 0.25, None, None, 0.5]
    told = capsys.readouterr().out
    assert "[3/3]  seed=5  finished before" in told
    assert "left out: 2 jobs in sweep" in told
    assert "failed" not in told


@pytest.mark.integration
def test_options_reach_the_jobs_as_typed(fake_sweep, capsys):
    typed = "trainer.enable_progress_bar='a=b, ${seed}'"
    folder = fake_sweep("seed=1,2", typed, "hydra.sweep.subdir=${hydra.job.override_dirname}")
    assert fake_sweep.seeds == [1, 2]
    jobs = {job.name.partition(",")[0]: status for job, status in read_jobs(folder).items()}
    assert {name: status.overrides for name, status in jobs.items()} == {
        f"seed={n}": (f"seed={n}", typed) for n in (1, 2)
    }
    assert "left out" not in capsys.readouterr().out


@pytest.mark.integration
def test_an_interrupted_job_is_run_again_unless_another_process_runs_it_or_its_configuration_changed(
    fake_sweep, tmp_path, capsys
):
    folder = tmp_path / "sweep"
    # In a process of its own: the job sends Ctrl-C to the process that started it.
    interrupted = subprocess.run(
        [sys.executable, "-c", "import fake_jobs; fake_jobs.main()", "-m", "seed=1,2,3", "hydra.sweep.dir=sweep"],
        env=os.environ | {"FAKE_ENDINGS": json.dumps({"s2": "ctrl-c"})},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert interrupted.returncode == 130
    assert interrupted.stdout.rstrip().endswith("/sweep continues the sweep")
    assert states(folder) == [FINISHED, INTERRUPTED]
    with FileLock(folder / "1" / ".lock"), pytest.raises(SystemExit):
        fake_sweep("seed=1,2")
    assert (fake_sweep.seeds, states(folder)) == ([], [FINISHED, INTERRUPTED])
    assert "another process is running this job" in (folder / "1" / "log.txt").read_text()
    fake_sweep("seed=2,3")
    assert fake_sweep.seeds == [2, 3]
    # Jobs are recognised by their options, whatever their numbers.
    assert pd.read_csv(folder / "summary.csv")[["run", "seed"]].to_numpy().tolist() == [[1, 2], [2, 3]]

    write_status(folder / "0", replace(read_jobs(folder)[folder / "0"], settings="another"))
    with pytest.raises(SystemExit):
        fake_sweep("seed=1,2")
    assert fake_sweep.seeds == []
    assert "its configuration has changed since it ran in" in capsys.readouterr().out
    assert states(folder) == [FAILED, FINISHED, FINISHED]


def test_tables_show_the_metrics_of_a_task_of_ones_own(tmp_path, capsys):
    for seed, accuracy in enumerate((0.25, 0.75)):
        run = tmp_path / f"seed_{seed}"
        run.mkdir()
        write_status(run, JobStatus(FINISHED, (f"seed={seed}",), accuracy))
        (run / "results.csv").write_text(f"method,accuracy,accuracy_low,name\nmine,{accuracy},0.1,x\n")
    show_jobs(tmp_path, read_jobs(tmp_path))
    header, _, first, second = capsys.readouterr().out.splitlines()[-4:]
    assert (header.split(), first.split(), second.split()) == (
        ["run", "seed", "accuracy"],
        ["seed_0", "0", "0.250"],
        ["seed_1", "1", "0.750"],
    )
    summarise_seeds(tmp_path, open_console())
    header, _, row = capsys.readouterr().out.rstrip().splitlines()[-3:]
    assert header.split() == ["method", "accuracy", "val", "value"]
    # Student's t of one degree of freedom is 12.706, the standard error of 0.25 and 0.75 is 0.25.
    assert row.split()[:4] == ["mine", "0.500", "±", "3.177"]
    assert shown_metrics({"f1": 0.5, "own": 0.25, "mrr": 0.75}) == ["f1", "mrr"]


def test_a_new_job_gets_a_folder_that_holds_nothing_else(tmp_path):
    assert job_folder(str(tmp_path), 0, ["seed=1", "name=bm25"]) == "0"
    assert job_folder(str(tmp_path), 5, ["name=bm25", "seed=1"]) == "0"
    assert job_folder(str(tmp_path), 0, ["seed=2"]) == "1"
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "results.csv").touch()
    assert job_folder(str(tmp_path), 7, ["seed=3"]) == "8"
    assert job_folder(str(tmp_path), 4, ["seed=4"]) == "4"
    assert not list(tmp_path.glob(".new*"))


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


PARAMS = {"a": "1,2,3", "b.c": "x,y"}


def jobs(*arguments: str, size: int | None = None) -> list[list[str]]:
    from hydra_plugins.gedbd.one_at_a_time import OneAtATime  # Hydra loads its plugins again when a command starts

    sweeper = OneAtATime(max_batch_size=size, params=PARAMS)
    given = [f"{key}={value}" for key, value in PARAMS.items()]
    batches = sweeper.split_arguments(OverridesParser.create().parse_overrides([*given, *arguments]), size)
    assert all(len(batch) <= (size or len(batch)) for batch in batches)
    return [job for batch in batches for job in batch]


def test_each_option_takes_its_other_values_and_the_command_line_replaces_them():
    assert jobs() == [["a=1", "b.c=x"], ["a=2", "b.c=x"], ["a=3", "b.c=x"], ["a=1", "b.c=y"]]
    found = jobs("a=5,6", "b.c=z", "d=p,q", "e=1")
    assert found == [[f"d={d}", "e=1", f"a={a}", "b.c=z"] for d in "pq" for a in (5, 6)]
    assert jobs(size=3) == jobs()


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
