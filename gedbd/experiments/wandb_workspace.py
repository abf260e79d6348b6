"""The Weights & Biases workspace that shows the runs of logger=wandb, and the file of a sweep that W&B controls."""

from pathlib import Path

import wandb
from wandb_workspaces.reports.v2.interface import (
    BarPlot,
    Config,
    LinePlot,
    PanelTypes,
    ParallelCoordinatesPlot,
    ParallelCoordinatesPlotColumn,
    SummaryMetric,
)
from wandb_workspaces.workspaces import Section, SectionLayoutSettings, Workspace, WorkspaceSettings

from gedbd.io.files import write_text

TEMPLATE = Path(__file__).with_name("wandb_sweep.yaml")
BY_EPOCH = {
    "Loss": ["train/loss", "val/loss"],
    "F1": ["train/f1", "val/f1"],
    "RR@10": ["val/rr@10"],
    "Average precision": ["val/average_precision"],
}
SETTINGS = {"fusion.lambda_text": "lambda", "loss.margin": "margin", "graph.pca_dim": "d"}
SELECTION_METRICS = ["val/average_precision", "val/f1", "val/rr@10"]  # settings are chosen on validation, never on test
TEST_METRICS = {"F1": "test/f1", "RR@10": "test/rr@10"}


def make_workspace(entity: str, project: str, name: str) -> Workspace:
    """Builds the workspace without sending it.

    Returns:
        Three sections: curves by epoch; parallel coordinates of the weight of the text branch (lambda), the margin and
        the dimensions of the title vectors (d), with their validation metrics; bars of the test metrics.
    """
    curves: list[PanelTypes] = [LinePlot(title=title, x="epoch", y=list(keys)) for title, keys in BY_EPOCH.items()]
    columns = [ParallelCoordinatesPlotColumn(Config(key), display_name=name) for key, name in SETTINGS.items()]
    columns += [ParallelCoordinatesPlotColumn(SummaryMetric(key)) for key in SELECTION_METRICS]
    settings = ParallelCoordinatesPlot(title="lambda, margin and d", columns=columns)
    bars: list[PanelTypes] = [BarPlot(title=f"Test {title}", metrics=[key]) for title, key in TEST_METRICS.items()]
    whole_width = SectionLayoutSettings(columns=1, rows=1)
    return Workspace(
        entity=entity,
        project=project,
        name=name,
        auto_generate_panels=False,
        sections=[
            Section(name="By epoch", panels=curves, is_open=True),
            Section(name="Settings", panels=[settings], is_open=True, layout_settings=whole_width),
            Section(name="Test", panels=bars, is_open=True),
        ],
        settings=WorkspaceSettings(x_axis="epoch"),
    )


def write_specification(workspace: Workspace, path: Path) -> None:
    """Writes the workspace as the JSON that W&B stores."""
    view = workspace._to_model()  # the library has no public function for it
    write_text(path, view.model_dump_json(by_alias=True, exclude_none=True, indent=2) + "\n")


def save_workspace(entity: str | None, project: str, name: str) -> str:
    """Saves the workspace as a view of a W&B project; returns its address.

    Raises:
        ValueError: If there is no API key, or W&B does not answer or refuses.
    """
    wandb.setup(wandb.Settings(silent=True))  # an error is one line
    try:
        if not wandb.login(verify=False, prompt=False):
            raise ValueError("W&B needs an API key: run `wandb login` or set WANDB_API_KEY")
        workspace = make_workspace(entity or wandb.Api().default_entity or "", project, name)
        return str(workspace.save().url)
    except (wandb.Error, ValueError) as error:
        raise ValueError(f"entity={entity}, project={project}: {error}; out=FILE sends nothing") from error


def write_sweep(project: str, path: Path) -> None:
    """Writes the sweep's YAML file for a project."""
    write_text(path, TEMPLATE.read_text().replace("project: gedbd\n", f"project: {project}\n", 1))
