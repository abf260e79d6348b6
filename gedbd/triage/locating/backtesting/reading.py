"""Reads what a backtest of the ranking of commits is run on."""

from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf

from gedbd.corpora.changes import ChangeCorpus
from gedbd.io.verbosity import stage

REPOSITORY_OPTIONS = ("fix_patterns", "fixes")


def check_options(cfg: DictConfig) -> None:
    """Raises ValueError if the options are invalid, before any long work."""
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError("no reports given: set repo=. dataset=csv dataset.path=issues.csv")
    if not (isinstance(cfg.target, int | float) and 0 < cfg.target < 1):
        raise ValueError(f"target={cfg.target} must be a number above 0 and below 1")
    for name, minimum in (("min_reports", 2), ("max_replayed", 1), ("max_learnt", 10)):
        if not (isinstance(cfg[name], int) and cfg[name] >= minimum):
            raise ValueError(f"{name}={cfg[name]} must be a whole number, {minimum} or more")
    given = [name for name in REPOSITORY_OPTIONS if cfg[name] is not None]
    if given and cfg.repo is None:
        raise ValueError(f"{given[0]}= needs a repository: add repo=., or use dataset.{given[0]}= with dataset=git")


@stage("read the repository")
def read_changes(cfg: DictConfig) -> ChangeCorpus:
    """The reports, and the commits of the repository that fixed and induced their bugs.

    Args:
        cfg: The composed configuration of ``conf/locate_backtest.yaml``.

    Raises:
        ValueError: If there are reports without a repository, or a history of changes with one.
    """
    if cfg.repo is None:
        corpus = instantiate(cfg.dataset)
        if not isinstance(corpus, ChangeCorpus):
            raise ValueError(f"{corpus.name}: reports without a repository: add repo=. or repo=PATH")
        return corpus
    from gedbd.corpora.readers.git import read_git
    from gedbd.experiments.reading import read_corpus

    try:
        reports = read_corpus(cfg.dataset)
    except ValueError as error:
        if "a history of changes" in str(error):
            raise ValueError(f"repo={cfg.repo}: dataset= must be the reports of a tracker: {error}") from error
        raise
    options = ("revision", "fix_patterns", "fixes", "merges", "suffixes", "max_diff_chars", "max_files", "cache_dir")
    try:
        return read_git(cfg.repo, None, reports=reports, **{name: cfg[name] for name in options})
    except ValueError as error:
        # The reader names its options as those of dataset=git.
        raise ValueError(str(error).replace("dataset.fix", "fix")) from error
