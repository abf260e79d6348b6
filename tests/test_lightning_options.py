"""What users of Hydra and Lightning type: own folders of options, callbacks, loggers, options of the trainer.

Rule: what is typed is used or refused in one line.
"""

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from omegaconf import DictConfig
from refusals import mistakes

pytestmark = pytest.mark.integration

SMALL = ["hydra.run.dir=run", "encoder=tiny", "trainer=smoke", "batch_size=8", "graph=none", "ranking.parts=[]"]
OWN = """
loss/mine.yaml: |
  _target_: gedbd.losses.CosineEmbeddingLoss
  margin: 0.125
callbacks/noted.yaml: |
  noted: {_target_: own_callbacks.Noted, word: file}
experiment/mine.yaml: |
  # @package _global_
  defaults: [override /loss: mine, override /callbacks: noted]
  seed: 7
"""


CALLBACK = """
from pytorch_lightning.callbacks import Callback


class Noted(Callback):
    def __init__(self, word="given"):
        self.word = word

    def on_train_start(self, trainer, pl_module):
        open("noted.txt", "a").write(self.word)


class Falling(Callback):
    def on_validation_epoch_end(self, trainer, pl_module):
        self.log("val/mine", -float(trainer.current_epoch))


class FallingAtTheEnd(Callback):
    def on_train_epoch_end(self, trainer, pl_module):
        assert trainer.callback_metrics["val/f1"] >= 0
        self.log("val/mine", -float(trainer.current_epoch))
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "own_callbacks.py").write_text(CALLBACK)


@pytest.fixture
def type_in(run_command: Any) -> Any:
    """Runs the training command with some words."""
    return partial(run_command, "train")


@pytest.fixture
def options(type_in: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The options with which the command would train."""
    taken: list[DictConfig] = []
    monkeypatch.setattr("gedbd.experiments.seeds.train_seeds", lambda cfg, *_: taken.append(cfg) or 0.0)

    def through(*words: str) -> DictConfig:
        type_in(*SMALL, *words)
        return taken.pop()

    return through


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder with a loss, callbacks and an experiment."""
    from omegaconf import OmegaConf

    for name, text in OmegaConf.create(OWN).items():
        file = tmp_path / "my conf" / str(name)
        file.parent.mkdir(parents=True)
        file.write_text(text)
    return tmp_path / "my conf"


@pytest.mark.parametrize(
    "words",
    [
        ["'hydra.searchpath=[\"file://my conf\"]'", "loss=mine"],
        ["loss=mine", "--config-dir", "my conf", "seed=1"],
        ["--config-dir=my conf", "loss=mine"],
    ],
)
def test_an_own_folder_is_searched_wherever_it_stands(options: Any, own: Path, words: list[str]) -> None:
    assert options(*(word.strip("'") for word in words)).loss.margin == 0.125


def test_an_own_experiment_chooses_own_files_and_their_values_are_checked(options: Any, own: Path) -> None:
    cfg = options("experiment=mine", "--config-dir", str(own))
    assert (cfg.loss.margin, cfg.seed, cfg.callbacks.noted.word) == (0.125, 7, "file")
    assert options("experiment=mine", "loss.margin=0.5", "-cd", str(own)).loss.margin == 0.5
    with pytest.raises(SystemExit, match=r"^error: loss\.margin=abc must be a number$"):
        options("loss=mine", "loss.margin=abc", "--config-dir", str(own))
    with pytest.raises(SystemExit, match=r"^error: experiment=mime is unknown: did you mean mine\?"):
        options("experiment=mime", "--config-dir", str(own))


@pytest.mark.parametrize("words", [["--config-dir", "none"], ["hydra.searchpath=[file://none]"]])
def test_an_own_folder_that_does_not_exist_is_refused(options: Any, words: list[str]) -> None:
    with pytest.raises(SystemExit, match=rf"^error: {words[0].partition('=')[0]}=(file://)?none: no such folder"):
        options(*words)


def test_callbacks_are_chosen_by_name_and_added(options: Any, own: Path) -> None:
    assert list(options().callbacks) == ["early_stopping"]
    assert options("patience=9").callbacks.early_stopping.patience == 9
    assert list(options("callbacks=[early_stopping,lr_monitor]").callbacks) == ["early_stopping", "lr_monitor"]
    cfg = options("callbacks=[early_stopping,noted]", "callbacks.noted.word=umlaut", f"--config-dir={own}")
    assert (list(cfg.callbacks), cfg.callbacks.noted.word) == (["early_stopping", "noted"], "umlaut")
    with pytest.raises(SystemExit, match=r"callbacks=nix is unknown: choose one of device_stats, early_stopping"):
        options("callbacks=nix")


@pytest.mark.parametrize(("word", "message"), mistakes("trainer"))
def test_what_cannot_be_used_is_refused_in_one_line(
    type_in: Any, monkeypatch: pytest.MonkeyPatch, word: str, message: str
) -> None:
    monkeypatch.setattr("gedbd.experiments.loggers.find_spec", lambda name: None)
    with pytest.raises(SystemExit) as raised:
        type_in(*SMALL, word)
    assert "\n" not in str(raised.value.code)
    assert pytest.raises(SystemExit, match=f"^error: {message}").matches(raised.value)
    assert not Path("run").exists()


def test_what_needs_validations_is_refused_where_a_last_training_has_none(type_in: Any) -> None:
    words = ["experiment=best", "dataset=demo", "encoder=tiny", "trainer.accelerator=cpu", "hydra.run.dir=run"]
    with pytest.raises(SystemExit, match=r"^error: callbacks=swa averages at validations.*: set task\.refit=false$"):
        type_in(*words, "callbacks=swa")
    with pytest.raises(SystemExit, match=r"^error: callbacks=model_checkpoint: monitor=val/f1 is .*: set task\.refit"):
        type_in(*words, "callbacks=model_checkpoint", "callbacks.model_checkpoint.monitor=val/f1")


def test_callbacks_loggers_and_the_profiler_are_used(type_in: Any, run_command: Any) -> None:
    noted = "+callbacks.mine={_target_: own_callbacks.Noted}"
    loggers = [f"+logger.{name}={{_target_: pytorch_lightning.loggers.CSVLogger, save_dir: {name}}}" for name in "ab"]
    chosen = "callbacks=[swa,model_checkpoint,lr_monitor]"
    type_in(*SMALL, chosen, noted, *loggers, "trainer.max_epochs=2", "+trainer.profiler=simple", "logger=csv")
    assert Path("noted.txt").read_text() == "given"
    for name in "ab":
        (epochs,) = Path(name).rglob("metrics.csv")
        assert pd.read_csv(epochs)["val/f1"].notna().sum() == 2
    assert {path.name for path in Path("run/checkpoints").iterdir()} == {
        *("best.ckpt", "last.ckpt", "SHA256SUMS"),
        *("epoch_0.ckpt", "epoch_1.ckpt"),
    }
    assert "run_training_epoch" in Path("run/fit-profile.txt").read_text()
    # What was named for training is not needed to test again.
    run_command("evaluate", "run=run", "part=val")


def test_short_runs_log_learning_rates_and_are_validated(type_in: Any) -> None:
    type_in(*SMALL, "debug=fdr", "callbacks=lr_monitor", "+trainer.log_every_n_steps=1", "+trainer.max_steps=1")
    assert "lr-AdamW/pg1" in pd.read_csv("run/steps/metrics.csv")
    assert pd.read_csv("run/metrics.csv")["val/f1"].notna().tolist() == [True]


@pytest.mark.parametrize("name", ["Falling", "FallingAtTheEnd"])
def test_a_metric_of_an_own_callback_chooses_the_best_epoch(type_in: Any, name: str) -> None:
    own = f"+callbacks.mine={{_target_: own_callbacks.{name}}}"
    type_in(*SMALL, own, "monitor=val/mine", "trainer.max_epochs=4", "patience=1")
    assert pd.read_csv("run/metrics.csv")["val/mine"].tolist() == [0, -1]
    assert torch.load("run/checkpoints/best.ckpt", weights_only=True)["epoch"] == 0


def test_a_metric_that_nothing_logs_is_refused(type_in: Any) -> None:
    own = "+callbacks.mine={_target_: own_callbacks.Falling}"
    with pytest.raises(SystemExit, match=r"^error: .*monitor='val/other'.* could not find the monitored key in the re"):
        type_in(*SMALL, own, "monitor=val/other")
    with pytest.raises(
        SystemExit, match=r"^error: monitor=val/mine is not logged: .*; val/NAME of your own needs \+call"
    ):
        type_in(*SMALL, "monitor=val/mine")
