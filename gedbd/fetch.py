"""Fetch a tracker's issues: ``python -m gedbd.fetch tracker=github project=owner/repo out=folder``."""

from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.corpora.clients.fetch import fetch_tracker


@command("fetch")
def main(cfg: DictConfig) -> None:
    """Fetches all issues, or goes on, or fetches what has changed since, and says what came."""
    project, out = str(cfg.project), Path(cfg.out).expanduser()
    print(fetch_tracker(instantiate(cfg.tracker), project, out, cfg.max_wait_s))


if __name__ == "__main__":
    main()
