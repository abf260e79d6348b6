"""Every command of docs/guides/localization.md, in its order, on a small repository and its reports."""

import re
import shlex
import sys
from importlib import import_module
from pathlib import Path

import pytest
from small_repository import NAMES, make_repository, write_reports

from gedbd.__main__ import module_of

PAGE = (Path(__file__).parents[1] / "docs" / "guides" / "localization.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, flags=re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in BLOCKS for line in block.splitlines()]


def give(command, monkeypatch, capsys):
    """Gives a command as a shell would, and returns what it prints."""
    program, name, *options = shlex.split(command)
    assert program == "gedbd"
    # As on the command line: --flags and texts without a name are read by the command.
    monkeypatch.setattr(sys, "argv", ["gedbd", *options])
    import_module(module_of(name)).main()
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.slow  # three commands; each has quick tests of its own
@pytest.mark.no_cover
def test_the_commands_of_the_page_lead_to_suspect_commits(tmp_path, monkeypatch, capsys):
    assert [command.split()[1] for command in COMMANDS] == ["describe", "locate-backtest", "locate"]
    ids = make_repository(tmp_path / "my-project")
    write_reports(tmp_path / "issues.csv")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    described, backtest, locate = COMMANDS
    told = give(described, monkeypatch, capsys)
    assert "my-project" in told
    assert "27" in told
    told = give(backtest, monkeypatch, capsys)
    (run,) = (tmp_path / "outputs" / "my-project" / "locate_backtest").iterdir()
    statement = re.search(r"On the history of my-project, an inducing commit was among .*? was met\.", told)
    assert statement
    assert f"run=outputs/my-project/locate_backtest/{run.name}" in told
    located = locate.replace("RUN", run.name).replace("Saving twice", f"{NAMES[5]}Reader")
    told = give(located, monkeypatch, capsys)
    assert statement[0] in told
    assert ids[16][:10] in told  # the inducing commit of the sixth bug
    assert "Ada" not in told


def test_the_page_names_options_that_exist():
    conf = Path(__file__).parents[1] / "conf"
    options = set(re.findall(r"^(\w+):", (conf / "locate_backtest.yaml").read_text(), flags=re.MULTILINE))
    named = set(re.findall(r"`(target|min_reports|fix_patterns|fixes|suffixes|max_diff_chars|max_files)\b", PAGE))
    assert len(named) == 7
    assert named <= options
