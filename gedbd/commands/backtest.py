"""Measure how often suggestions are right on a tracker's own history."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused, typed_words
from gedbd.experiments.run_folder import check_corpus, check_run_folder, run_weights
from gedbd.io.console import open_console, silence_library_logs


@command("backtest")
def main(cfg: DictConfig) -> float:
    """Learns on the older reports, replays the newer ones, writes tables and a page, and returns test's precision."""
    if cfg.run:
        check_run_folder(Path(cfg.run))
    with gc_paused():
        from gedbd.experiments.prepare import prepare_data
        from gedbd.triage.backtesting.backtest_run import check_backtest, run_backtest

    console = open_console()
    check_backtest(cfg)
    weights = run_weights(cfg) if cfg.run else None
    silence_library_logs()
    prepared = prepare_data(cfg, console)
    if cfg.run:
        check_corpus(Path(cfg.run), prepared.corpus)
    folder = Path(HydraConfig.get().runtime.output_dir)
    return run_backtest(cfg, prepared, weights, folder, ["backtest", *typed_words()], console)
