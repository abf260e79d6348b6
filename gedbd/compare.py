"""Test whether two runs differ by more than chance."""

from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command


@command("compare")
def main(cfg: DictConfig) -> None:
    """Compares two runs, or two sets of runs with the same seeds, query by query and pair by pair."""
    from gedbd.evaluation.compare import compare_runs
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
    title = f"{cfg.run} less {cfg.against}, {len(first.finished)} seed(s)"
    console.print(as_table(with_intervals(table, decimals=3), title))
    console.print("95%: paired bootstrap over duplicate groups; p: Wilcoxon's signed-rank test, two-sided")
    if cfg.out:
        write_csv(Path(cfg.out), table)


if __name__ == "__main__":
    main()
