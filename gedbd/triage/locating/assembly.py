"""Builds the index of a repository from configuration."""

from functools import partial
from pathlib import Path

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.triage.locating.encoding import LazyEncoder
from gedbd.triage.locating.indexing import IndexLimits
from gedbd.triage.locating.repository_index import RepositoryIndex, open_repository
from gedbd.triage.locating.trained import NOT_MEASURED, read_trained


def open_configured(cfg: DictConfig) -> tuple[RepositoryIndex, str]:
    """The index of a repository, and what its ranker is worth, in words.

    Args:
        cfg: The composed configuration of ``conf/locate.yaml``.

    Raises:
        ValueError: See ``open_repository`` and ``read_trained``.
    """
    trained = None if cfg.run is None else read_trained(Path(cfg.run).expanduser())
    encoder = None
    if cfg.get("encoder") is not None:
        settings = OmegaConf.to_container(cfg.encoder, resolve=True)
        assert isinstance(settings, dict)
        encoder = LazyEncoder(partial(instantiate, cfg.encoder), {str(name): value for name, value in settings.items()})
    index = open_repository(
        cfg.repo,
        cfg.cache_dir,
        index=cfg.index,
        revision=str(cfg.revision),
        ranker=None if trained is None else trained.ranker,
        encoder=encoder,
        limits=IndexLimits(cfg.max_files, cfg.max_diff_chars, cfg.merges),
    )
    return index, NOT_MEASURED if trained is None else trained.statement
