"""What --help prints of every command."""

import re
import sys

import pytest

import gedbd.commands.search
from gedbd.__main__ import command_names, config_name
from gedbd.configuration.command_words import positional_list, positional_options
from gedbd.configuration.help import command_help


def groups_of(text: str) -> dict[str, set[str]]:
    """The groups and their choices that a help text lists."""
    found: dict[str, set[str]] = {}
    for line in text.partition("Groups, ")[2].splitlines()[1:]:
        if match := re.fullmatch(r"  (\w+)", line):
            group = match[1]
        elif match := re.match(r"    (\w+)", line):
            found.setdefault(group, set()).add(match[1])
    return found


@pytest.mark.parametrize("command", command_names())
def test_help_begins_with_a_purpose_and_an_example_and_fits_a_terminal(command):
    text = command_help(config_name(command))
    purpose, blank, example, *_ = re.sub(r"\.\n\n", ".\n\n", text).partition("\n\n")
    assert purpose.endswith(".")
    assert blank == "\n\n"
    assert example.startswith(f"  gedbd {command} ")
    assert max(map(len, text.splitlines())) <= 80


def test_help_offers_what_serves_the_command(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["gedbd", "--help"])
    assert gedbd.commands.search.main() is None
    text = capsys.readouterr().out
    assert set(groups_of(text)) == {"backend"}
    assert "  query=null " in text
    assert not groups_of(command_help("compare"))


def test_help_tells_experiments_of_training_from_those_of_baselines():
    train, baseline = (groups_of(command_help(name)) for name in ("train", "baseline"))
    assert {"paper_text", "paper_code", "ours", "paper_tables", "sensitivity", "sbert", "supcon_paper"} <= train[
        "experiment"
    ]
    assert baseline["experiment"] == {"cqa_retrieval", "leak", "ranking"}
    assert "trainer" not in baseline
    assert {"eclipse", "demo", "github"} <= train["dataset"]
    assert not {"common", "titles"} & set(train["graph"])
    assert "experiment" not in groups_of(command_help("backtest"))


def test_help_shows_comments_sections_and_plain_defaults():
    text = command_help("train")
    assert "  compile=false                 torch.compile the encoder\n" in text
    assert "    adamw *               AdamW with two learning rates: one for pretrained" in text
    assert "  cache_dir=~/.cache/gedbd      cache of vectors" in text
    assert "  labels.*  " in text
    assert "    minilm *              all-MiniLM-L6-v2: small" in text
    assert "  baselines.tfidf.*             cosine of TF-IDF vectors\n" in command_help("baseline")


def test_positional_paths_become_an_option():
    assert positional_list(["a b", "out=x", "c"], "paths") == ["out=x", "paths=['a b','c']"]
    assert positional_list(["--help"], "paths") == ["--help"]
    assert positional_options(["it's.java", "line=3"], ("path",)) == [r"path='it\'s.java'", "line=3"]
    both = ("run", "against")
    assert positional_options(["a b", "-m", "c"], both) == ["run='a b'", "-m", "against='c'"]
    assert positional_options(["a", "run=b"], both) == ["against='a'", "run=b"]
