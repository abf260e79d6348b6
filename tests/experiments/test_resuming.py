"""Which options a run continues with, and what is printed after Ctrl-C."""

import json
import shlex
import zipfile
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf
from refusals import mistakes

from gedbd.configuration.command import CONF_DIR
from gedbd.experiments.resuming import check_resumable, continuation_message, resumed_options
from gedbd.experiments.run_folder import SCHEMA, VERSIONS, read_saved, saved_options


@pytest.fixture(autouse=True)
def _hydra():
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        yield


@pytest.fixture
def train(tmp_path, monkeypatch):
    """The options of a command line, in plain values."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    return lambda *words: compose("train", list(words), return_hydra_config=True)


@pytest.fixture
def resume(train, tmp_path):
    """Leaves the folder of a run with some options, and goes on with others; gives the options that are taken."""

    def through(first, second=()):
        checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
        checkpoint.parent.mkdir(parents=True, exist_ok=True)
        pack(checkpoint)
        write(train(*first), tmp_path / "run")
        words = [f"ckpt_path={checkpoint}", *second]
        cfg = train(*words)
        return resumed_options(plain(cfg), words, cfg.hydra.runtime.choices)

    return through


def pack(checkpoint: Path):
    """An archive, as PyTorch writes them."""
    with zipfile.ZipFile(checkpoint, "w") as archive:
        archive.writestr("data", "")


def plain(cfg):
    return OmegaConf.masked_copy(cfg, [key for key in cfg if key != "hydra"])


def write(cfg, folder: Path):
    cfg = plain(cfg)
    cfg.logger = None
    (folder / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(saved_options(cfg))))
    (folder / VERSIONS).write_text(json.dumps({"schema": SCHEMA}))


FIRST = ["encoder=tiny", "encoder.dim=8", "pairs=pk", "trainer=smoke", "trainer.max_epochs=9", "seed=4"]


def test_a_checkpoint_alone_brings_all_options_of_its_run(resume, train):
    taken, expected = resume([*FIRST, "patience=7"]), saved_options(plain(train(*FIRST, "patience=7")))
    assert {**taken, "ckpt_path": None, "logger": None} == {**expected, "logger": None}


def test_what_may_differ_is_taken_from_the_command_line(resume):
    taken = resume(FIRST, ["trainer.max_epochs=12", "+trainer.max_steps=5", "patience=1"])
    assert (taken.trainer.max_epochs, taken.trainer.max_steps, taken.patience) == (12, 5, 1)
    assert (taken.trainer.limit_train_batches, taken.trainer.enable_progress_bar) == (2, False)
    taken = resume(FIRST, ["trainer=ddp", "logger=wandb", "logger.wandb.save_dir=here"])
    assert (taken.trainer.strategy, taken.trainer.max_epochs, taken.logger.wandb.project) == ("ddp", 9, "gedbd")
    assert "limit_train_batches" not in taken.trainer


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(("given", "message"), mistakes("resumed"))
def test_an_option_that_must_not_differ_is_refused_with_both_values(resume, given, message):
    with pytest.raises(ValueError, match=message):
        resume(FIRST, [given])


def test_all_caches_are_those_of_the_command_line(resume, tmp_path):
    taken = resume(["backend=openvino"], ["cache_dir=kept"])
    assert [Path(folder).absolute() for folder in (taken.cache_dir, taken.backend.cache_dir)] == [tmp_path / "kept"] * 2


def test_stored_paths_are_absolute_and_found_again_when_a_project_moves(train, tmp_path, monkeypatch):
    project = tmp_path / "project"
    (project / "run").mkdir(parents=True)
    (project / "bugs.csv").touch()
    (project / "model").mkdir()
    monkeypatch.chdir(project)
    write(train("dataset=csv", "dataset.path=bugs.csv", "encoder.model=model", "cache_dir='~/cache'"), project / "run")
    (project / "run" / "versions.json").write_text(json.dumps({"schema": SCHEMA, "folder": f"{project}/run"}))
    monkeypatch.chdir(tmp_path)
    stored = read_saved(project / "run")
    assert (stored.dataset.path, stored.encoder.model) == (str(project / "bugs.csv"), str(project / "model"))
    assert (stored.cache_dir, stored.dataset.image_dir) == (str(tmp_path / "cache"), None)
    project.rename(tmp_path / "moved")
    assert read_saved(Path("moved/run")).dataset.path == str(tmp_path / "moved" / "bugs.csv")
    (tmp_path / "moved" / "run").rename(tmp_path / "run")
    assert read_saved(Path("run")).dataset.path == str(project / "bugs.csv")


def test_a_checkpoint_that_was_cut_off_is_named(resume, tmp_path):
    resume(FIRST)
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"last.ckpt is damaged: it cannot be read as a checkpoint"):
        check_resumable(OmegaConf.create({"ckpt_path": str(checkpoint), "cache_dir": None}))


@pytest.mark.parametrize(
    ("versions", "made_by"), [({}, "an older"), ({"schema": 1}, "an older"), ({"schema": 99}, "a newer")]
)
def test_a_run_folder_of_another_schema_is_refused_in_one_line(train, tmp_path, versions, made_by):
    write(train(), tmp_path)
    (tmp_path / VERSIONS).write_text(json.dumps(versions))
    with pytest.raises(ValueError, match=rf"^{tmp_path} was written by {made_by} version of gedbd: ") as refused:
        read_saved(tmp_path)
    assert "\n" not in str(refused.value)


GIVEN = ["encoder=tiny", "text.order=[title,component]", "ckpt_path=elsewhere/last.ckpt"]

CONTINUED = "ckpt_path='outputs/lr=1 (a)/checkpoints/last.ckpt'"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "outputs" / "lr=1 (a)"
    (run / "checkpoints").mkdir(parents=True)
    return run


def test_a_run_continues_from_its_checkpoint_or_starts_again(folder):
    told, command = continuation_message(GIVEN[:2], folder).splitlines()
    assert "before the end of the first epoch" in told
    assert shlex.split(command) == ["gedbd", "train", *GIVEN[:2]]
    (folder / "checkpoints" / "last.ckpt").touch()
    told, command = continuation_message(GIVEN, folder).splitlines()
    assert "outputs/lr=1 (a)/checkpoints/last.ckpt" in told
    assert shlex.split(command) == ["gedbd", "train", *GIVEN[:2], CONTINUED]


def test_several_runs_continue_by_the_folder_above(folder, tmp_path, monkeypatch):
    monkeypatch.delenv("PYTHONPATH", raising=False)
    _, command = continuation_message(["-m", "seed=1,2", "hydra.sweep.dir=x"], folder, "hydra.sweep.dir").splitlines()
    assert shlex.split(command)[2:] == ["-m", "seed=1,2", "hydra.sweep.dir='outputs/lr=1 (a)'"]
    _, command = continuation_message(["seeds=2"], tmp_path / "plain", "hydra.run.dir").splitlines()
    assert command == "  gedbd train seeds=2 hydra.run.dir=plain"
    _, command = continuation_message(["seeds=2"], tmp_path / "Ann's", "hydra.run.dir").splitlines()
    assert shlex.split(command)[-1] == r"hydra.run.dir='Ann\'s'"
