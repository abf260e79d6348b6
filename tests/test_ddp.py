"""Several processes train as one does, and are started by Lightning, torchrun and SLURM as the manual shows."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from proxied import free_port
from pytorch_lightning.plugins.environments import SLURMEnvironment

import gedbd.train
from gedbd.configuration.options import run_dir, started

OPTIONS = ["encoder=tiny", "encoder.dropout=0", "trainer.accelerator=cpu", "trainer.max_epochs=2"]
OPTIONS += ["trainer.enable_progress_bar=false", "graph=knn", "optimizer.lr=1e-3"]
KEEP_WEIGHTS = """
import gedbd.experiments.run_training, gedbd.train, torch
from pytorch_lightning.callbacks import Callback

class Keep(Callback):
    def on_train_end(self, trainer, system):
        kept = dict(system.state_dict()) | {"vectors": torch.from_numpy(trainer.datamodule.vectors)}
        torch.save(kept, f"{trainer.default_root_dir}/{trainer.global_rank}.pt")

usual = gedbd.experiments.run_training.training_callbacks
gedbd.experiments.run_training.training_callbacks = lambda *settings: [*usual(*settings), Keep()]
gedbd.train.main()
"""
FIT_OBJECTS = """
import json, sys
import pytorch_lightning as pl
from gedbd import BugReports, DuplicateDetector
from gedbd.encoders.loaded_encoder import load_tiny_encoder

