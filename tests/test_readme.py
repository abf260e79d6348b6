"""README and manual: commands can be given as they stand, Python runs, tables can be filled."""

import re
import shlex
import subprocess
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from omegaconf import OmegaConf
from run_commands import composed

import gedbd
from gedbd.__main__ import command_names, config_name, module_of
from gedbd.commands.flow_graph import VALUE_FLAGS
from gedbd.configuration.command_words import gnu_options, literal_text, positional_list, positional_options
from gedbd.configuration.help import option_words
from gedbd.experiments.report.report_page import Section, fill_tables
from gedbd.io.files import CONF_DIR

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in (ROOT / "README.md", *DOCS.rglob("*.md"))}
TEXT = "\n".join(PAGES.values())
BLOCKS = "\n".join(re.findall(r"^```bash\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE))
SHOWN = re.findall(r"^((?:python -m gedbd\.|gedbd )\w[^#\n]*?)\s*(?:#.*)?$", BLOCKS, flags=re.MULTILINE)
# Those with a folder of options run with its page, see tests/manual.
COMMANDS = sorted({command.replace("python -m gedbd.", "gedbd ") for command in SHOWN if "my_conf" not in command})
# Without the files of walk-throughs, which run with the page's commands.
PYTHON_BLOCK = re.compile(r"^```python\n(?!# [\w/]+\.py\n)(.*?)^```", flags=re.DOTALL | re.MULTILINE)
PYTHON = {name: PYTHON_BLOCK.findall(PAGES[name]) for name in PAGES}
RUN_HERE = ("README.md", "docs/guides/encoders.md")
FILLED = [(name, title) for name in PAGES for title in re.findall(r"<!-- report: (.*?) -->\n", PAGES[name])]


def test_every_command_is_shown_and_pages_are_short():
    assert set(command_names()) == {command.split()[1] for command in COMMANDS}
    lines = {name: text.splitlines() for name, text in PAGES.items()}
    assert max(map(len, lines["README.md"])) <= 120
    assert len(lines.pop("README.md")) <= 150
    assert {name: len(of_page) for name, of_page in lines.items() if len(of_page) > 180} == {}
    assert sum(map(len, lines.values())) <= 1900


@pytest.mark.integration
@pytest.mark.parametrize("command", COMMANDS)
def test_command_composes(command):
    _, name, *options = shlex.split(command)
    assert callable(import_module(module_of(name)).main)
    options = positional_list(options, "paths") if name == "report" else options
    if name == "flow-graph":
        options = positional_options(gnu_options(options, (), VALUE_FLAGS), ("path",))
    if name in ("locate", "search"):
        options = literal_text(options, "query", option_words(name))
    # Of a sweep's values the first one; "callbacks=[a,b]" is one value.
    plain = [option for option in options if option != "-m" and "interval(" not in option]
    single = [option if "=[" in option else option.split(",")[0] for option in plain]
    composed(config_name(name), *single)


def test_all_pages_with_python_have_a_test_that_runs_them():
    tests = [path.read_text() for path in (ROOT / "tests").rglob("*.py") if path != Path(__file__)]
    for path in (Path(name) for name, blocks in PYTHON.items() if blocks and name not in RUN_HERE):
        named = (f'"{path.name}"', f'"{path.parent.name}"')
        assert any(name in text for text in tests for name in named), f"no test reads {path}"


@pytest.mark.integration
@pytest.mark.parametrize("name", RUN_HERE)
def test_python_blocks_run(name, tmp_path, monkeypatch, capsys):
    (block,) = (block for block in PYTHON[name] if "gedbd.fit" not in block)  # tests/api trains
    reports = pd.read_csv(Path(gedbd.__file__).parent / "corpora" / "demo.csv").head(12)
    reports.to_csv(tmp_path / "bugs.csv", index=False)
    vectors = np.eye(12, 32, dtype=np.float32)
    np.savez(tmp_path / "vectors.npz", id=np.arange(12).astype(str), vectors=vectors)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    exec(block, {})
    assert capsys.readouterr().out


def test_tables_are_on_one_page_and_can_be_filled():
    assert {title.split(":")[0] for _, title in FILLED} >= {"Ranking", "Leak audit", "By labels.fraction"}
    assert len(set(FILLED)) == len({title for _, title in FILLED})
    for name in {name for name, _ in FILLED}:
        titles = [title for of_page, title in FILLED if of_page == name]
        emptied = fill_tables(PAGES[name], [Section(title, "", []) for title in titles])
        assert re.findall(r"<!-- report: (.*?) -->\n<!-- end -->", emptied) == titles
        assert [line for line in emptied.splitlines() if not line.startswith("|")] != []


def test_every_option_is_named():
    for folder in {path.parent for path in Path(CONF_DIR).glob("*/**/*.yaml")}:
        group = folder.relative_to(CONF_DIR).as_posix()
        rows = re.findall(rf"^\| `{group}` \|(.*?)\|", PAGES["docs/reference/groups.md"], flags=re.MULTILINE)
        assert rows, group
        ours = {path.stem for path in folder.glob("*.yaml")} - {"common", "titles"}
        named = set(re.findall(r"`(\w+)`", " ".join(rows)))
        assert ours <= named, f"name in docs/reference/groups.md what conf/{group}/ holds: {ours - named}"
        # Plugins have options of their own.
        assert ours == named or group.startswith("hydra/"), f"conf/{group}/ holds no {named - ours}"


def test_the_table_of_encoders_is_that_of_their_files():
    rows = re.findall(
        r"^\| `(\w+)` \| `([\w./-]+)`[^|]*\| ([\d, ]+) \| [\d,]+ \| (\w+) \| (?:`(.*?)`)? ?\|$", TEXT, re.MULTILINE
    )
    assert len(rows) > 10
    for name, model, sizes, pooling, prefix in rows:
        cfg = OmegaConf.load(Path(CONF_DIR) / "encoder" / f"{name}.yaml")
        assert (model, pooling, prefix) == (cfg.model, cfg.pooling, cfg.prefix or ""), name
        assert [int(size) for size in sizes.split(",")] == list(cfg.get("matryoshka_dims", [int(sizes[:3])])), name


def test_make_targets_exist_and_install_says_how_to_activate_the_environment():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"help", "install", "demo", "test", "check", "bench", "clean"} <= targets
    assert set(re.findall(r"^make ([\w-]+)", BLOCKS, flags=re.MULTILINE)) <= targets
    # make test runs this test within make, which would name its folders.
    command = ["make", "--no-print-directory", "-n", "install"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert told.splitlines()[-1] == 'echo "next: source .venv/bin/activate"'
