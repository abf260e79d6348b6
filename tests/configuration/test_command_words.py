"""What people write that is not an option of Hydra: flags with two hyphens, and ``run=latest``."""

import os
from functools import partial
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir

from gedbd.configuration import command_words
from gedbd.configuration.command import options_for_hydra
from gedbd.experiments.run_folder import MATCHING, PREDICTIONS
from gedbd.io.files import CONF_DIR
from gedbd.localization.locating.tracker_ranker import RANKER

NAMES = {"index", "json", "top_k", "dataset", "run", "query"}


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("--index=my-index", "index=my-index"),
        ("--json x", "json=true x"),
        ("--json=false", "json=false"),
        ("--top-k=5 --dataset.path=a-b.csv", "top_k=5 dataset.path=a-b.csv"),
        ("-m --multirun --run --cfg job --config-dir=my", "-m --multirun --run --cfg job --config-dir=my"),
        ("--other=x -- --index=y --json", "--other=x -- --index=y --json"),
    ],
)
def test_flags_that_name_options_are_options(words, expected):
    assert command_words.gnu_options(words.split(), NAMES) == expected.split()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--index my-index", r"^--index: an option is written index=, such as index=my-index$"),
        ("--top-k --json", r"^--top-k: an option is written top_k=, such as top_k=VALUE$"),
    ],
)
def test_an_option_without_a_value_shows_the_right_form(words, message):
    with pytest.raises(ValueError, match=message):
        command_words.gnu_options(words.split(), NAMES)


def test_text_with_hyphens_stays_text():
    words = ["--index=i", "--json", "--", "app", "--index=x", "--version"]
    as_text = partial(command_words.literal_text, option="query", names=NAMES)
    expected = ["index=i", "json=true", "query='app --index=x --version'"]
    assert options_for_hydra("search", words, as_text) == expected
    with pytest.raises(ValueError, match="could be a flag or part of the text"):
        options_for_hydra("search", ["--crash", "index=i"], as_text)


def test_flags_come_first_and_own_folders_last(tmp_path):
    words = ["a b", "--config-dir", str(tmp_path), "--run=c", "-m"]
    as_sides = partial(command_words.positional_options, options=("run", "against"))
    with pytest.raises(ValueError, match="is one too many: give a value for each of run= and against="):
        options_for_hydra("compare", words, as_sides)
    words[1:3] = [f"--config-dir={tmp_path}"]
    searched = f"hydra.searchpath=['file://{tmp_path}']"
    assert options_for_hydra("compare", words, as_sides) == ["-m", "against='a b'", "run=c", searched]


def test_existing_paths_are_read_as_they_are_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["a b", "seed=1,lr=0.1", "it's", 'q"q', "[a]", "{}", "50%", "a#b", "für", "new\nline", "tail\\", "123"]
    names += ["null", "-x"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        for name in names:
            Path(name).mkdir()
            words = command_words.literal_paths([f"dataset.path={name}", "seed=123", f"data_dir=no/{name[:1]}"])
            assert compose("describe", ["dataset=auto", *words[:1]]).dataset.path == name
            assert words[1:] == ["seed=123", f"data_dir=no/{name[:1]}"]  # no path, and one that does not exist
    assert command_words.positional_list(["seed=1,lr=0.1", "out=x"], "paths") == ["out=x", "paths=['seed=1,lr=0.1']"]
    as_text = partial(command_words.literal_text, option="query", names=NAMES)
    assert options_for_hydra("search", ["index=a b", "crash"], as_text) == ["index=a b", "query='crash'"]
    Path("${seed}").mkdir()
    with pytest.raises(ValueError, match=r"^index=\$\{seed\}: options cannot hold a path with \$\{ in it: rename it$"):
        command_words.literal_paths(["index=${seed}"])


def test_a_configuration_that_does_not_exist_is_told(tmp_path):
    (tmp_path / "train.yaml").touch()
    for known in (["--config-name", "train"], ["-cn=train.yaml"], ["-cp", str(tmp_path), "-cn", "train"], ["seed=1"]):
        command_words.check_config_flags(command_words.parsed_flags(known), tmp_path)
    for unknown, missing in (
        (["--config-name", "foo"], tmp_path / "foo.yaml"),
        (["-cp", "nowhere", "-cn", "train"], "nowhere/train.yaml"),
        (["--config-path=nowhere", "seed=1"], "nowhere"),
    ):
        with pytest.raises(ValueError, match=f"^{missing} does not exist: leave --config-name and --config-path out; "):
            command_words.check_config_flags(command_words.parsed_flags(unknown), tmp_path)


def test_flags_of_hydra_are_left_to_it_and_others_are_refused():
    words = ["-m", "a=1", "--multirun", "--multi", "-cjob", "--cfg=all", "-cd=my", "--hydra-help", "a=--b"]
    assert command_words.flags_first(words) == [*words[:1], *words[2:-1], "a=1", "a=--b"]
    for word in ("-x", "--index", "--index=x", "-1", "--", "--experimental-rerun=job.pickle"):
        with pytest.raises(ValueError, match=f"^unknown flag {word.partition('=job')[0]}: "):
            command_words.parsed_flags([word])
    for words, message in (
        (["--cfg", "foo"], "^--cfg/-c: invalid choice: 'foo'"),
        (["--run=x"], "^--run/-r: ignored explicit argument 'x'$"),
        (["--cfg"], "^--cfg/-c: expected one argument$"),
        (["--resolve"], "^--resolve is for the options that --cfg prints: add --cfg job$"),
    ):
        with pytest.raises(ValueError, match=message):
            command_words.parsed_flags(words)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Finished and unfinished runs in the current folder, each a minute newer than the one before."""
    monkeypatch.chdir(tmp_path)
    made = {
        "demo/minilm/1": ("config.yaml", PREDICTIONS, "checkpoints/best.ckpt"),
        "demo/backtest/2": ("config.yaml", MATCHING),
        "demo/backtest/3": ("config.yaml", MATCHING),
        "demo/locate_backtest/4": ("config.yaml", RANKER),
        "demo/bm25/5": ("config.yaml", PREDICTIONS),
        "demo/minilm/6": ("config.yaml", "checkpoints/last.ckpt"),
        "demo/backtest/7": ("config.yaml",),
    }
    for minute, (folder, files) in enumerate(made.items()):
        for name in files:
            file = tmp_path / "outputs" / folder / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.touch()
            os.utime(file, (60 * minute, 60 * minute))


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("command", "folder"),
    [
        ("index", "backtest/3"),
        ("judge", "backtest/3"),
        ("locate", "locate_backtest/4"),
        ("evaluate", "minilm/1"),
        ("backtest", "minilm/1"),
    ],
)
def test_the_latest_run_is_the_newest_finished_one_that_the_command_takes(command, folder, capsys):
    assert command_words.with_latest_run(command, ["out=x", "run=latest"]) == ["out=x", f"run=outputs/demo/{folder}"]
    assert capsys.readouterr() == ("", f"run=latest: run=outputs/demo/{folder}\n")
    assert command_words.with_latest_run(command, ["run=./latest"]) == ["run=./latest"]
