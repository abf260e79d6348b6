"""Training started by torchrun and by SLURM, as the manual shows it, with processes of this machine as the nodes."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from proxied import free_port
from pytorch_lightning.plugins.environments import SLURMEnvironment

import gedbd.train
from gedbd.configuration.options import run_dir, started

ROOT = Path(gedbd.train.__file__).parents[1]
PAGE = (ROOT / "docs" / "guides" / "gpu.md").read_text()
SMALL = [
    "encoder=tiny",
    "graph=knn",
    "ranking.parts=[test]",
    "trainer.accelerator=cpu",
    "trainer.max_epochs=1",
    "trainer.enable_progress_bar=false",
    "+trainer.limit_train_batches=2",
]
RESULTS = ("config.yaml", "metrics.csv", "results.csv", "ranking.csv", "predictions.parquet", "checkpoints/best.ckpt")


@pytest.fixture
def launch(tmp_path):
    """Runs commands side by side in one folder, each with variables of its own, and gives what they print."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "TORCHELASTIC_"))}
    shared = {"GEDBD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}

    def through(*commands, variables=({}, {})):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "cwd": tmp_path}
        both = zip(commands, variables, strict=False)
        running = [subprocess.Popen(command, env=clean | shared | own, **pipes) for command, own in both]
        told = [process.communicate(timeout=300)[0] for process in running]
        assert [process.returncode for process in running] == [0] * len(commands), "\n".join(told)
        return told

    return through


def shown(start: str) -> list[str]:
    """The words of the page's command that starts so."""
    return shlex.split(re.search(rf"^{start}.*?(?=\s*(#|$))", PAGE, flags=re.MULTILINE)[0])


def only_run(folder: Path) -> Path:
    """The run folder below; fails if there are more."""
    (run,) = (folder / "outputs" / "demo" / "tiny").iterdir()
    return run


@pytest.mark.slow
@pytest.mark.no_cover
def test_the_nodes_of_torchrun_share_one_run_folder(launch, tmp_path):
    _, *words = shown("torchrun --nnodes=2")
    here = {"--master-addr=node0": "--master-addr=127.0.0.1", "--nproc-per-node=8": "--nproc-per-node=1"}
    here["--master-port=29500"] = f"--master-port={free_port()}"
    words = [here.get(word, word) for word in words]
    second = ["--node-rank=1" if word == "--node-rank=0" else word for word in words]
    more = [*SMALL, "seeds=2"]
    first, other = launch(*([sys.executable, "-m", "torch.distributed.run", *node, *more] for node in (words, second)))
    run = only_run(tmp_path)
    assert all((run / f"seed_{seed}" / name).is_file() for seed in range(2) for name in RESULTS)
    assert pd.read_csv(run / "seeds.csv")["seed"].nunique() == 2
    assert first.count("run folder: ") == 2
    assert "run folder: " not in other


@pytest.mark.slow  # two processes
def test_a_machine_that_waits_for_another_says_how_to_start_it(launch, tmp_path):
    place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    command = [sys.executable, "-m", "gedbd.train", *SMALL, "+trainer.num_nodes=2", "hydra.run.dir=run"]
    first, other = launch(command, command, variables=(place, place | {"NODE_RANK": "1"}))
    at = f"127.0.0.1:{place['MASTER_PORT']}"
    assert f"waiting for 1 more of 2 machines at {at}; start each, with NODE_RANK=1 and the same files" in first
    told = re.search(r"^  MASTER_ADDR=127\.0\.0\.1 MASTER_PORT=\d+ NODE_RANK=1 gedbd train (.+)$", first, re.MULTILINE)
    assert shlex.split(told[1]) == [*command[3:-1], f"hydra.run.dir={tmp_path / 'run'}"]
    assert f"machine 1 of 2 waits for the first one at {at}" in other
    assert all((tmp_path / "run" / name).is_file() for name in RESULTS)
    assert "run folder: " not in other


def slurm(rank: int, port: int) -> dict[str, str]:
    """What srun tells the tasks of a job of two nodes, one task each."""
    said = {"JOB_ID": 4711, "STEP_ID": 0, "JOB_NAME": "train", "NTASKS": 2, "NTASKS_PER_NODE": 1, "NNODES": 2}
    said |= {"PROCID": rank, "NODEID": rank, "LOCALID": 0, "NODELIST": "127.0.0.1", "JOB_NODELIST": "127.0.0.1"}
    return {f"SLURM_{name}": str(value) for name, value in said.items()} | {"MASTER_PORT": str(port)}


@pytest.mark.slow
@pytest.mark.no_cover
def test_the_tasks_of_a_slurm_job_share_a_run_folder_and_go_on_in_it(launch, tmp_path):
    _, _, *words = shown("srun python")
    command = [
        sys.executable,
        *("trainer.devices=1" if word == "trainer.devices=4" else word for word in words),
        *SMALL,
    ]
    run = tmp_path / "outputs" / "demo" / "tiny" / "slurm_4711.0"
    for epochs in (1, 2):
        port = free_port()
        first, other = launch(
            *[[*command, f"trainer.max_epochs={epochs}"]] * 2, variables=(slurm(0, port), slurm(1, port))
        )
        assert "run folder: " in first
        assert "run folder: " not in other
        assert only_run(tmp_path) == run
        assert all((run / name).is_file() for name in RESULTS)
        assert list(pd.read_csv(run / "metrics.csv")["epoch"]) == list(range(epochs))
        # What Lightning leaves when SLURM signals that the time is over, before it queues the job again.
        (run / "checkpoints" / "last.ckpt").replace(run / "hpc_ckpt_1.ckpt")
    assert torch.load(run / "hpc_ckpt_1.ckpt", weights_only=True)["global_step"] == 4


def test_lightning_knows_a_slurm_job(monkeypatch):
    for name, value in slurm(1, 29500).items():
        monkeypatch.setenv(name, value)
    assert SLURMEnvironment.detect()
    assert SLURMEnvironment().global_rank() == 1
    assert run_dir(None, "demo", None, "tiny") == "outputs/demo/tiny/slurm_4711.0"


@pytest.mark.parametrize(("name", "value"), [("SLURM_NTASKS", "1"), ("SLURM_JOB_NAME", "bash")])
def test_a_task_that_is_alone_is_named_by_the_time(monkeypatch, name, value):
    for key, given in {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_NTASKS": "2", name: value}.items():
        monkeypatch.setenv(key, given)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\dZ", started())
