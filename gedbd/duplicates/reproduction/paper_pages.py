"""Writes the results of a sweep next to the paper's numbers, with notes on what can be compared."""

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from gedbd.duplicates.reproduction import paper_tables
from gedbd.duplicates.reproduction.paper_tables import convergence
from gedbd.duplicates.reproduction.sensitivity_table import find_jobs, sensitivity, sensitivity_figure
from gedbd.experiments.report.report_page import slug
from gedbd.experiments.report.run_settings import Setting, group_settings
from gedbd.experiments.run_folder import Run
from gedbd.experiments.sweeps.paper_table import (
    by_corpus,
    corpus_note,
    finished_runs,
    print_paper_table,
    readable,
    write_paper_page,
)
from gedbd.io.console import open_console, print_line
from gedbd.io.table_files import write_csv

TITLES = {
    "table4": "Minutes of a training epoch, with the paper's Table 4",
    "table5": "Precision, recall and F1 on test pairs, with the paper's Table 5",
    "figures34": "Loss and F1 by epoch, with the paper's Figures 3 and 4",
    "sensitivity": "Sensitivity of the test metrics, one option at a time",
}
HEADINGS = {"average_precision": "AP", "precision": "P", "recall": "R", "f1": "F1", "relative": "rel."}
PAPER = (
    'Columns "paper ..." are the numbers of Bayramoğlu et al., measured on Eclipse Platform and Thunderbird on an A100'
    " with 80 GB. By its authors' code, 50,000 pairs of each were split at random; the paper states neither. Empty: not"
    " in the paper."
)
NO_PAPER = (
    "The paper names these options as future work (section 6) and has no numbers. Intervals (95%) are Student's t over"
    ' seeds; "base" marks the value of an option while others were varied.'
)


def write_item(sweep_dir: Path, options: Sequence[str], name: str) -> None:
    """Writes ``<name>.csv``, ``<name>.md`` and figures of all finished runs of a sweep, and prints the table.

    Args:
        sweep_dir: The sweep's folder.
        options: The options that the sweep varied, for ``sensitivity``.
        name: ``table4``, ``table5``, ``figures34`` or ``sensitivity``.
    """
    console = open_console()
    runs = [run for run in finished_runs(name, sweep_dir, console) if not run.is_baseline]
    if not runs:
        return
    settings = group_settings(runs)
    if name == "sensitivity":
        table, figures = _sensitivity(sweep_dir, runs, options)
    else:
        table = getattr(paper_tables, name)(settings)
        figures = {}
    if table.empty:
        print_line(console, f"{name}: the jobs of {sweep_dir} vary none of {', '.join(options)}")
        return
    if name == "figures34":
        figures = {f"figures34_{slug(mine[0].corpus)}": convergence(mine) for mine in by_corpus(settings)}
    else:  # that of the figures is too wide for a terminal
        print_paper_table(console, table, TITLES[name], HEADINGS)
    write_csv(sweep_dir / f"{name}.csv", table)
    notes = [*map(_corpus_note, by_corpus(settings)), NO_PAPER if name == "sensitivity" else PAPER]
    write_paper_page(sweep_dir, name, TITLES[name], [readable(table, HEADINGS)], notes, figures, console)


def _corpus_note(settings: Sequence[Setting]) -> str:
    """A note on a corpus: what was measured, whether the paper used it, and the F1 of baselines without text."""
    first = settings[0]
    run = first.runs[0]
    labels = run.predictions.loc[run.predictions["part"] == run.part, "label"]
    note = corpus_note(settings, f", {len(labels):,} test pairs, {labels.mean():.0%} of them duplicates")
    if not paper_tables.is_published(first):
        note += f" {first.corpus} is not the paper's data: do not compare its rows with the paper's."
    return note + (
        f" Without any text, chains of training pairs give F1 {run.leak['closure_f1']:.3f} on these test pairs, and"
        f" always predicting a duplicate gives {run.leak['always_duplicate_f1']:.3f}."
    )


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
