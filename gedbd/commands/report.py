"""Write a page about finished runs, as HTML and Markdown."""

import shlex
import sys
from functools import partial
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.command import command
from gedbd.configuration.command_words import positional_list


@command("report", partial(positional_list, option="paths"))
def main(cfg: DictConfig) -> None:
    """Reads all runs in the folders and below, and writes ``report.html`` and ``report.md``."""
    from gedbd.experiments.report.run_report import report_runs

    paths = [str(path) for path in (cfg.paths if OmegaConf.is_list(cfg.paths) else [cfg.paths])]
    options = [argument for argument in sys.argv[1:] if not argument.startswith("paths=")]
    report_runs(
        [Path(path) for path in paths],
        Path(cfg.out or paths[0]),
        None if cfg.fill is None else Path(cfg.fill),
        cfg.title,
        shlex.join(["gedbd", "report", *paths, *options]),
    )
