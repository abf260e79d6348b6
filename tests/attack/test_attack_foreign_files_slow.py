"""What gedbd saves itself is among what a file of somebody else may name."""

from pathlib import Path
from typing import Any

import pytest
from hydra import compose, initialize_config_dir
from omegaconf import OmegaConf

from gedbd.configuration.allowed_targets import check_options
from gedbd.configuration.command import CONF_DIR

pytestmark = pytest.mark.slow


def without_interpolations(value: Any) -> Any:
    """Options that are not resolved hold interpolations; what they name must be allowed."""
    if isinstance(value, dict):
        return {name: without_interpolations(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [without_interpolations(inner) for inner in value]
    return None if isinstance(value, str) and "${" in value else value


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train", "baseline", "backtest"])
def test_every_choice_of_conf_may_be_saved_and_read(command, tmp_path, monkeypatch):
    monkeypatch.setenv("GEDBD_CACHE", str(tmp_path / "cache"))
    checked = 0
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        choices = compose(command, return_hydra_config=True).hydra.runtime.choices
        for file in Path(CONF_DIR).glob("*/*.yaml"):
            if file.parent.name in set(choices) - {"experiment", "dataset"}:
                cfg = compose(command, [f"{file.parent.name}={file.stem}", "dataset=demo"])
                check_options(without_interpolations(OmegaConf.to_container(cfg, resolve=False)), "conf")
                checked += 1
    assert checked > 10
