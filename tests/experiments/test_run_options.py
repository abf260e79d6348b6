"""Which options a run goes on with."""

import json
import shutil
import zipfile
from functools import partial
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from gedbd.configuration.command import CONF_DIR
from gedbd.configuration.saved_options import SCHEMA, VERSIONS, read_saved, saved_options
from gedbd.experiments.run_options import check_resumable, resumed_options


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
        return resumed_options(plain(cfg), words, cfg.hydra.runtime.choices, partial(compose, "train"))

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


def test_the_same_options_may_be_given_again(resume):
    assert resume(FIRST, FIRST).encoder.dim == 8


@pytest.mark.quick_cases(3)
@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("encoder.dim=16", "its run had encoder.dim=8, this one has 16: leave the option out"),
        ("loss.margin=0.1", "its run had loss.margin=0.0, this one has 0.1"),
        ("seed=5", "its run had seed=4, this one has 5"),
        ("dataset.name=other", "its run had dataset.name=demo, this one has other"),
        ("encoder=minilm", "its run had encoder.name=tiny, this one has minilm"),
        ("encoder=tiny", "its run had encoder.dim=8, this one has 16"),
        ("pairs=sampled", "its run had batches._target_=.*PKBatches, this one has .*PairBatches"),
        ("protocol=test_pool", r"its run had ranking.protocols=.'earlier'., this one has .'earlier', 'test_pool'."),
        ("+encoder@graph.titles=tiny", "its run had graph.titles=null, this one has"),
        ("experiment=demo", "its run had batch_size=32, this one has 64"),
    ],
)
def test_an_option_that_must_not_differ_is_refused_with_both_values(resume, given, message):
    with pytest.raises(ValueError, match=message):
        resume(FIRST, [given])


def test_an_older_run_takes_new_options_from_the_defaults(resume, tmp_path):
    resume(FIRST)
    stored = OmegaConf.load(tmp_path / "run" / "config.yaml")
    del stored["chunk_tokens"]
    older = tmp_path / "older"
    (older / "checkpoints").mkdir(parents=True)
    pack(older / "checkpoints" / "last.ckpt")
    OmegaConf.save(stored, older / "config.yaml")
    shutil.copy(tmp_path / "run" / VERSIONS, older)
    words = [f"ckpt_path={older}/checkpoints/last.ckpt"]
    cfg = compose("train", [*words, "chunk_tokens=5"], return_hydra_config=True)
    taken = resumed_options(
        plain(cfg), [*words, "chunk_tokens=5"], cfg.hydra.runtime.choices, partial(compose, "train")
    )
    assert (taken.chunk_tokens, taken.encoder.dim) == (5, 8)
    check_resumable(taken)


def test_paths_that_are_repeated_follow_the_command_line(resume, tmp_path):
    first = ["dataset=eclipse", "data_dir=old", "backend=openvino"]
    assert resume(first).dataset.data_dir == str(tmp_path / "old")
    taken = resume(first, ["data_dir=new", "cache_dir=kept"])
    assert (taken.data_dir, taken.dataset.data_dir) == (str(tmp_path / "new"),) * 2
    assert (taken.cache_dir, taken.backend.cache_dir) == (str(tmp_path / "kept"),) * 2


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
    assert (stored.cache_dir, stored.dataset.image_dir) == ("~/cache", None)
    project.rename(tmp_path / "moved")
    assert read_saved(Path("moved/run")).dataset.path == str(tmp_path / "moved" / "bugs.csv")
    (tmp_path / "moved" / "run").rename(tmp_path / "run")
    assert read_saved(Path("run")).dataset.path == str(project / "bugs.csv")


def test_a_model_on_a_hub_and_a_file_in_a_package_are_no_paths(train):
    stored = saved_options(plain(train("encoder=bert")))
    assert (stored["encoder"]["model"], stored["dataset"]["path"]) == (
        "google-bert/bert-base-uncased",
        "pkg://gedbd.corpora/demo.csv",
    )


def test_a_checkpoint_that_was_cut_off_is_named(resume, tmp_path):
    resume(FIRST)
    checkpoint = tmp_path / "run" / "checkpoints" / "last.ckpt"
    checkpoint.write_bytes(checkpoint.read_bytes()[:-10])
    with pytest.raises(ValueError, match=r"last.ckpt is damaged: it cannot be read as a checkpoint"):
        check_resumable(OmegaConf.create({"ckpt_path": str(checkpoint)}))


@pytest.mark.parametrize(("content", "message"), [(": :\n - {", "is damaged"), ("- a", "it holds no options")])
def test_a_damaged_configuration_is_named(tmp_path, content, message):
    (tmp_path / "config.yaml").write_text(content)
    with pytest.raises(ValueError, match=f"config.yaml is damaged: .*|{message}"):
        read_saved(tmp_path)


@pytest.mark.parametrize(
    ("versions", "made_by"), [({}, "an older"), ({"schema": 1}, "an older"), ({"schema": 99}, "a newer")]
)
def test_a_run_folder_of_another_schema_is_refused_in_one_line(train, tmp_path, versions, made_by):
    write(train(), tmp_path)
    (tmp_path / VERSIONS).write_text(json.dumps(versions))
    with pytest.raises(ValueError, match=rf"^{tmp_path} was written by {made_by} version of gedbd: ") as refused:
        read_saved(tmp_path)
    assert "\n" not in str(refused.value)
