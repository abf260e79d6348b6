"""Test whether two runs differ by more than chance."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.command_output import record
from gedbd.io.console import open_console, print_line


@command("compare")
def main(cfg: DictConfig) -> None:
    """Compares two runs, or two sets of runs with the same seeds, query by query and pair by pair."""
    from gedbd.evaluation.run_comparison import TESTS, compare_runs, describe_matches, readable
    from gedbd.evaluation.run_folders import find_runs
    from gedbd.experiments.run_results import with_intervals
    from gedbd.io.command_output import print_table
    from gedbd.io.table_files import write_csv

    if cfg.out and Path(cfg.out).suffix != ".csv":
        raise ValueError(f"out={cfg.out}: the table is written as CSV: choose a name that ends in .csv")
    first = find_runs([Path(cfg.run)])
    second = find_runs([Path(cfg.against)])
    outdated = [*first.outdated, *second.outdated]
    if outdated:
        raise ValueError(outdated[0])
    console = open_console()
    for folder in (*first.unfinished, *second.unfinished):
        print_line(console, f"left out because unfinished: {folder}")
    table = compare_runs(first.finished, second.finished, cfg.method, cfg.against_method)
    title = f"{cfg.run} minus {cfg.against}, {describe_matches(first.finished)}"
    print_table(console, with_intervals(readable(table), decimals=3), title)
    print_line(console, TESTS)
    record(run=cfg.run, against=cfg.against, comparison=table)
    if cfg.out:
        write_csv(Path(cfg.out), table)


if __name__ == "__main__":
    main()
