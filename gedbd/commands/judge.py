"""Measure a backtest again, using people's verdicts on its suggestions."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.console import open_console


@command("judge")
def main(cfg: DictConfig) -> None:
    """Reads the verdicts given on a backtest's page, and writes its tables and its page with them."""
    from gedbd.triage.backtesting.backtest_run import run_judge

    file, second = (Path(name) if name else None for name in (cfg.file, cfg.second))
    run_judge(Path(cfg.run), file, second, open_console())
