"""Writes the results of a sweep next to the paper's numbers, with notes on what can be compared."""

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Any

import pandas as pd
from hydra.experimental.callback import Callback
from matplotlib.figure import Figure
from omegaconf import DictConfig

from gedbd.evaluation.figure_files import save_figure
from gedbd.evaluation.report.report_page import markdown, slug
from gedbd.evaluation.report.run_settings import Setting, group_settings
from gedbd.evaluation.report.section import show
from gedbd.evaluation.run_folders import Run, find_runs
from gedbd.experiments.sweeps.paper_table import device, print_paper_table, readable
from gedbd.io.console import escape_markdown, open_console, print_line, print_path
from gedbd.io.files import write_text
from gedbd.io.table_files import write_csv
from gedbd.tasks.duplicates.reproduction import paper_tables
from gedbd.tasks.duplicates.reproduction.paper_tables import convergence
from gedbd.tasks.duplicates.reproduction.sensitivity_table import find_jobs, sensitivity, sensitivity_figure

TITLES = {
    "table4": "Minutes of a training epoch, with the paper's Table 4",
    "table5": "Precision, recall and F1 on test pairs, with the paper's Table 5",
    "figures34": "Loss and F1 by epoch, with the paper's Figures 3 and 4",
    "sensitivity": "Sensitivity of the test metrics, one option at a time",
}
HEADINGS = {"average_precision": "AP", "precision": "P", "recall": "R", "f1": "F1", "relative": "rel."}
PAPER = (
    'Columns "paper ..." are the numbers of Bayramoğlu et al., measured on the training files of Eclipse Platform and'
    " Thunderbird in bughub, with 50,000 pairs each, split as pairs, on an A100 with 80 GB. Empty: not in the paper."
)
NO_PAPER = (
    "The paper names these options as future work (section 6) and has no numbers. Intervals (95%) are Student's t over"
    ' seeds; "base" marks the value of an option while others were varied.'
)


def write_item(name: str, sweep_dir: Path, options: Sequence[str]) -> None:
    """Writes ``<name>.csv``, ``<name>.md`` and figures of all finished runs of a sweep, and prints the table.

    Args:
        name: ``table4``, ``table5``, ``figures34`` or ``sensitivity``.
        sweep_dir: The sweep's folder.
        options: The options that the sweep varied, for ``sensitivity``.
    """
    console = open_console()
    try:
        runs = [run for run in find_runs([sweep_dir]).finished if not run.is_baseline]
    except ValueError:
        print_line(console, f"{name}: no table, because no run of {sweep_dir} has finished")
        return
    settings = group_settings(runs)
    if name == "sensitivity":
        table, figures = _sensitivity(sweep_dir, runs, options)
    else:
        table = getattr(paper_tables, name)(settings)
        figures = _convergence(settings) if name == "figures34" else {}
    if table.empty:
        print_line(console, f"{name}: the jobs of {sweep_dir} vary none of {', '.join(options)}")
        return
    write_csv(sweep_dir / f"{name}.csv", table)
    for stem, figure in figures.items():
        save_figure(figure, sweep_dir / stem)
    notes = [_corpus_note(mine) for mine in _by_corpus(settings)]
    notes.append(NO_PAPER if name == "sensitivity" else PAPER)
    shown = show(readable(table, HEADINGS))
    lines = [f"# {TITLES[name]}", "", *(f"- {escape_markdown(note)}" for note in notes), "", *markdown(shown)]
    lines += [line for stem in figures for line in ("", f"![{TITLES[name]}]({stem}.png)")]
    write_text(sweep_dir / f"{name}.md", "\n".join(lines) + "\n")
    if name != "figures34":  # too wide for a terminal
        print_paper_table(console, table, TITLES[name], HEADINGS)
    for note in notes:
        print_line(console, note)
    print_path(console, "table and figures:", f"{sweep_dir / name}.md")


def _by_corpus(settings: Sequence[Setting]) -> list[list[Setting]]:
    by_corpus: dict[str, list[Setting]] = {}
    for setting in settings:
        by_corpus.setdefault(setting.corpus, []).append(setting)
    return list(by_corpus.values())


def _corpus_note(settings: Sequence[Setting]) -> str:
    """A note on a corpus: what was measured, whether the paper used it, and the F1 of baselines without text."""
    first = settings[0]
    run = first.runs[0]
    labels = run.predictions.loc[run.predictions["part"] == run.part, "label"]
    encoders = ", ".join(dict.fromkeys(str(setting.runs[0].config.encoder.name) for setting in settings))
    note = (
        f"Ours: corpus {first.corpus}, encoder {encoders}, split={first.split}, {len(labels):,} test pairs,"
        f" {labels.mean():.0%} of them duplicates; {device()}, {date.today():%Y-%m-%d}."
    )
    if "tiny" in encoders.split(", "):
        note += " The encoder tiny is random: its numbers only show that everything runs."
    if not paper_tables.is_published(first):
        note += f" {first.corpus} is not the paper's data: do not compare its rows with the paper's."
    return note + (
        f" Without any text, chains of training pairs give F1 {run.leak['closure_f1']:.3f} on these test pairs, and"
        f" always predicting a duplicate gives {run.leak['always_duplicate_f1']:.3f}."
    )


def _convergence(settings: Sequence[Setting]) -> dict[str, Figure]:
    return {f"figures34_{slug(mine[0].corpus)}": convergence(mine) for mine in _by_corpus(settings)}


def _sensitivity(sweep_dir: Path, runs: list[Run], options: Sequence[str]) -> tuple[pd.DataFrame, dict[str, Figure]]:
    table = sensitivity(find_jobs(sweep_dir, runs), options)
    if table.empty:
        return table, {}
    figures = {}
    for setting, mine in table.groupby("setting", sort=False):
        # The setting is empty if the sweep varied no further options.
        name = f"sensitivity_{slug(str(setting))}" if setting else "sensitivity"
        title = str(setting) if setting else f"{runs[0].corpus}, {runs[0].config.encoder.name}"
        figures[name] = sensitivity_figure(mine, title)
    return table, figures


class BesidePublished(Callback):
    """Compares the finished runs of a sweep with the paper's numbers: CSV, Markdown and figures in the sweep's folder.

    Args:
        name: ``table4``, ``table5``, ``figures34`` or ``sensitivity``.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def on_multirun_end(self, config: DictConfig, **kwargs: Any) -> None:
        """Writes the files and prints where they are."""
        # Hydra loads this module with every command that names the callback: heavy imports wait until here.
        from gedbd.experiments.distributed import is_first

        if is_first():
            options = tuple(config.hydra.sweeper.params or ())
            write_item(self.name, Path(config.hydra.sweep.dir), options)
