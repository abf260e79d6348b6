"""The workspace and the sweep that the project makes for W&B, held against W&B's own models and a training's files."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml
from hydra import compose, initialize_config_dir
from offline_runs import offline_runs
from wandb.sdk.launch.sweeps.utils import create_sweep_command, create_sweep_command_args
from wandb_workspaces.reports.v2.interface import BarPlot, Config, LinePlot, ParallelCoordinatesPlot, SummaryMetric
from wandb_workspaces.workspaces import Workspace
from wandb_workspaces.workspaces.internal import View

import gedbd.commands.dashboard
import gedbd.train
from gedbd.configuration.command import CONF_DIR

ROOT = Path(gedbd.train.__file__).parents[1]
TINY = ["encoder=tiny", "trainer=smoke"]


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


@pytest.mark.integration
def test_the_sweep_is_a_training_with_its_options(dashboard, tmp_path):
    dashboard("project=mine", "sweep=sweep.yaml")
    sweep, command = sweep_command(tmp_path / "sweep.yaml")
    assert sweep["project"] == "mine"
    assert sweep["metric"] == {"name": "val/average_precision", "goal": "maximize"}
    assert command[:4] == ["/usr/bin/env", "python", "-m", "gedbd.train"]
    with initialize_config_dir(CONF_DIR, version_base="1.3"):
        cfg = compose("train", [word for word in command[4:] if not word.startswith("hydra.")])
    assert (cfg.fusion.lambda_text, cfg.loss.margin, cfg.graph.pca_dim) == (0.1, 0.0, 5)
    assert cfg.monitor == sweep["metric"]["name"]


@pytest.mark.slow
def test_the_sweep_trains_and_logs_what_the_workspace_shows(dashboard, workspace, tmp_path):
    dashboard("project=mine", "sweep=sweep.yaml")
    sweep, command = sweep_command(tmp_path / "sweep.yaml")
    environment = os.environ | {"GEDBD_CACHE": str(tmp_path / "cache"), "PYTHONPATH": str(ROOT)}
    environment |= {"WANDB_MODE": "offline", "WANDB_SWEEP_ID": "s1", "WANDB_RUN_ID": "r1", "OMP_NUM_THREADS": "1"}
    words = [sys.executable, *command[2:], *TINY]
    subprocess.run(words, cwd=tmp_path, env=environment, check=True, capture_output=True)
    (found,) = offline_runs(tmp_path / "outputs" / "wandb" / "s1" / "r1")
    assert found.id == "r1"
    assert sweep["metric"]["name"] in found.keys
    shown = {name for names in by_epoch(workspace).values() for name in names} | {"epoch"}
    shown |= {metric.name for metric in columns(workspace) if isinstance(metric, SummaryMetric)}
    bars = workspace.sections[2].panels
    assert all(isinstance(panel, BarPlot) for panel in bars)
    shown |= {metric.name for panel in bars for metric in panel.metrics}
    assert shown <= found.keys
    for metric in columns(workspace):
        if isinstance(metric, Config):
            group, key = metric.name.split(".")
            assert key in found.config[group]


class Server(BaseHTTPRequestHandler):
    """Answers as much of W&B's API as saving a view needs, and keeps what is saved."""

    saved: list[dict] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body) if self.path == "/graphql" else {"query": ""}
        data = {"viewer": {"id": "u", "entity": "me", "username": "me", "flags": "{}", "teams": {"edges": []}}}
        if "upsertView" in asked["query"]:
            self.saved.append(asked["variables"])
            data = {"upsertView": {"view": {"id": "v1", "name": asked["variables"]["name"]}, "inserted": True}}
        answer = json.dumps({"data": data}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


@pytest.mark.slow
def test_the_workspace_is_saved_in_the_default_entity(workspace, tmp_path):
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environment = {key: value for key, value in os.environ.items() if not key.startswith("WANDB_")}
    environment |= {"WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}", "WANDB_API_KEY": "a" * 40}
    environment |= {"HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "gedbd.commands.dashboard", "project=mine"]
    told = subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True).stdout
    server.shutdown()
    server.server_close()
    (saved,) = Server.saved
    assert (saved["entityName"], saved["projectName"], saved["displayName"]) == ("me", "mine", "gedbd")
    sections = json.loads(saved["spec"])["section"]["panelBankConfig"]["sections"]
    assert [section["name"] for section in sections] == [section.name for section in workspace.sections]
    assert f"{environment['WANDB_BASE_URL']}/me/mine?nw=" in told


def test_a_missing_key_is_told(dashboard, monkeypatch, tmp_path):
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    with pytest.raises(SystemExit, match="W&B needs an API key"):
        dashboard("project=mine")