devices = int(sys.argv[1])
pl.seed_everything(0)
encoder = load_tiny_encoder("tiny", "mean", dim=16, max_tokens=32, hidden=32, layers=2, dropout=0.0, seed=0)
trainer = pl.Trainer(
    max_epochs=2,
    accelerator="cpu",
    strategy="ddp" if devices > 1 else "auto",
    devices=devices,
    use_distributed_sampler=len(sys.argv) > 2,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
)
data = BugReports("demo", graph="knn", batch_size=28 // devices)
model = DuplicateDetector(encoder, lr=1e-3)
trainer.fit(model, data)
logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
logged |= trainer.test(model, data, verbose=False)[0]
if trainer.is_global_zero:
    print(json.dumps(logged))
"""
NOTE_BACKTESTS = """
import gedbd.train, gedbd.triage.backtesting.backtest_run
from pathlib import Path
from pytorch_lightning.utilities import rank_zero_only

step = gedbd.triage.backtesting.backtest_run.BacktestStep
usual = step.run

def noted(*given):
    Path(f"backtest_of_{rank_zero_only.rank}").touch()
    return usual(*given)

step.run = staticmethod(noted)
gedbd.train.main()
"""


@pytest.mark.slow  # two processes
@pytest.mark.no_cover
@pytest.mark.parametrize("trainer", ["ddp", pytest.param("fsdp", marks=pytest.mark.slow)])
def test_two_processes_agree_with_one(tmp_path, monkeypatch, trainer):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["gedbd", *OPTIONS, "batch_size=28", "hydra.run.dir=one"])
    gedbd.train.main()
    more = ["batch_size=14", f"trainer={trainer}", "trainer.devices=2", "hydra.run.dir=two"]
    command = [sys.executable, "-m", "gedbd.train", *OPTIONS, *more]
    environment = os.environ | {"PYTHONPATH": str(Path(gedbd.train.__file__).parents[1])}
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300, text=True)
    assert "deprecated" not in ended.stdout + ended.stderr

    one, two = (pd.read_csv(tmp_path / folder / "metrics.csv") for folder in ("one", "two"))
    stepwise = [name for name in one.columns if "average_precision" in name]  # jumps where two scores change places
    pd.testing.assert_frame_equal(two[stepwise], one[stepwise], check_exact=False, rtol=0, atol=1e-3)
    shared = [name for name in one.columns if "second" not in name and name not in stepwise]
    pd.testing.assert_frame_equal(two[shared], one[shared], check_exact=False, rtol=0, atol=1e-5)
    states = [
        torch.load(tmp_path / folder / "checkpoints" / "last.ckpt", weights_only=True)["state_dict"]
        for folder in ("one", "two")
    ]
    for key, value in states[0].items():
        torch.testing.assert_close(states[1][key], value, rtol=0, atol=1e-5, msg=key)
    for file in ("predictions.parquet", "queries.parquet"):
        results = [pd.read_parquet(tmp_path / folder / file) for folder in ("one", "two")]
        atol = 1e-4 if file == "queries.parquet" else 1e-5  # an average precision jumps likewise
        pd.testing.assert_frame_equal(results[1], results[0], check_exact=False, rtol=0, atol=atol)


@pytest.mark.slow  # two processes
@pytest.mark.no_cover
def test_objects_log_the_same_in_one_and_in_two_processes(tmp_path):
    environment = os.environ | {"GEDBD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    environment["PYTHONPATH"] = str(Path(gedbd.train.__file__).parents[1])
    (tmp_path / "fit.py").write_text(FIT_OBJECTS)

    def fit(*arguments: str) -> subprocess.CompletedProcess:
        command = [sys.executable, str(tmp_path / "fit.py"), *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=300, text=True)

    one, two = (json.loads(fit(devices).stdout.splitlines()[-1]) for devices in ("1", "2"))
    for name in ("loss", "f1", "precision", "recall"):
        for split in ("train", "val", "test"):
            assert two[f"{split}/{name}"] == pytest.approx(one[f"{split}/{name}"], abs=1e-6), name
    assert "use_distributed_sampler=False" in fit("2", "distributed").stderr


@pytest.mark.slow  # two processes are held against one above
def test_two_processes_with_groups_of_their_own_end_with_one_model(tmp_path):
    environment = os.environ | {"GEDBD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    (tmp_path / "keep.py").write_text(KEEP_WEIGHTS)
    more = ["pairs=grouped", "batches.hard=0.5", "trainer=ddp", "trainer.devices=2", "ranking.parts=[]"]
    command = [sys.executable, str(tmp_path / "keep.py"), *OPTIONS, *more, "hydra.run.dir=run"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)

    mine, theirs = (torch.load(tmp_path / "run" / f"{rank}.pt", weights_only=True) for rank in range(2))
    assert mine.keys() == theirs.keys()
    for key, value in mine.items():
        assert torch.equal(value, theirs[key]), key
    torch.testing.assert_close(mine["vectors"].norm(dim=1), torch.ones(len(mine["vectors"])))
    epochs = pd.read_csv(tmp_path / "run" / "metrics.csv")
    assert len(epochs) == 2
    assert np.isfinite(epochs.to_numpy()).all()
    assert pd.read_parquet(tmp_path / "run" / "predictions.parquet")["score"].notna().all()


@pytest.mark.slow  # two processes
def test_one_process_alone_ranks_and_measures_after_the_training_of_two(tmp_path):
    environment = os.environ | {"GEDBD_CACHE": str(tmp_path / "cache"), "OMP_NUM_THREADS": "1"}
    (tmp_path / "note.py").write_text(NOTE_BACKTESTS)
    more = ["experiment=best", "dataset=demo", "+dataset.last_n=150", "trainer=ddp", "trainer.devices=2"]
    command = [sys.executable, str(tmp_path / "note.py"), *OPTIONS[:4], *more, "hydra.run.dir=run"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, timeout=300)

    assert [path.name for path in tmp_path.glob("backtest_of_*")] == ["backtest_of_0"]
    assert (tmp_path / "run" / "backtest" / "matching.json").is_file()
    assert len(pd.read_csv(tmp_path / "run" / "metrics.csv")) == 2


ROOT = Path(gedbd.train.__file__).parents[1]

PAGE = (ROOT / "docs" / "guides" / "training.md").read_text()

SMALL = ["encoder=tiny", "graph=knn", "ranking.parts=[test]", "trainer.accelerator=cpu", "trainer.max_epochs=1"]
SMALL += ["trainer.enable_progress_bar=false", "+trainer.limit_train_batches=2"]

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
