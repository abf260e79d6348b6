"""The paper's Table 3: localization after pre-training by several objectives."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from hydra import compose
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.configuration.command_words import quoted_text
from gedbd.experiments.published import print_paper_table, read_published, readable, write_paper_page
from gedbd.experiments.resuming import readable_checkpoint
from gedbd.experiments.run_folder import OWN_PAGE, Run
from gedbd.experiments.sweeps.jobs import FINISHED, read_jobs
from gedbd.experiments.sweeps.sweep_table import job_results
from gedbd.experiments.training_task import Task
from gedbd.io.console import open_console, print_line
from gedbd.io.table_files import write_csv
from gedbd.localization.training.localization_output import PUBLISHED_METRICS, REMARK, published_remarks

FOLDER = "pretraining"
ENCODER = "encoder"  # folder of a run that pre-trains, with its encoder
TITLE = "Localization by objectives of pre-training, with the paper's Table 3"
ROWS = {
    "data_flow": "data flow alone, as GraphCodeBERT",
    "nodes_edges": "nodes and edges",
    "all": "nodes, edges, types, roles",
}
PAPER = (
    "The paper's first row of a project has the numbers of GraphCodeBERT in its Tables 2 and 4, which others have"
    " pre-trained on other data. Ours are pre-trained on the same methods, for equally many epochs."
)


@dataclass(frozen=True)
class FirstPretraining:
    """Pre-training in the folder ``pretraining`` of the run, starting from the section ``encoder`` of the run.

    Raises:
        ValueError: If the row is unknown.
    """

    methods: str  # Java sources, see ``dataset=java_sources``
    row: str  # one of ``rows``
    rows: Mapping[str, Mapping[str, Any]]  # options of ``gedbd train`` by section, for each row of the table
    options: Mapping[str, Any]  # options of all rows, likewise
    groups: Sequence[str]  # options of groups, such as ``task=pretraining``

    def __post_init__(self) -> None:
        if self.row not in self.rows:
            raise ValueError(f"task.pretraining.row={self.row} is unknown: choose from {', '.join(self.rows)}")

    def encoder(self, cfg: DictConfig, folder: Path, console: Console) -> Path:
        """Trains the encoder, unless it is finished, and returns its folder; an interrupted training is resumed.

        Args:
            cfg: Options of the run, whose seed, device and cache are used.
            folder: The run folder.
            console: Console for results and warnings.
        """
        subfolder = folder / FOLDER
        if not (subfolder / OWN_PAGE).is_file():
            base = compose(
                "train", overrides=[*self.groups, f"dataset.path={quoted_text(str(Path(self.methods).absolute()))}"]
            )
            composed = OmegaConf.merge(base, dict(self.options), dict(self.rows[self.row]))
            assert isinstance(composed, DictConfig)
            for name in ("accelerator", "devices", "precision", "enable_progress_bar"):
                composed.trainer[name] = cfg.trainer[name]
            for name in ("encoder", "cache_dir", "seed"):
                composed[name] = cfg[name]
            composed.ckpt_path = readable_checkpoint(subfolder)
            task: Task = instantiate(composed.task)
            subfolder.mkdir(exist_ok=True)
            task.train(composed, subfolder, console)
        return subfolder / ENCODER


def write_table3(sweep_dir: Path, options: Sequence[str] = ()) -> None:
    """Writes ``table3.csv`` and ``table3.md`` of all finished runs of a sweep, and prints the table.

    Args:
        sweep_dir: The sweep's folder.
        options: Unused.
    """
    console = open_console()
    finished = [folder for folder, status in read_jobs(sweep_dir).items() if status.state == FINISHED]
    if not finished:
        print_line(console, f"table3: no table, because no run of {sweep_dir} has finished")
        return
    table = table3(finished)
    write_csv(sweep_dir / "table3.csv", table)
    printed = readable(table)
    print_paper_table(console, printed, TITLE)
    write_paper_page(sweep_dir, "table3", TITLE, [printed], [REMARK, PAPER], {}, console)


def table3(runs: Sequence[Path]) -> pd.DataFrame:
    """The measured rows, one for each run of ``experiment=locate_table3``, then the published ones.

    Returns:
        ``project``, ``pretraining`` (see ``ROWS``), ``source`` (``here`` or ``Table 3``), the metrics by their
        published names, and ``remark`` on published numbers.
    """
    measured = []
    for run in map(Run, runs):
        results = job_results(run.folder)
        row = {"project": run.corpus, "pretraining": run.config.task.pretraining.row}
        measured.append(row | {metric: results[ours] for metric, ours in PUBLISHED_METRICS.items()})
    published = read_published("localization", "table3").rename(columns={"corpus": "project", "method": "pretraining"})
    published = published.assign(remark=published_remarks(published))
    table = pd.concat([pd.DataFrame(measured).assign(source="here", remark=""), published], ignore_index=True)
    table = table.assign(pretraining=table["pretraining"].map(lambda row: ROWS.get(row, row)))
    return table[["project", "pretraining", "source", *PUBLISHED_METRICS, "remark"]]
