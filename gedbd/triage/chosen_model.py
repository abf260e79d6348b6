"""The model that an index is built with: that of a backtest, or the default one."""

from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from gedbd.configuration.allowed_targets import keep_local
from gedbd.configuration.command import encoding_precision
from gedbd.configuration.saved_options import CONFIG, read_saved
from gedbd.evaluation.run_folders import MATCHING
from gedbd.triage.storage.stored_model import read_matching
from gedbd.triage.triage_model import TriageModel, default_model

QUICKEST = "gedbd.encoders.backends.quickest.Quickest"


def chosen_model(cfg: DictConfig) -> tuple[DictConfig, TriageModel, Path | None]:
    """What ``find_backtest`` returns for ``run=``; without it, the command's own options and the default model.

    Raises:
        ValueError: If neither a backtest nor a corpus is given, or ``run=`` is no finished backtest.
    """
    if cfg.run:
        return find_backtest(Path(cfg.run))
    if OmegaConf.is_missing(cfg.dataset, "path"):
        raise ValueError(
            "no reports given: set dataset=csv dataset.path=bugs.csv for the default ranker, or run= to a folder"
            " written by gedbd backtest"
        )
    options = OmegaConf.create({name: cfg[name] for name in ("dataset", "encoder", "text")})
    options.backend = cfg.get("backend") or {"_target_": QUICKEST, "precision": encoding_precision()}
    return options, default_model(), None


def find_backtest(folder: Path) -> tuple[DictConfig, TriageModel, Path | None]:
    """A backtest's configuration, its model, and the checkpoint of its encoder, None for an untrained one.

    Raises:
        ValueError: If the folder is not a finished backtest, or the run it used is missing.
    """
    if not folder.is_dir():
        raise ValueError(f"run={folder}: no such folder; give a folder written by gedbd backtest")
    if not (folder / MATCHING).is_file():
        raise ValueError(
            f"run={folder} is not a finished backtest: it has no {MATCHING}; run gedbd backtest run={folder}"
            " and give the folder that it writes"
        )
    cfg = read_saved(folder)
    keep_local(cfg, str(folder / CONFIG))
    weights = None
    if cfg.run:
        from gedbd.experiments.checkpoint import find_run  # it imports torch

        _, weights = find_run(Path(cfg.run), cfg.get("weights", "best"))
    text = (folder / MATCHING).read_text(encoding="utf-8", errors="replace")
    return cfg, read_matching(text, f"run={folder}"), weights
