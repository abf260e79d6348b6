"""The flags -q and -v, and what they change."""

import logging
import os
import subprocess
import sys

import pytest

import gedbd.io.console
from gedbd.io import console


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
    assert console.take_flags(words) == (rest, level)


def test_both_flags_are_refused():
    with pytest.raises(ValueError, match="give one of them"):
        console.take_flags(["-q", "-v"])


def test_the_level_holds_while_a_command_runs(monkeypatch):
    monkeypatch.delenv(console.VARIABLE, raising=False)
    with console.verbosity("quiet"):
        assert console.is_quiet()
        with console.verbosity(None):  # a further process inherits the environment
            assert console.is_quiet()
    assert not console.is_quiet()
    assert console.VARIABLE not in os.environ


def test_stages_and_logs_of_libraries_are_printed_on_request(monkeypatch, capsys):
    monkeypatch.delenv(console.VARIABLE, raising=False)
    for level in (None, "quiet", "verbose"):
        with console.verbosity(level), console.stage("count"):
            assert console.is_verbose() == (level == "verbose")
            logging.getLogger("library").info("of a library")
            logging.getLogger("library").debug("of its makers")
    output = capsys.readouterr()
    assert output.out == ""
    lines = [line.partition(" ")[2].partition(" ")[2] for line in output.err.splitlines()]
    assert lines[:2] == ["DEBUG gedbd.stages: count ...", "INFO library: of a library"]
    assert lines[2].startswith("DEBUG gedbd.stages: count: 0.0")
    assert len(lines) == 3


def work() -> None:
    """Work of several kinds, of which the short ones need no line."""
    list(console.track(range(1500), "replay", unit="reports"))
    list(console.track(range(99), "few", unit="reports"))
    with console.item_progress("reports", disable=True) as progress:
        progress.add_task("disabled", total=1500)
    with console.item_progress("MB") as progress:
        progress.add_task("small", total=10)
        progress.add_task("unknown size", total=None)
    list(console.track(range(3), "pairs"))
    with console.stage("short"), console.stage("measure", is_long=True):
        pass


def test_outside_a_terminal_long_work_is_announced_on_standard_error(monkeypatch, capsys):
    monkeypatch.delenv(console.VARIABLE, raising=False)
    work()
    output = capsys.readouterr()
    assert output.out.strip() == ""
    assert output.err.splitlines() == ["replay: 1,500 reports ...", "unknown size ...", "measure ..."]


class Clock:
    """A clock that work moves on."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def monotonic(self) -> float:
        return self.seconds

    def take(self, seconds: float) -> None:
        self.seconds += seconds


def long_work(clock: Clock) -> None:
    """600 reports in 12 batches: the first takes a minute, as it loads, and each other one 30 s."""
    with console.item_progress("reports", transient=False) as progress:
        task = progress.add_task("encode reports", total=600, once=True)
        for number in range(12):
            clock.take(30 if number else 60)
            progress.update(task, advance=50)
    for _ in console.track(range(20), "fit"):
        clock.take(4)


def test_long_work_says_its_length_and_then_a_line_a_minute(monkeypatch, capsys):
    monkeypatch.delenv(console.VARIABLE, raising=False)
    clock = Clock()
    monkeypatch.setattr("gedbd.io.console.time", clock)
    long_work(clock)
    assert capsys.readouterr().err.splitlines() == [
        "encode reports: 600 reports ...",
        "encode reports: 600 reports, about 6 min, once",
        "encode reports: 200 of 600 reports, 1.67/s, 4 min left",
        "encode reports: 300 of 600 reports, 1.67/s, 3 min left",
        "encode reports: 400 of 600 reports, 1.67/s, 2 min left",
        "encode reports: 500 of 600 reports, 1.67/s, 60 s left",
        "fit: about 76 s",
        "fit: 90%, 8 s left",
    ]


def test_items_of_unequal_length_are_timed_by_their_share_of_the_work(monkeypatch, capsys):
    monkeypatch.delenv(console.VARIABLE, raising=False)
    clock = Clock()
    monkeypatch.setattr("gedbd.io.console.time", clock)
    with console.item_progress("titles") as progress:
        task = progress.add_task("encode titles", total=1000)
        for share in (0.5, 0.75, 1.0):  # long titles come first
            progress.update(task, advance=10, share=share)
            clock.take(10)
    unknown = console.Pace("read bugs.csv", "rows", None)
    for done in (10_000, 20_000, 30_000):
        unknown.update(done)
        clock.take(45)
    assert capsys.readouterr().err.splitlines() == [
        "encode titles: 1,000 titles ...",
        "read bugs.csv: 30,000 rows, 222/s",
    ]
    assert unknown.state == "30,000 rows, 222/s"


@pytest.mark.parametrize("name", [console.VARIABLE, "RANK", "terminal"])
def test_nothing_is_announced_with_q_by_further_processes_and_beside_a_bar(monkeypatch, capsys, name):
    monkeypatch.delenv(console.VARIABLE, raising=False)
    clock = Clock()
    monkeypatch.setattr("gedbd.io.console.time", clock)
    if name == "terminal":
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the output for a terminal
    else:
        monkeypatch.setenv(name, {console.VARIABLE: "quiet", "RANK": "1"}[name])
    gedbd.io.console.announce("replay")
    if name != "terminal":
        long_work(clock)
    assert capsys.readouterr().err == ""


@pytest.mark.integration
def test_a_command_takes_the_flags(tmp_path):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    environment.pop(console.VARIABLE, None)
    command = [sys.executable, "-m", "gedbd", "describe"]
    output = [
        subprocess.run([*command, *flags], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        for flags in (["dataset=demo", "-q"], ["dataset=demo", "-v"])
    ]
    assert output[0].stdout == output[1].stdout
    assert output[0].stderr == ""
    assert "DEBUG gedbd.stages: check the options: " in output[1].stderr
