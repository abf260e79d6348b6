"""Fetch a tracker's issues through its REST API."""

from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.console import open_console, print_line


@command("fetch")
def main(cfg: DictConfig) -> None:
    """Fetches all issues, continues an interrupted fetch, or fetches what has changed since, and prints counts."""
    from gedbd.corpora.clients.tracker_fetch import fetch_tracker

    out = Path(cfg.out).expanduser()
    summary = fetch_tracker(instantiate(cfg.tracker), str(cfg.project), out, cfg.max_wait_s)
    print_line(open_console(), summary)
