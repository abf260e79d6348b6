"""Group the open reports of an index that are probably duplicates."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.configuration.command import command
from gedbd.io.console import open_console
from gedbd.triage.storage.index_folder import check_index


@command("clusters")
def main(cfg: DictConfig) -> None:
    """Finds groups of open reports, lists them, and writes a page that takes verdicts."""
    folder = Path(cfg.index)
    check_index(folder)
    if not 0 < cfg.threshold <= 1:
        raise ValueError(f"threshold={cfg.threshold:g} must be above 0 and at most 1")
    if cfg.top_k < 1:
        raise ValueError(f"top_k={cfg.top_k} must be 1 or more")
    if cfg.file and not Path(cfg.file).is_file():
        raise ValueError(f"file={cfg.file}: no such file")
    from gedbd.triage.report_clusters import run_clusters

    run_clusters(folder, cfg.threshold, cfg.top_k, Path(cfg.file) if cfg.file else None, open_console())
