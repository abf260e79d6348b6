"""Measure a backtest again, using people's verdicts on its suggestions."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.console import open_console


@command("judge")
def main(cfg: DictConfig) -> None:
    """Reads the verdicts given on a backtest's page, and writes its tables and its page with them."""
    from gedbd.triage.backtesting.backtest_judging import run_judge

    run_judge(Path(cfg.run), Path(cfg.file) if cfg.file else None, open_console())


if __name__ == "__main__":
    main()
