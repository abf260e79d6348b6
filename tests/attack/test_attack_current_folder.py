"""A command that is started in a stranger's folder imports nothing from it, nor does a process that it starts."""

import subprocess
import sys
from pathlib import Path

import pytest

from gedbd import __main__ as cli
from gedbd.triage.storage.compaction import Compaction

NAMES = ("evil", "json", "gedbd", "numpy", "sqlite3", "sitecustomize", "hydra_plugins")


@pytest.fixture
def trace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that modules in the current folder leave when they are imported."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")  # as if it were not set
    return tmp_path / "trace"


def test_processes_of_a_command_import_nothing_from_it(trace, monkeypatch):
    def start(name: str, **_: object) -> None:
        for words in (["-m", "evil"], ["-c", "import evil"]):
            assert subprocess.run([sys.executable, *words], stderr=subprocess.DEVNULL, check=False).returncode == 1

    monkeypatch.setattr("gedbd.__main__.runpy.run_module", start)
    monkeypatch.setattr(sys, "argv", ["gedbd", "train"])
    cli.main()
    assert not trace.exists()


def test_the_process_that_compacts_an_index_imports_nothing_from_it(trace, caplog):
    compaction = Compaction(trace.parent / "index.sqlite", lambda: None)
    compaction.start()
    compaction.wait()
    assert "could not be rebuilt" in caplog.text  # there is no index
    assert not trace.exists()
