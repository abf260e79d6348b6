"""Builds the index of a repository from configuration."""

from pathlib import Path

from omegaconf import DictConfig

from gedbd.io.verbosity import stage
from gedbd.triage.locating.indexing import IndexLimits
from gedbd.triage.locating.repository_index import RepositoryIndex, open_repository
from gedbd.triage.locating.trained import NOT_MEASURED, read_trained


@stage("open the repository's index")
def open_configured(cfg: DictConfig) -> tuple[RepositoryIndex, str]:
    """The index of a repository, and what its ranker is worth, in words.

    Args:
        cfg: The composed configuration of ``conf/locate.yaml``.

    Raises:
        ValueError: See ``open_repository`` and ``read_trained``.
    """
    if cfg.repo is None or cfg.revision is None:
        raise ValueError("repo= and revision= are required: repo=. revision=HEAD is the last commit of this folder")
    trained = None if cfg.run is None else read_trained(Path(cfg.run).expanduser())
    index = open_repository(
        cfg.repo,
        cfg.cache_dir,
        index=cfg.index,
        revision=str(cfg.revision),
        ranker=None if trained is None else trained.ranker,
        limits=IndexLimits(cfg.max_files, cfg.max_diff_chars, cfg.merges),
    )
    return index, NOT_MEASURED if trained is None else trained.statement
