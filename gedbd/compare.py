"""Test whether two runs differ by more than chance."""

from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command


@command("compare")
def main(cfg: DictConfig) -> None:
    """Compares two runs, or two sets of runs with the same seeds, query by query and pair by pair."""
    from gedbd.evaluation.compare import TESTS, compare_runs, describe_matches, readable
    from gedbd.evaluation.run_folders import find_runs
    from gedbd.experiments.results import as_table, with_intervals
    from gedbd.io.tables import write_csv

    first = find_runs([Path(cfg.run)])
    second = find_runs([Path(cfg.against)])
    outdated = [*first.outdated, *second.outdated]
    if outdated:
        raise ValueError(outdated[0])
    console = Console()
    for folder in (*first.unfinished, *second.unfinished):
        console.print(f"left out, not finished: {folder}", markup=False, highlight=False)
    table = compare_runs(first.finished, second.finished, cfg.method, cfg.against_method)
    title = f"{cfg.run} less {cfg.against}, {describe_matches(first.finished)}"
    console.print(as_table(with_intervals(readable(table), decimals=3), title))
    console.print(TESTS)
    if cfg.out:
        write_csv(Path(cfg.out), table)


if __name__ == "__main__":
    main()
