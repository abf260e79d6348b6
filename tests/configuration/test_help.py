"""What --help prints of every command."""

import re
import sys
from pathlib import Path

import pytest

import gedbd.search
from gedbd.configuration.command import CONF_DIR
from gedbd.configuration.help import command_help

CONF = Path(CONF_DIR)
COMMANDS = sorted({path.stem for path in CONF.glob("*.yaml")} - {"shared"})


def groups_of(text: str) -> dict[str, set[str]]:
    """The groups and their options that a help text lists."""
    listed = text.partition("Groups, ")[2].partition("Options, ")[0]
    found: dict[str, set[str]] = {}
    for line in listed.splitlines()[1:]:
        if match := re.match(r"^  (\w+)  ", line):
            name = match[1]
        if line:
            found.setdefault(name, set()).update(re.findall(r"[a-z]\w*", line[32:]))
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_fits_a_terminal(command):
    text = command_help(CONF, command)
    assert text.startswith(f"python -m gedbd.{command}")
    assert max(map(len, text.splitlines())) <= 80


def test_help_offers_what_serves_the_command(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gedbd", "--help"])
    assert gedbd.search.main() is None
    text = capsys.readouterr().out
    assert set(groups_of(text)) == {"backend"}
    assert "  query=null " in text
    assert not groups_of(command_help(CONF, "compare"))


def test_help_tells_experiments_of_training_from_those_of_baselines():
    train, baseline = (groups_of(command_help(CONF, name)) for name in ("train", "baseline"))
    assert {"paper_text", "paper_code", "ours", "table5", "sensitivity", "sbert"} <= train["experiment"]
    assert baseline["experiment"] == {"leak", "ranking", "sbert_frozen", "sbert_frozen_screenshots"}
    assert "trainer" not in baseline
    assert {"eclipse", "demo", "github"} <= train["dataset"]
    assert "titles" not in train["graph"]
    assert "experiment" not in groups_of(command_help(CONF, "backtest"))


def test_help_shows_comments_sections_and_plain_defaults():
    text = command_help(CONF, "train")
    assert "  optimizer.lr=5.0e-6           of the pretrained encoder\n" in text
    assert "  cache_dir=~/.cache/gedbd\n" in text
    assert "  labels.*  " in text
    assert "  baselines.tfidf.*\n" in command_help(CONF, "baseline")
