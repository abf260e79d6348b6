"""Trainings and baselines that log to W&B without network, and what their files hold."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import wandb
from offline_runs import offline_runs

import gedbd.commands.baseline
import gedbd.train

pytestmark = pytest.mark.integration

ROOT = Path(gedbd.train.__file__).parents[1]
SMALL = ["encoder=tiny", "trainer=smoke", "logger=wandb"]
SWEPT = [*SMALL, "graph.pca_dim=5", "fusion.lambda_text=0.3,0.7", "hydra.sweep.dir=sweeps/mine"]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Runs a command in this process, in a folder of its own, without network."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.chdir(tmp_path)

    def through(command, *options):
        monkeypatch.setattr(sys, "argv", ["gedbd", *options])
        wandb.teardown()  # what W&B has read of the environment
        try:
            command.main()
        finally:
            wandb.teardown()  # waits until all is written
        return tmp_path

    return through


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """A sweep of two jobs; not to be changed."""
    folder = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GEDBD_CACHE", str(folder / "cache"))
        patch.setenv("WANDB_MODE", "offline")
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["gedbd", "-m", *SWEPT])
        wandb.teardown()
        gedbd.train.main()
        wandb.teardown()
    return folder / "sweeps" / "mine"


@pytest.mark.slow
def test_each_job_of_a_sweep_is_a_run_of_one_group_named_by_what_differs(swept):
    runs = offline_runs(swept)
    assert [run.name for run in runs] == ["fusion.lambda_text=0.3", "fusion.lambda_text=0.7"]
    assert len({run.id for run in runs}) == 2
    assert {(run.group, run.job_type, run.exit_code) for run in runs} == {("mine", "train", 0)}
    assert {"demo", "encoder=tiny", "split=time", "fusion=weighted_sum"} <= set(runs[0].tags)
    for number, (run, weight) in enumerate(zip(runs, (0.3, 0.7), strict=True)):
        assert (run.config["fusion"]["lambda_text"], run.config["graph"]["pca_dim"]) == (weight, 5)
        assert json.loads((swept / str(number) / "wandb.json").read_text())["id"] == run.id
        assert [row["epoch"] for row in run.rows if "val/f1" in row] == [0]
        assert {"train/loss", "val/f1", "val/rr@10", "test/f1", "test/rr@10", "leak/closure_f1"} <= run.keys
        assert {"results", "ranking", "examples", "figures/training_curves", "figures/rank_curves"} <= run.keys


@pytest.mark.slow
def test_a_run_that_is_resumed_keeps_its_id_name_and_group(run):
    options = [*SMALL, "graph=none", "+trainer.limit_val_batches=1.0"]
    run(gedbd.train, *options, "hydra.run.dir=mine")
    run(gedbd.train, *options, "trainer.max_epochs=2", "ckpt_path=mine/checkpoints/last.ckpt")
    first, second = offline_runs(Path("mine"))
    assert (second.id, second.name, second.group) == (first.id, first.name, first.group)
    assert [row["epoch"] for row in second.rows if "val/f1" in row] == [1]
    run(gedbd.train, *options, "hydra.run.dir=mine")  # another training in the folder of a finished one
    assert offline_runs(Path("mine"))[-1].id != first.id


@pytest.mark.parametrize("titles", [False, True])
def test_titles_are_uploaded_only_if_an_option_says_so(run, titles):
    given = ["logger.wandb.upload_titles=true"] if titles else []
    run(gedbd.commands.baseline, "name=constant", "dataset=demo", "logger=wandb", "hydra.run.dir=mine", *given)
    examples = pd.read_csv("mine/examples.csv")
    written = b"".join(path.read_bytes() for path in Path("mine/wandb").rglob("*") if path.is_file())
    found = [title.encode() in written for title in (*examples["title_1"], *examples["title_2"])]
    assert len(found) == 24
    assert set(found) == {titles}
    assert b'"id_1"' in written


def test_a_training_that_fails_is_a_failed_run(run):
    with pytest.raises(SystemExit, match="is not finite"):
        run(gedbd.train, *SMALL, "graph=none", "optimizer.lr=1e38", "hydra.run.dir=mine")
    (found,) = offline_runs(Path("mine"))
    assert found.exit_code == 1
    assert wandb.run is None


@pytest.mark.parametrize("command", [gedbd.train, pytest.param(gedbd.commands.baseline, marks=pytest.mark.slow)])
def test_a_missing_key_is_told_before_the_corpus_is_read(run, monkeypatch, tmp_path, command):
    monkeypatch.delenv("WANDB_MODE")
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    Path("empty.csv").touch()  # reading it would fail with another message
    options = ["logger=wandb", "dataset=csv", "dataset.path=empty.csv"]
    options += ["name=constant"] if command is gedbd.commands.baseline else []
    with pytest.raises(SystemExit, match=r"^error: logger=wandb needs an API key: run `wandb login`"):
        run(command, *options)
    monkeypatch.setenv("WANDB_API_KEY", "short")
    with pytest.raises(SystemExit, match=r"^error: logger=wandb: WANDB_API_KEY invalid"):
        run(command, *options)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [1, 2])
def test_ctrl_c_finishes_the_run_and_tells_how_to_continue(tmp_path, seeds):
    options = ["encoder=tiny", "graph=none", "trainer.accelerator=cpu", "trainer.max_epochs=200", "logger=wandb"]
    options += [f"seeds={seeds}", "hydra.run.dir=mine"]
    environment = os.environ | {"GEDBD_CACHE": str(tmp_path / "cache"), "WANDB_MODE": "offline"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "gedbd.train", *options]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
    with subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as training:
        for line in training.stdout:
            if line.startswith("epoch 2/200: train loss "):
                training.send_signal(signal.SIGINT)
                break
        told = training.stdout.read()
    assert training.returncode == 130
    way = "hydra.run.dir=mine" if seeds > 1 else "ckpt_path=mine/checkpoints/last.ckpt"
    assert told.splitlines()[-1].split()[:2] == ["gedbd", "train"]
    assert told.splitlines()[-1].endswith(way)
    (found,) = offline_runs(tmp_path / "mine")
    assert found.exit_code == 255
    _, _, *words = told.splitlines()[-1].split()
    again = [*command[:3], *words, "trainer.max_epochs=3"]
    subprocess.run(again, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert {found.id for found in offline_runs(tmp_path / "mine")} >= {found.id}
