"""Writes a pre-training: tables, figures and page in the run folder, a table on the console."""

import json
import shlex
from datetime import datetime
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger, WandbLogger
from rich.console import Console

from gedbd.evaluation.report.page import write_report
from gedbd.evaluation.report.section import Section
from gedbd.evaluation.run_folders import OWN_PAGE
from gedbd.experiments.results import as_table
from gedbd.io.files import replacing, write_text
from gedbd.io.tables import write_csv
from gedbd.tasks.pretraining.figures import loss_curve, objective_curves
from gedbd.tasks.pretraining.result import PretrainingResult

OBJECTIVES_TEXT = (
    "Of each test method, 15% of the tokens of code and comment are predicted (mlm), and for 20% of the nodes the edges"
    " to their tokens of code (alignment), to other nodes (edge), to their types and to their roles: edges against as"
    " many non-edges. The base rate is the accuracy without a model: of the most frequent token; and of the majority"
    " by type, role or distance among training methods, or 0.5."
)
CURVES = {
    "total_loss": "Weighted sum of the losses by epoch",
    "objectives": "Loss and accuracy of each objective on validation by epoch",
}


def write_result(folder: Path, result: PretrainingResult, loggers: list[Logger], console: Console) -> None:
    """Writes, shows and logs a run.

    Args:
        folder: The run folder.
        result: What the run has measured.
        loggers: Loggers of the run.
        console: Where the table is shown.
    """
    tables = {"results": result.results, "objectives": result.objectives}
    for name, table in tables.items():
        write_csv(folder / f"{name}.csv", table)
    drawn = {
        "total_loss": loss_curve(result.epochs),
        "objectives": objective_curves(result.epochs, result.objectives["objective"].tolist()),
    }
    _save_figures(folder, drawn)
    page = write_report(
        folder,
        f"Pre-training: {result.corpus.name}",
        result.summary,
        [
            Section("Objectives", OBJECTIVES_TEXT, [result.objectives]),
            Section("Training", "By epoch.", [], [(name, CURVES[name], figure) for name, figure in drawn.items()]),
        ],
        command=_command(),
        date=datetime.now().astimezone(),
    )
    console.print(as_table(result.objectives, f"{result.corpus.name}, {result.num_tested:,} test methods"))
    console.print(result.summary, markup=False, highlight=False, soft_wrap=True)
    console.print(f"page: {page}", markup=False, highlight=False, soft_wrap=True)
    console.print(f"encoder: {folder / 'encoder'}", markup=False, highlight=False, soft_wrap=True)
    for logger in loggers:
        if isinstance(logger, WandbLogger):
            for name in drawn:
                logger.log_image(f"figures/{name}", [str(folder / "figures" / f"{name}.png")])
            for name, table in tables.items():
                logger.log_table(name, dataframe=table)
    # Last: with it the run counts as finished.
    write_text(folder / OWN_PAGE, json.dumps({"summary": result.summary}) + "\n")


def _save_figures(folder: Path, drawn: dict[str, Figure]) -> None:
    (folder / "figures").mkdir(exist_ok=True)
    for name, figure in drawn.items():
        with replacing(folder / "figures" / f"{name}.png") as unfinished:
            figure.savefig(unfinished, dpi=120)


def _command() -> str | None:
    """The command line of the running job; None outside of Hydra."""
    if not HydraConfig.initialized():
        return None
    return shlex.join(["python", "-m", "gedbd.train", *HydraConfig.get().overrides.task])
