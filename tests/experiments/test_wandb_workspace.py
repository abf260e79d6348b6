"""The workspace and the sweep that the project makes for W&B, held against W&B's own models and a training's files."""

import sys
from pathlib import Path

import pytest
import yaml
from run_commands import composed
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args
from wandb_workspaces.reports.v2.interface import Config, LinePlot, ParallelCoordinatesPlot, SummaryMetric
from wandb_workspaces.workspaces import Workspace
from wandb_workspaces.workspaces.internal import View

import gedbd.commands.dashboard
import gedbd.train

pytestmark = pytest.mark.integration


@pytest.fixture
def dashboard(tmp_path, monkeypatch):
    def through(*options):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["gedbd", *options])
        gedbd.commands.dashboard.main()

    return through


@pytest.fixture
def workspace(dashboard, tmp_path) -> Workspace:
    """What W&B's library reads from the file."""
    dashboard("project=mine", "entity=me", "out=dashboard.json")
    return Workspace._from_model(View.model_validate_json((tmp_path / "dashboard.json").read_text()))


def columns(workspace: Workspace) -> list[Config | SummaryMetric]:
    (panel,) = workspace.sections[1].panels
    assert isinstance(panel, ParallelCoordinatesPlot)
    return [column.metric for column in panel.columns]


def by_epoch(workspace: Workspace) -> dict[str, list[str]]:
    panels = workspace.sections[0].panels
    assert all(isinstance(panel, LinePlot) and panel.x.name == "epoch" for panel in panels)
    return {panel.title: [metric.name for metric in panel.y] for panel in panels}


def test_the_workspace_has_the_panels(workspace):
    assert (workspace.entity, workspace.project, workspace.name) == ("me", "mine", "gedbd")
    curves = by_epoch(workspace)
    assert curves["Loss"] == ["train/loss", "val/loss"]
    assert curves["F1"] == ["train/f1", "val/f1"]
    assert curves["RR@10"] == ["val/rr@10"]
    names = [metric.name for metric in columns(workspace) if isinstance(metric, Config)]
    assert names == ["fusion.lambda_text", "loss.margin", "graph.pca_dim"]


def sweep_command(path: Path) -> tuple[dict, list[str]]:
    """A sweep's file, and the command that W&B's agent makes of it with one value of each parameter."""
    sweep = yaml.safe_load(path.read_text())
    values = {
        key: found["values"][0] if "values" in found else found["min"] for key, found in sweep["parameters"].items()
    }
    macros = create_sweep_command_args({"args": {key: {"value": value} for key, value in values.items()}})
    macros |= {"env": ["/usr/bin/env"], "interpreter": ["python"], "program": [sweep["program"]]}
    command = []
    for word in create_sweep_command(sweep["command"]):
        command += macros.get(word.removeprefix("${").removesuffix("}"), [word])
    return sweep, command


def test_the_sweep_is_a_training_with_its_options(dashboard, tmp_path):
    dashboard("project=mine", "sweep=sweep.yaml")
    sweep, command = sweep_command(tmp_path / "sweep.yaml")
    assert sweep["project"] == "mine"
    assert sweep["metric"] == {"name": "val/average_precision", "goal": "maximize"}
    assert command[:4] == ["/usr/bin/env", "python", "-m", "gedbd.train"]
    cfg = composed("train", *(word for word in command[4:] if not word.startswith("hydra.")))
    assert (cfg.fusion.lambda_text, cfg.loss.margin, cfg.graph.pca_dim) == (0.1, 0.0, 5)
    assert cfg.monitor == sweep["metric"]["name"]


def test_a_missing_key_or_package_is_told_in_one_line(dashboard, monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with pytest.raises(SystemExit, match=r"W&B needs an API key: [^\n]*; out=FILE sends nothing$"):
        dashboard("project=mine")
    monkeypatch.setattr("gedbd.commands.dashboard.find_spec", lambda name: None)
    with pytest.raises(SystemExit, match=r"^error: dashboard: wandb-workspaces is not installed: pip install"):
        dashboard("out=dashboard.json")


@pytest.mark.slow  # W&B tries for 20 seconds
def test_a_server_that_does_not_answer_is_told_in_one_line(dashboard, monkeypatch, capsys):
    monkeypatch.setenv("WANDB_API_KEY", "0" * 40)
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")
    with pytest.raises(SystemExit, match=r"^error: entity=me, project=mine: [^\n]*; out=FILE sends nothing$"):
        dashboard("project=mine", "entity=me")
    assert capsys.readouterr() == ("", "")
