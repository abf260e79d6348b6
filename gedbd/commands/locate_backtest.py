"""Measure how often a bug's fixed file and its inducing commit are found on a tracker's own history."""

from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from gedbd.configuration.command import command, gc_paused, typed_words
from gedbd.io.console import open_console, silence_library_logs


@command("locate_backtest")
def main(cfg: DictConfig) -> float:
    """Learns on the older reports, replays the newer ones, and leaves a ranker, tables and a page in a run folder."""
    from gedbd.localization.locating.labelled_reports import check_options

    check_options(cfg)
    with gc_paused():
        from gedbd.localization.locating.backtest_page import run_locate_backtest

    silence_library_logs()
    return run_locate_backtest(cfg, Path(HydraConfig.get().runtime.output_dir), typed_words(), open_console())
