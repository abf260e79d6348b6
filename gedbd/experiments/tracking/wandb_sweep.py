"""The file for ``wandb sweep``: a search that Weights & Biases controls."""

from pathlib import Path

from gedbd.io.files import write_text

TEMPLATE = Path(__file__).with_name("wandb_sweep.yaml")


def write_sweep(project: str, path: Path) -> None:
    """Writes the sweep's YAML file for a project."""
    write_text(path, TEMPLATE.read_text().replace("project: gedbd\n", f"project: {project}\n", 1))
