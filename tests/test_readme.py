"""The commands that the README shows can be given as they stand."""

import re
import shlex
from importlib import import_module
from pathlib import Path

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from gedbd.cli import command_names, module_name
from gedbd.configuration.locations import CONF_DIR
from gedbd.configuration.positional import literal_text, option_names, path_and_flags, positional_list

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "README.md").read_text()
BLOCKS = "\n".join(re.findall(r"^```bash\n(.*?)^```", TEXT, flags=re.DOTALL | re.MULTILINE))
SHOWN = re.findall(r"^((?:python -m gedbd\.|gedbd )\w[^#\n]*?)\s*(?:#.*)?$", BLOCKS, flags=re.MULTILINE)
COMMANDS = sorted({command.replace("python -m gedbd.", "gedbd ") for command in SHOWN})


def test_readme_shows_every_command():
    assert set(command_names()) == {command.split()[1] for command in COMMANDS}


@pytest.mark.parametrize("command", COMMANDS)
def test_command_composes(command):
    _, name, *options = shlex.split(command)
    assert callable(import_module(f"gedbd.{module_name(name)}").main)
    options = positional_list(options, "paths") if name == "report" else options
    options = path_and_flags(options, "path", ("method", "line", "out")) if name == "flow-graph" else options
    if name in ("locate", "search"):
        options = literal_text(options, "query", option_names(Path(CONF_DIR) / f"{name}.yaml"))
    single = [option.split(",")[0] for option in options if option != "-m" and "interval(" not in option]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        compose(module_name(name), overrides=single)


def test_readme_names_every_option():
    for folder in {path.parent for path in Path(CONF_DIR).glob("*/**/*.yaml")}:
        group = folder.relative_to(CONF_DIR).as_posix()
        rows = re.findall(rf"^\| `{group}` \|(.*?)\|", TEXT, flags=re.MULTILINE)
        assert rows, group
        ours = {path.stem for path in folder.glob("*.yaml")} - {"common", "titles"}
        named = set(re.findall(r"`(\w+)`", " ".join(rows)))
        assert ours <= named if group.startswith("hydra/") else ours == named  # plugins have options of their own


def test_the_table_of_encoders_is_that_of_their_files():
    rows = re.findall(
        r"^\| `(\w+)` \| `([\w./-]+)`[^|]*\| ([\d, ]+) \| [\d,]+ \| (\w+) \| (?:`(.*?)`)? ?\|$", TEXT, re.MULTILINE
    )
    assert len(rows) > 10
    for name, model, sizes, pooling, prefix in rows:
        cfg = OmegaConf.load(Path(CONF_DIR) / "encoder" / f"{name}.yaml")
        assert (model, pooling, prefix) == (cfg.model, cfg.pooling, cfg.prefix or ""), name
        assert [int(size) for size in sizes.split(",")] == list(cfg.get("matryoshka_dims", [int(sizes[:3])])), name


def test_make_targets_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    assert {"help", "install", "demo", "test", "check", "bench", "clean"} <= targets
    assert set(re.findall(r"^make ([\w-]+)", TEXT, flags=re.MULTILINE)) <= targets
