"""The console script, as it is installed: a process of its own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from filelock import FileLock

import gedbd
from gedbd.__main__ import command_names, main, overview
from gedbd.io.files import CONF_DIR
from gedbd.triage.storage.index_folder import LOCK

pytestmark = pytest.mark.integration

ROOT = Path(CONF_DIR).parent
SCRIPT = "import sys; sys.argv[0] = '/usr/bin/gedbd'; from gedbd.__main__ import main; main()"
HEAVY = "torch pytorch_lightning lightning_fabric torch_geometric wandb transformers pandas sklearn scipy matplotlib"
REPORT_IMPORTS = f"""
import atexit, sys
atexit.register(lambda: print("imported:", *(set({HEAVY.split()}) & set(sys.modules))))
"""


def start(*words, before="", **environment):
    """Runs the console script and gives its exit status, standard output and standard error."""
    command = [sys.executable, "-c", before + SCRIPT, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=os.environ | environment)
    return done.returncode, done.stdout, done.stderr


def imported_by(*words):
    """The large libraries that a command line imports."""
    _, out, _ = start(*words, before=REPORT_IMPORTS)
    return set(out.rpartition("imported:")[2].split())


def test_the_console_script_and_its_completion_are_declared():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"gedbd": f"{main.__module__}:main"}
    for words in (["train", "-sc", "install=bash"], ["search", "-sc", "install=bash"], ["-sc", "install=bash"]):
        assert start(*words)[1].rstrip().endswith("-F hydra_bash_completion gedbd")


def test_every_command_has_a_line():
    lines = overview().splitlines()
    for name in command_names():
        (line,) = [line for line in lines if line.startswith(f"  {name} ")]
        assert line.split()[1][0].isupper()
    assert max(map(len, lines)) <= 80
    assert {"train", "search", "serve"} <= set(command_names())
    assert "losses" not in command_names()


def test_a_command_of_two_words_is_written_with_a_hyphen():
    assert "flow-graph" in command_names()
    assert start("flow_graph")[2] == "error: unknown command flow_graph: did you mean flow-graph?\n"
    assert start("flow-graph", "--help")[1].startswith("Writes the semantic flow graph of a Java method")


def test_version_and_help():
    assert start("--version") == (0, f"gedbd {gedbd.__version__}\n", "")
    assert start("--help") == start() == (0, overview() + "\n", "")
    assert start("search", "--help")[1].startswith("Finds the stored reports")


@pytest.mark.parametrize("words", ["--help", "baseline --help"])
def test_a_reader_that_stops_early_is_no_error(words):
    before = "import os; reading, writing = os.pipe(); os.close(reading); os.dup2(writing, 1);"
    status, _, err = start(*words.split(), before=before)
    assert (status, err) == (0, "")


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ("describe --json --dataset=demo", 0, ""),
        ("search --version", 0, ""),
        ("search index=nowhere crash", 1, "error: nowhere: no index.sqlite there"),
        ("search index=nowhere top_k=x crash", 2, "error: top_k=x must be a whole number"),
        ("index --out my-index", 2, "error: --out: an option is written out=, such as out=my-index"),
        ("judge run=latest", 2, "error: run=latest: no finished run of gedbd backtest in outputs/"),
        ("compare --cfg nothing", 2, "error: --cfg/-c: invalid choice"),
        ("index dataset=demo out=held", 75, "error: held: the index is updated with a corpus by "),
    ],
)
def test_exit_statuses(words, status, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "held").mkdir()
    with FileLock(tmp_path / "held" / LOCK):
        given, _, err = start(*words.split())
    assert (given, err.startswith(message)) == (status, True), err
    assert bool(err) == bool(message)


def test_an_unknown_command_names_the_closest():
    assert start("serach") == (2, "", "error: unknown command serach: did you mean search?\n")
    assert start("xyzzy") == (2, "", "error: unknown command xyzzy: gedbd --help lists all commands\n")


def test_further_processes_are_started_by_the_name_of_the_module(monkeypatch):
    seen = {}

    def run_module(name, **options):
        seen.update(options, name=name, arguments=sys.argv)

    monkeypatch.setattr("gedbd.__main__.runpy.run_module", run_module)
    monkeypatch.setattr(sys, "argv", ["/usr/bin/gedbd", "train", "-m", "seed=1,2"])
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    main()
    assert seen.pop("arguments") == ["gedbd", "-m", "seed=1,2"]
    assert seen == {"name": "gedbd.train", "run_name": "__main__", "alter_sys": True}


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("gedbd tra", {"train"}),
        ("gedbd ", set(command_names())),
        ("gedbd search ind", {"index="}),
        ("gedbd train encoder=rob", {"encoder=roberta"}),
        ("gedbd serach x", set()),
    ],
)
def test_completion(line, words):
    status, out, _ = start("-sc", "query=bash", COMP_LINE=line)
    assert status == 0
    assert set(out.split()) == words


LIGHT = ["train --help", "search", "search index=nowhere top_k=five crash", "train encoder=brt", "index run=nowhere"]
LIGHT += ["train dataset=csv dataset.path=nowhere.csv", "evaluate run=nowhere"]


@pytest.mark.parametrize("words", LIGHT)
def test_help_and_refusals_import_nothing_large(words):
    assert imported_by(*words.split()) <= {"pandas"}  # which the table of a sweep imports


@pytest.mark.slow  # three processes that read
def test_a_missing_index_is_refused_without_a_model(tmp_path):
    assert not imported_by("search", f"index={tmp_path}", "crash") - {"pandas", "scipy"}
    assert not imported_by("index", f"run={tmp_path}", "out=new") - {"pandas", "scipy"}
    assert not imported_by("describe", "dataset=demo") - {"pandas", "scipy"}
