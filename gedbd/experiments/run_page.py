"""The end of a run that has a page of its own: tables and figures on disk, on screen and on the dashboard."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pandas as pd
from hydra.core.hydra_config import HydraConfig
from matplotlib.figure import Figure
from pytorch_lightning.loggers import Logger
from rich.console import Console

from gedbd.evaluation.figures import name_subject, save_figure
from gedbd.experiments.evaluation_result import log_files
from gedbd.experiments.report.report_page import Section, write_report
from gedbd.experiments.run_folder import OWN_PAGE
from gedbd.io.command_output import print_table, record
from gedbd.io.console import print_line, print_path
from gedbd.io.files import write_text
from gedbd.io.table_files import write_csv


@dataclass(frozen=True)
class RunPage:
    """What a run has measured, to be written and shown.

    Attributes:
        title: What the page is about, such as ``Bug localization``; the name of the corpus follows it.
        corpus: Name of the corpus.
        summary: The result in a few sentences.
        tables: Tables by the name of their CSV file.
        shown: Tables for the terminal by their titles.
        sections: The sections of the page; their figures become files of their names.
        metrics: Numbers for the loggers by key.
    """

    title: str
    corpus: str
    summary: str
    tables: Mapping[str, pd.DataFrame]
    shown: Mapping[str, pd.DataFrame]
    sections: list[Section]
    metrics: Mapping[str, float] = field(default_factory=dict)

    def write(self, folder: Path, loggers: list[Logger], console: Console) -> None:
        """Writes CSV files, figures and page into a run folder, shows tables and logs; the run is finished then."""
        for name, table in self.tables.items():
            write_csv(folder / f"{name}.csv", table)
        figures = [(name, figure) for section in self.sections for name, _, figure in section.figures]
        (folder / "figures").mkdir(exist_ok=True)
        for name, figure in figures:
            assert isinstance(figure, Figure)
            save_figure(name_subject(figure, self.corpus), folder / "figures" / name)
        # Outside of Hydra there is no command line.
        typed = HydraConfig.get().overrides.task if HydraConfig.initialized() else None
        page = write_report(
            folder,
            f"{self.title}: {self.corpus}",
            self.summary,
            self.sections,
            command=None if typed is None else shlex.join(["gedbd", "train", *typed]),
            date=datetime.now().astimezone(),
        )
        record(folder=folder, corpus=self.corpus, page=page, summary=self.summary, **self.tables)
        for title, table in self.shown.items():
            print_table(console, table, title)
        print_line(console, self.summary)
        print_path(console, "page:", page)
        for logger in loggers if self.metrics else ():
            logger.log_metrics(dict(self.metrics))
        log_files(loggers, folder, self.tables, [name for name, _ in figures])
        mark_finished(folder, self.summary)


def mark_finished(folder: Path, summary: str) -> None:
    """Writes the last file of the run, with which it counts as finished; ``summary`` is shown in lists of runs."""
    write_text(folder / OWN_PAGE, json.dumps({"summary": summary}) + "\n")
