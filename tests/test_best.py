"""Training, baselines and backtest in order for one tracker, by the command; again, and after interruptions."""

import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from omegaconf import OmegaConf
from refusals import mistakes
from rich.console import Console
from run_commands import commands_in

import gedbd
from gedbd.corpora.corpus import TEST, TRAIN
from gedbd.encoders.encoder_weights import read_state
from gedbd.experiments.prepare import prepare_data
from gedbd.experiments.resuming import trained_epochs

pytestmark = pytest.mark.integration

DEMO = Path(gedbd.__file__).parent / "corpora" / "demo.csv"
BEST = ["experiment=best", "encoder=tiny", "trainer.accelerator=cpu", "trainer.enable_progress_bar=false"]
SMALL = ["dataset=demo", "dataset.path=bugs.csv", "task.backtest.max_replayed=50", "trainer.max_epochs=2"]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with the newest reports of the bundled corpus, and a way of running commands there."""
    folder = tmp_path_factory.mktemp("best")
    newest = pd.read_csv(DEMO, dtype=str, keep_default_na=False).tail(150)
    newest.to_csv(folder / "bugs.csv", index=False)
    with commands_in(folder) as run:
        yield folder, run


@pytest.fixture(scope="module")
def finished(home):
    """The folder of a finished run; not to be changed."""
    home[1]("train", *BEST, *SMALL, "hydra.run.dir=finished")
    return home[0] / "finished"


@pytest.fixture
def copied(finished):
    """The folder of a finished run, to change and to go on in."""
    folder = finished.with_name("copied")
    shutil.copytree(finished, folder)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def go_on(home, copied):
    """Runs the command in the copied folder again; gives what it prints of the MRR before and after the training."""

    def run(*options):
        printed = home[1]("train", *BEST, *SMALL, *options, "hydra.run.dir=copied").splitlines()
        (line,) = [line for line in printed if line.startswith("MRR of a ranker on validation: ")]
        return line

    return run


def values(folder):
    """Validation's MRR before and after the training."""
    after = pd.read_csv(folder / "metrics.csv")["val/ranker_mrr"].max()
    return float((folder / "frozen_ranker_mrr.txt").read_text()), after


def files(folder):
    """When each file of a run was written; Hydra writes its own at every start."""
    found = (path for path in folder.rglob("*") if path.is_file() and ".hydra" not in path.parts)
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in found}


def is_trained_taken(folder):
    """Whether trees and backtest of a run stand on the trained encoder."""
    boosted = OmegaConf.load(folder / "boosted" / "config.yaml").baselines.frozen.checkpoint
    tested = OmegaConf.load(folder / "backtest" / "config.yaml").run
    assert (boosted is None) == (tested is None)
    return tested is not None


def check_equal(folder, expected, *names):
    for name in names:
        read = pd.read_parquet if name.endswith(".parquet") else pd.read_csv
        pd.testing.assert_frame_equal(read(folder / name), read(expected / name), check_exact=True)


STEPS = ("fusion/ranking.csv", "boosted/ranking.csv", "backtest/targets.csv", "backtest/matches.parquet")


def test_a_run_trains_ranks_and_measures(finished):
    epochs = pd.read_csv(finished / "metrics.csv")
    assert list(epochs["epoch"]) == [0, 1]
    assert epochs["val/ranker_mrr"].between(0, 1).all()
    assert epochs["val/ranker_rr@10"].between(0, 1).all()
    for name in ("best.ckpt", "last.ckpt"):
        assert (finished / "checkpoints" / name).is_file()
    for name in ("fusion", "boosted"):
        assert pd.read_csv(finished / name / "results.csv")["method"].tolist() == [name, "always_duplicate"]
        assert pd.read_csv(finished / name / "ranking.csv")["mrr"].between(0, 1).all()
    assert OmegaConf.load(finished / "fusion" / "config.yaml").baselines.frozen.checkpoint is None
    before, after = values(finished)
    assert is_trained_taken(finished) == (after > before)
    page = (finished / "backtest" / "report.html").read_text()
    made = "gedbd train experiment=best encoder=tiny"
    assert f'<pre class="command">{made} ' in page
    targets = pd.read_csv(finished / "backtest" / "targets.csv")["target"].tolist()
    assert targets == [0.5, 0.6, 0.7, 0.8, 0.9]
    saved = OmegaConf.load(finished / "backtest" / "config.yaml")
    assert (saved.max_replayed, saved.split._target_) == (50, "gedbd.sampling.splits.TimeSplit")


def test_a_finished_run_is_not_repeated(copied, go_on):
    before, after = values(copied)
    written = files(copied)
    told = f"MRR of a ranker on validation: {before:.3f} before the encoder's training, {after:.3f} after"
    assert go_on() == told
    assert files(copied) == written


def test_an_interrupted_run_does_what_is_missing(finished, copied, go_on):
    (copied / "boosted" / "predictions.parquet").unlink()  # as a kill leaves it that comes while results are written
    check_repeated(finished, copied, go_on, "boosted")


