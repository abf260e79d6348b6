import tomllib
from pathlib import Path

import pytest
from hydra.utils import instantiate
from omegaconf import MISSING, OmegaConf

from gedbd.config import CONF_DIR, door
from gedbd.data.readers.tabular import read_csv

EMPTY = OmegaConf.create({"path": MISSING})


def test_what_the_task_returns_is_handed_on():
    assert door("describe")(lambda cfg: 0.75)(EMPTY) == 0.75


def test_a_value_error_becomes_one_line_and_a_status():
    def task(cfg):
        raise ValueError("reports.csv, row 3: no date\ninternals")

    with pytest.raises(SystemExit) as raised:
        door("describe")(task)(EMPTY)
    assert raised.value.code == "error: reports.csv, row 3: no date"


def test_a_value_error_inside_instantiate_does_too():
    call = {"_target_": f"{read_csv.__module__}.read_csv", "name": None, "path": "none.csv", "columns": {}}
    with pytest.raises(SystemExit, match=r"^error: none.csv: no such file"):
        door("describe")(lambda cfg: instantiate(call))(EMPTY)


def test_a_missing_value_is_named():
    with pytest.raises(SystemExit, match=r"^error: Missing mandatory value: path$"):
        door("describe")(lambda cfg: cfg.path)(EMPTY)


def test_full_errors_on_request_and_for_our_own_mistakes(monkeypatch):
    def task(cfg):
        raise ValueError("where from?")

    with pytest.raises(ZeroDivisionError):
        door("describe")(lambda cfg: 1 / 0)(EMPTY)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="where from"):
        door("describe")(task)(EMPTY)


def test_the_configuration_lies_where_it_is_said_to():
    assert CONF_DIR.endswith("conf")
    assert OmegaConf.load(f"{CONF_DIR}/dataset/demo.yaml").name == "demo"


def test_every_folder_is_packaged():
    root = Path(CONF_DIR).parent
    listed = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    code = {path.parent for name in ("gedbd", "hydra_plugins") for path in root.glob(f"{name}/**/__init__.py")}
    settings = {path.parent for path in root.glob("conf/**/*.yaml")}
    expected = {".".join(folder.relative_to(root).parts) for folder in code}
    expected |= {".".join(("gedbd", *folder.relative_to(root).parts)) for folder in settings}
    assert set(listed) == expected
