"""Mistakes on the command line: one line, before the long work, and nothing left behind."""

import sys
from contextlib import nullcontext
from importlib import import_module
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from refusals import mistakes

from gedbd.__main__ import module_of
from gedbd.configuration.command import CONF_DIR
from gedbd.configuration.option_types import BOUNDS, check_types, check_values, dotted_names


@pytest.fixture
def refuse(tmp_path, monkeypatch, capsys):
    """Runs a command that must end with one line before it begins, and leave nothing behind; gives the line."""
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")

    def through(name, *options):
        module = import_module(module_of(name))
        monkeypatch.setattr(sys, "argv", ["gedbd", *options])
        with pytest.raises(SystemExit) as raised:
            module.main()
        told = str(raised.value.code)
        assert told.startswith("error: ")
        assert "\n" not in told
        assert capsys.readouterr().err == ""
        assert list(Path.cwd().iterdir()) == []
        return told.removeprefix("error: ")

    return through


@pytest.mark.integration
@pytest.mark.parametrize(("options", "message"), mistakes("any command"))
def test_an_option_that_does_not_fit_is_told_before_the_command_begins(refuse, options, message):
    assert refuse(*options.split(" ")).startswith(message)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("caption", "dataset=git out=captions.csv captioner=tiny"),
        ("backtest", "dataset=git encoder=tiny"),
        ("baseline", "dataset=git name=bm25"),
        ("train", "dataset=git task=confirmation encoder=tiny"),
    ],
)
def test_a_history_of_changes_is_refused_before_it_is_read(refuse, command, options):
    told = refuse(command, "dataset.path=/", *options.split(" "))
    assert told.startswith("/: this is a history of changes, but this command needs a table of reports")


DEFAULTS = OmegaConf.create(
    {
        "seed": 0,
        "batch_size": 16,
        "chunk_tokens": None,
        "compile": False,
        "index": "???",
        "run": None,
        "fields": [],
        "ranks": [1, 5],
        "encoder": {"name": "tiny"},
        "optimizer": {"lr": 0.1},
        "pairs": {"negatives_in_evaluation": 5, "seed": "${seed}"},
        "split": {"val_from": 0.6},
        "trainer": {"max_epochs": 3, "gradient_clip_val": 1.0, "devices": 1, "precision": "${auto_precision:}"},
        "webhook": {"timeout_s": 10},
    }
)


@pytest.mark.parametrize(("option", "message"), mistakes("types"))
def test_a_value_of_another_type_is_refused_and_others_are_let_through(option, message):
    cfg = OmegaConf.merge(DEFAULTS, OmegaConf.from_dotlist([option]))
    with pytest.raises(ValueError, match=message) if message else nullcontext():
        check_types(cfg, DEFAULTS)
        check_values(cfg)


@pytest.mark.parametrize(("option", "problem"), mistakes("bounds"))
def test_a_number_out_of_bounds_is_refused(option, problem):
    with pytest.raises(ValueError, match=rf"^{option.partition('=')[0]}=\S+ must be {problem}$"):
        check_values(OmegaConf.from_dotlist([option]))


def test_every_option_with_bounds_exists():
    files = [OmegaConf.to_container(OmegaConf.load(path)) for path in Path(CONF_DIR).rglob("*.yaml")]
    known = {name for file in files for name in dotted_names(file)}
    # Files of groups leave out the section that they belong to.
    assert [name for name in BOUNDS if not {name, name.partition(".")[2]} & known] == []
