"""The flags -q and -v, and what they change."""

import logging
import os
import subprocess
import sys

import pytest

from gedbd.io.console import VARIABLE, is_quiet, is_verbose, stage, take_flags, verbosity


@pytest.mark.parametrize(
    ("words", "rest", "level"),
    [
        (["a=1"], ["a=1"], None),
        (["-q", "a=1"], ["a=1"], "quiet"),
        (["a=1", "-m", "--quiet"], ["a=1", "-m"], "quiet"),
        (["--verbose", "-v"], [], "verbose"),
        (["-v", "--", "-q"], ["--", "-q"], "verbose"),  # after --, words are text
        (["java -v fails"], ["java -v fails"], None),
    ],
)
def test_flags_are_taken_out_of_a_command_line(words, rest, level):
    assert take_flags(words) == (rest, level)


def test_both_flags_are_refused():
    with pytest.raises(ValueError, match="give one of them"):
        take_flags(["-q", "-v"])


def test_the_level_holds_while_a_command_runs(monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with verbosity("quiet"):
        assert is_quiet()
        with verbosity(None):  # a further process inherits the environment
            assert is_quiet()
    assert not is_quiet()
    assert VARIABLE not in os.environ


def test_stages_and_logs_of_libraries_are_printed_on_request(monkeypatch, capsys):
    monkeypatch.delenv(VARIABLE, raising=False)
    for level in (None, "quiet", "verbose"):
        with verbosity(level), stage("count"):
            assert is_verbose() == (level == "verbose")
            logging.getLogger("library").info("of a library")
            logging.getLogger("library").debug("of its makers")
    told = capsys.readouterr()
    assert told.out == ""
    lines = [line.partition(" ")[2].partition(" ")[2] for line in told.err.splitlines()]
    assert lines[:2] == ["DEBUG gedbd.stages: count ...", "INFO library: of a library"]
    assert lines[2].startswith("DEBUG gedbd.stages: count: 0.0")
    assert len(lines) == 3


def test_a_command_takes_the_flags(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop(VARIABLE, None)
    command = [sys.executable, "-m", "gedbd.commands.describe"]
    told = [
        subprocess.run([*command, *flags], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        for flags in (["dataset=demo", "-q"], ["dataset=demo", "-v"])
    ]
    assert told[0].stdout == told[1].stdout
    assert told[0].stderr == ""
    assert "DEBUG gedbd.stages: check the options: " in told[1].stderr