def check_repeated(finished, copied, go_on, *steps):
    """A run does some steps, with the same results, and writes nothing else."""
    written = files(copied)
    go_on()
    changed = {name for name, time in files(copied).items() if written.get(name) != time}
    assert {name.partition("/")[0].partition("_")[0] for name in changed} == set(steps)
    assert set(files(copied)) == set(files(finished))
    names = ("boosted/predictions.parquet", "boosted/first_stage.csv")
    check_equal(copied, finished, *STEPS, *names)
    assert values(copied) == values(finished)
    assert is_trained_taken(copied) == is_trained_taken(finished)


def test_the_last_training_is_as_long_as_the_best_epoch_and_sees_the_validation_part(finished):
    best = pd.read_csv(finished / "metrics.csv")["val/ranker_mrr"].argmax() + 1
    assert trained_epochs(finished / "checkpoints" / "refit.ckpt") == best
    tested = OmegaConf.load(finished / "backtest" / "config.yaml")
    assert tested.weights == "refit"
    prepared = prepare_data(OmegaConf.load(finished / "config.yaml"), Console(quiet=True))
    larger = prepared.with_larger_training()
    assert larger.parts.tolist() == [TEST if part == TEST else TRAIN for part in prepared.parts]
    assert larger.pairs["part"].value_counts().to_dict() == {
        "train": (prepared.pairs["part"] != "test").sum(),
        "test": (prepared.pairs["part"] == "test").sum(),
    }
    assert set(larger.queries) == set(prepared.queries) - {"val"}


CALLBACK = """
from pytorch_lightning.callbacks import Callback


class Counted(Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        open("counted.txt", "a").write("x")
"""


def test_callbacks_run_in_the_last_training(home, finished, copied, go_on, monkeypatch):
    monkeypatch.syspath_prepend(str(home[0]))
    (home[0] / "counted.py").write_text(CALLBACK)
    (copied / "checkpoints" / "refit.ckpt").unlink()
    shutil.rmtree(copied / "refit")
    mine = "+callbacks.mine={_target_: counted.Counted}"
    go_on("callbacks=[early_stopping,model_checkpoint,lr_monitor]", mine, "+trainer.log_every_n_steps=1")
    epochs = trained_epochs(copied / "checkpoints" / "refit.ckpt")
    assert (home[0] / "counted.txt").read_text() == "x" * epochs
    kept = copied / "refit" / f"{epochs}_epochs"
    written = {path.name for path in (kept / "checkpoints").glob("*.ckpt")}
    assert written == {"last.ckpt", *(f"epoch_{epoch}.ckpt" for epoch in range(epochs))}
    assert pd.read_csv(kept / "steps" / "metrics.csv")["lr-AdamW/pg1"].dropna().size > 0
    expected, found = (read_state(folder / "checkpoints" / "refit.ckpt") for folder in (finished, copied))
    assert all(torch.equal(value, found[name]) for name, value in expected.items())


@pytest.mark.slow  # another training
def test_an_interrupted_last_training_ends_like_another(finished, copied, go_on):
    weights = copied / "checkpoints" / "refit.ckpt"
    weights.unlink()
    go_on()  # from the last epoch
    resumed = read_state(weights)
    weights.unlink()
    shutil.rmtree(copied / "refit")
    go_on()  # from the start
    for again in (resumed, read_state(weights)):
        for name, value in read_state(finished / "checkpoints" / "refit.ckpt").items():
            assert torch.equal(value, again[name])


@pytest.mark.slow  # trees and a backtest once more
@pytest.mark.parametrize("before", [1.0, 0.0])
def test_the_encoder_after_training_is_taken_if_it_is_better(home, copied, go_on, before):
    (copied / "frozen_ranker_mrr.txt").write_text(f"{before}\n")
    shutil.rmtree(copied / "boosted")
    shutil.rmtree(copied / "backtest")
    assert go_on().startswith(f"MRR of a ranker on validation: {before:.3f} before")
    assert is_trained_taken(copied) == (before == 0)
    if before == 0:
        frozen = OmegaConf.load(copied / "boosted" / "config.yaml").baselines.frozen
        assert frozen.checkpoint == str(copied / "checkpoints" / "refit.ckpt")
        assert frozen.val_checkpoint == str(copied / "checkpoints" / "best.ckpt")
        assert OmegaConf.load(copied / "backtest" / "config.yaml").run == str(copied)
        assert "stored: 150 added" in home[1]("index", "run=copied/backtest", "out=stored")


def test_other_options_in_the_folder_of_a_finished_run_are_refused(home, finished):
    written = files(finished)
    with pytest.raises(SystemExit, match=r"its run had \S*seed=0, this one has 3"):
        home[1]("train", *BEST, *SMALL, "seed=3", "hydra.run.dir=finished")
    assert files(finished) == written


@pytest.mark.quick_cases(1)
@pytest.mark.parametrize(("options", "message"), mistakes("best"))
def test_mistakes_are_told_in_one_line_before_the_training(home, options, message):
    with pytest.raises(SystemExit, match=message):
        home[1]("train", *BEST, *SMALL, *options.split(), "hydra.run.dir=refused")
    assert not (home[0] / "refused").exists()
