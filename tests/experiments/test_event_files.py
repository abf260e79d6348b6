"""Whole runs with TensorBoard and with MLflow: what they store are the numbers of the run's own files."""

import struct
from collections import defaultdict
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

pytestmark = pytest.mark.integration

SMALL = ["encoder=tiny", "batch_size=8", "graph=none", "hydra.run.dir=run", "trainer=smoke", "trainer.max_epochs=2"]

# tensorboardX names its files by the second: a test that begins in the second in which the training began would write
# over the training's file. No training of real reports is that short.
CALLBACK = """
import time
from pytorch_lightning.callbacks import Callback


class Waiting(Callback):
    def on_train_end(self, trainer, pl_module):
        time.sleep(1.1)
"""


@pytest.fixture
def train(tmp_path, monkeypatch, run_command):
    """Trains in an empty folder."""
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "waiting.py").write_text(CALLBACK)
    return partial(run_command, "train", *SMALL)


def events(folder: Path) -> dict[str, list[float]]:
    """The values of each scalar in the event files of a folder, in the order in which they were written.

    A record is its length (8 bytes), a checksum (4), a message of Protocol Buffers, and another checksum (4).
    """
    from tensorboardX.proto.event_pb2 import Event

    found = defaultdict(list)
    for path in sorted(folder.glob("events.out.tfevents.*")):
        data = path.read_bytes()
        place = 0
        while place < len(data):
            (length,) = struct.unpack_from("<Q", data, place)
            event = Event.FromString(data[place + 12 : place + 12 + length])
            for value in event.summary.value:
                found[value.tag].append(value.simple_value)
            place += 12 + length + 4
    return dict(found)


def check_metrics(logged: dict[str, list[float]], at: str) -> None:
    """The rows of ``metrics.csv`` were logged, and the F1 of the test; ``at`` is what the logger writes for ``@``."""
    epochs = pd.read_csv("run/metrics.csv")
    assert len(epochs) == 2
    for name in epochs.columns.drop("epoch"):
        # Event files hold single precision.
        assert logged[name.replace("@", at)] == pytest.approx(epochs[name].tolist(), rel=1e-6, nan_ok=True), name
    assert logged["test/f1"] == pytest.approx([pd.read_csv("run/results.csv")["f1"][0]], rel=1e-6)


def test_tensorboard_holds_the_metrics_of_each_epoch(train):
    pytest.importorskip("tensorboardX", reason="pip install 'gedbd[tensorboard]'")
    train("logger=tensorboard", "+callbacks.wait={_target_: waiting.Waiting}")
    check_metrics(events(Path("run/tensorboard")), at="_")
    assert "encoder" in Path("run/tensorboard/hparams.yaml").read_text()


@pytest.mark.slow  # the package is in no group of the tests: 20 MB, and half a minute to install
def test_mlflow_holds_the_metrics_and_options(train):
    pytest.importorskip("mlflow", reason="pip install 'gedbd[mlflow]'")
    from mlflow.tracking import MlflowClient

    train("logger=[csv,mlflow]", "logger.mlflow.run_name=first")
    client = MlflowClient("sqlite:///mlflow.db")
    experiment = client.get_experiment_by_name("gedbd")
    (run,) = client.search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.info.status) == ("first", "FINISHED")
    logged = {
        name: [metric.value for metric in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics
    }
    check_metrics(logged, at="")
    assert run.data.params["encoder/name"] == "tiny"
