"""Training from Python and its encoder: the numbers of the commands, with objects of the user."""

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from pytorch_lightning.callbacks import Callback
from pytorch_lightning.loggers import CSVLogger
from torch import nn

import gedbd

pytestmark = pytest.mark.integration

SMALL = ("encoder=tiny", "trainer=smoke", "graph=none", "ranking.parts=[test]")


class Squares(nn.Module):
    """The mean squared difference of cosine and label."""

    reads = frozenset({"pairs"})

    def __init__(self, weight=1.0):
        super().__init__()
        self.weight = weight

    def forward(self, z, step):
        first, second = step.edge_label_index
        return ((z[first] * z[second]).sum(-1) - step.edge_label).square().mean()


class Epochs(Callback):
    """Counts epochs."""

    def __init__(self):
        self.count = 0

    def on_train_epoch_end(self, trainer, pl_module):
        self.count += 1


def test_a_training_gives_the_numbers_of_the_command(command, demo):
    run = gedbd.fit(demo, *SMALL, folder="by_call")
    command("train", *SMALL, "hydra.run.dir=by_command")
    for name, table in (("results", run.results), ("ranking", run.ranking)):
        pd.testing.assert_frame_equal(table, pd.read_csv(f"by_command/{name}.csv"))
    assert run.metrics["f1"] == run.results["f1"][0]
    assert run.metrics["mrr"] == run.ranking["mrr"][0]
    assert list(run.epochs["epoch"]) == list(range(len(run.epochs)))
    assert run.encoder.encode(["Crash"]).shape == (1, 16)
    with pytest.raises(ValueError, match="folder=by_call exists: give the name of a new folder"):
        gedbd.fit(demo, *SMALL, folder="by_call")


def test_objects_of_the_user_take_part(command, demo):
    counted = Epochs()
    logger = CSVLogger("log", name="", version="")
    run = gedbd.fit(demo, *SMALL, loss=Squares(0.5), callbacks=[counted], logger=logger, folder="own")
    assert counted.count == len(run.epochs)
    assert OmegaConf.load("own/config.yaml").loss.weight == 0.5  # runs that differ in it are not the same setting
    assert "train/loss" in pd.read_csv("log/metrics.csv")
    assert run.encoder.encode(["Crash"]).shape == (1, 16)
    with pytest.raises(BaseException, match=r"loss._target_=.*Squares is not run.*GEDBD_ALLOWED_TARGETS"):
        command("evaluate", "run=own")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["encoder=absent"], "absent"),
        (["trainer.max_epochs=0"], "trainer.max_epochs=0 must be 1 or more"),
        (["seeds=3"], "seeds=3: call fit once per seed"),
        (["task=pretraining"], "takes no corpus in Python: train it with gedbd train"),
        (["+trainer.fast_dev_run=true"], "debug=fdr"),
    ],
)
def test_mistakes_are_told_before_the_training(tmp_path, demo, options, message):
    with pytest.raises(ValueError, match=r"'demo' is not a corpus: read it with gedbd\.load_corpus"):
        gedbd.fit("demo", folder=tmp_path / "run")
    with pytest.raises(ValueError, match=message):
        gedbd.fit(demo, "encoder=tiny", *options, folder=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_trained_encoder_ranks_and_searches_as_by_commands(command, demo):
    smoke = ["encoder=tiny", "trainer=smoke", "graph=none", "ranking.parts=[]", "hydra.run.dir=training"]
    command("train", *smoke)
    command("baseline", "name=frozen", "run=training", "hydra.run.dir=frozen")
    encoder = gedbd.Encoder("training")
    result = gedbd.rank(demo, "frozen", encoder=encoder)
    stored = pd.read_parquet("frozen/queries.parquet")
    assert list(result.queries["rank"]) == list(stored["rank"])
    assert encoder.encode(["Crash"]).shape == (1, 16)  # projected, as it is trained
    tested = gedbd.backtest(demo, "training", options=["max_replayed=40", "ranker.kind=linear"])
    tested.save("tested")
    command("index", "run=tested", "out=stored")
    with gedbd.Index.build(demo, "stored", backtest=tested) as index:
        assert index.changes.unchanged == len(demo)
        _, vectors = index._stored.vectors()
    texts = (demo.reports["title"] + "\n" + demo.reports["description"]).str.strip()
    np.testing.assert_allclose(encoder.encode(list(texts[-3:]), kind="query"), vectors[-3:], atol=1e-5)
    with pytest.raises(ValueError, match=r"^run=training was trained with split=.*: set the same value$"):
        gedbd.rank(demo, "frozen", encoder=encoder, options=["split.test_from=0.7"])
    with pytest.raises(ValueError, match=r"^run=training: the corpus demo has changed since the run was trained$"):
        gedbd.rank(gedbd.load_corpus("demo", last_n=400), "frozen", encoder=encoder)
    with pytest.raises(ValueError, match=r"^run=training: there is no refit.ckpt in its checkpoints$"):
        gedbd.Encoder("training", checkpoint="refit")
