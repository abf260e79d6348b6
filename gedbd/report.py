"""Write a page about finished runs: ``python -m gedbd.report outputs/...``."""

import sys
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from gedbd.config import door
from gedbd.evaluation.report.page import fill_tables, write_report
from gedbd.evaluation.report.sections import make_sections
from gedbd.evaluation.report.settings import group_settings
from gedbd.evaluation.runs import find_runs


@door("report")
def main(cfg: DictConfig) -> None:
    """Reads all runs in the folders, writes ``report.html`` and ``report.md`` beside them."""
    paths = [Path(path) for path in cfg.paths]
    runs, unfinished = find_runs(paths)
    settings = group_settings(runs)
    folder = Path(cfg.out or paths[0])
    folder.mkdir(parents=True, exist_ok=True)
    summary = f"{len(runs)} runs in {len(settings)} settings." + (
        f" {len(unfinished)} unfinished runs are left out." if unfinished else ""
    )
    console = Console()
    for run in unfinished:
        console.print(f"left out, not finished: {run}", markup=False, highlight=False)
    sections = make_sections(settings)
    if cfg.fill:
        path = Path(cfg.fill)
        path.write_text(fill_tables(path.read_text(), sections))
    console.print(f"report: {write_report(folder, cfg.title, summary, sections)}")


def bare_paths(arguments: list[str]) -> list[str]:
    """Arguments for Hydra: those that are no ``key=value`` and no flag become ``paths=[...]``."""
    bare = [text for text in arguments if "=" not in text and not text.startswith("-")]
    quoted = ",".join("'" + text.replace("'", "\\'") + "'" for text in bare)
    return [text for text in arguments if text not in bare] + ([f"paths=[{quoted}]"] if bare else [])


if __name__ == "__main__":
    sys.argv[1:] = bare_paths(sys.argv[1:])
    main()
