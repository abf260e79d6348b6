"""From a tracker's export to a page in the commands that the manual gives to a maintainer."""

import re
import shlex
import shutil
import sys
from importlib import import_module
from pathlib import Path

from gedbd.__main__ import module_of

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "guides" / "tracker.md"


def test_newcomer_gets_from_an_export_to_a_page(tmp_path, monkeypatch, capsys):
    commands = re.findall(r"^(?:gh|gedbd \w+) [^#\n]*", PAGE.read_text(), re.MULTILINE)[:3]
    assert [command.split()[0] for command in commands] == ["gh", "gedbd", "gedbd"]
    assert commands[0].endswith("> issues.json")
    shutil.copy(HERE / "corpora" / "readers" / "issues.json", tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    for command in commands[1:]:
        _, name, *options = shlex.split(command)
        tiny = ["encoder=tiny"] if name == "backtest" else []
        monkeypatch.setattr(sys, "argv", ["gedbd", *options, *tiny])
        import_module(module_of(name)).main()
    shown = capsys.readouterr().out.replace("\n", "")
    page = re.search(r"page:\s*(\S+report\.html)", shown)
    assert page
    text = Path(page[1]).read_text()
    assert "Which precision targets are met?" in text
    assert "so all figures are uncertain" in text
