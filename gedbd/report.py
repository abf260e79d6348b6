"""Write a page about finished runs: ``python -m gedbd.report outputs/...``."""

import shlex
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from rich.console import Console

from gedbd.configuration.command import command
from gedbd.evaluation.report.overview import next_steps, repeated_runs, summarise
from gedbd.evaluation.report.page import fill_tables, write_report
from gedbd.evaluation.report.sections import make_sections
from gedbd.evaluation.report.settings import group_settings
from gedbd.evaluation.run_folders import find_backtests, find_runs
from gedbd.io.files import write_text

PLAIN: dict[str, Any] = {"markup": False, "highlight": False, "soft_wrap": True}


@command("report")
def main(cfg: DictConfig) -> None:
    """Reads all runs in the folders and below, and writes ``report.html`` and ``report.md``."""
    paths = [Path(path) for path in cfg.paths]
    runs, unfinished, outdated = find_runs(paths)
    backtests = find_backtests(paths)
    settings = group_settings(runs)
    sections = make_sections(settings)
    if cfg.fill:
        path = Path(cfg.fill)
        write_text(path, fill_tables(path.read_text(), sections))
    folder = Path(cfg.out or paths[0])
    folder.mkdir(parents=True, exist_ok=True)
    summary = summarise(settings, len(unfinished), len(backtests), len(outdated))
    page = write_report(
        folder,
        cfg.title,
        summary,
        sections,
        command=_command(cfg),
        date=datetime.now().astimezone(),
        next_steps=next_steps(settings, unfinished),
    )
    console = Console()
    for run in repeated_runs(settings):
        console.print(
            f"left out, repeated: {run['left out']} (seed {run['seed']} of {run['model']}; newer: {run['newer']})",
            **PLAIN,
        )
    for place in unfinished:
        console.print(f"left out, not finished: {place}", **PLAIN)
    for line in outdated:
        console.print(f"left out: {line}", **PLAIN)
    console.print(summary, **PLAIN)
    console.print(f"report: {page}", **PLAIN)


def _command(cfg: DictConfig) -> str:
    """The command as one would type it, with its paths bare."""
    options = [text for text in sys.argv[1:] if not text.startswith("paths=")]
    return shlex.join(["python", "-m", "gedbd.report", *map(str, cfg.paths), *options])


def bare_paths(arguments: list[str]) -> list[str]:
    """Arguments for Hydra: those that are no ``key=value`` and no flag become ``paths=[...]``."""
    bare = [text for text in arguments if "=" not in text and not text.startswith("-")]
    quoted = ",".join("'" + text.replace("'", "\\'") + "'" for text in bare)
    return [text for text in arguments if text not in bare] + ([f"paths=[{quoted}]"] if bare else [])


if __name__ == "__main__":
    sys.argv[1:] = bare_paths(sys.argv[1:])
    main()
