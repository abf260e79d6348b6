"""Test whether two runs differ by more than chance."""

from functools import partial
from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.configuration.command_words import positional_options
from gedbd.io.command_output import print_table, record
from gedbd.io.console import open_console, print_line


@command("compare", partial(positional_options, options=("run", "against")))
def main(cfg: DictConfig) -> None:
    """Compares two runs, or two sets of runs with the same seeds, query by query and pair by pair."""
    from gedbd.experiments.report.run_comparison import TESTS, compare_runs, describe_matches, readable
    from gedbd.experiments.run_folder import find_runs
    from gedbd.experiments.run_results import with_intervals
    from gedbd.io.table_files import write_csv, write_latex

    if cfg.out and Path(cfg.out).suffix not in (".csv", ".tex"):
        raise ValueError(
            f"out={cfg.out}: the table is written as CSV or LaTeX: choose a name that ends in .csv or .tex"
        )
    sides = [[side] if isinstance(side, str) else list(side) for side in (cfg.run, cfg.against)]
    first, second = (find_runs([Path(folder) for folder in folders]) for folders in sides)
    outdated = [*first.outdated, *second.outdated]
    if outdated:
        raise ValueError(outdated[0])
    console = open_console()
    for folder in (*first.unfinished, *second.unfinished):
        print_line(console, f"left out because unfinished: {folder}")
    table = compare_runs(first.finished, second.finished, cfg.method, cfg.against_method)
    run, against = (", ".join(folders) for folders in sides)
    readable_table = with_intervals(readable(table), decimals=3)
    print_table(console, readable_table, f"{run} minus {against}, {describe_matches(first.finished)}")
    print_line(console, TESTS)
    record(run=run, against=against, comparison=table)
    if cfg.out and Path(cfg.out).suffix == ".tex":
        names = readable_table.rename(columns=lambda name: name.replace("_", " "))
        write_latex(Path(cfg.out), names, f"{run} minus {against}")
    elif cfg.out:
        write_csv(Path(cfg.out), table)
