"""Two processes with half the batch each train as one process does, and end with one model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import gedbd.train

OPTIONS = [
    "encoder=tiny",
    "encoder.dropout=0",
    "trainer.accelerator=cpu",
    "trainer.max_epochs=2",
    "trainer.enable_progress_bar=false",
    "graph=knn",
    "optimizer.lr=1e-3",
]
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
    more = [
        "pairs=grouped",
        "batches.hard=0.5",
        "trainer=ddp",
        "trainer.devices=2",
        "ranking.parts=[]",
        "hydra.run.dir=run",
    ]
    command = [sys.executable, str(tmp_path / "keep.py"), *OPTIONS, *more]
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
