"""Decides whether a training ranks the validation queries after every epoch: ``ranking.parts=auto``."""

import numpy as np
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.experiments.prepare import AUTO
from gedbd.experiments.retrieval_module import RetrievalDataModule
from gedbd.io.console import print_detail
from gedbd.retrieval.ranking_tasks import metric_names

ALWAYS_RANKED = 3000  # reports: MiniLM encodes them in about a minute on two CPU cores
PASSES_PER_STEP = 3  # a training step costs about as much as three forward passes over its reports
MAX_SHARE = 0.1  # of the cost of an epoch


def is_cheap(only_ranked: int, trained: int) -> bool:
    """Whether ranking costs little, in itself or compared with an epoch.

    Args:
        only_ranked: Number of reports that validation encodes only to rank.
        trained: Number of reports that the steps of an epoch encode; a report of several steps counts in each.
    """
    return only_ranked <= ALWAYS_RANKED or only_ranked < MAX_SHARE * PASSES_PER_STEP * trained


def needs_ranking(cfg: DictConfig) -> bool:
    """Whether the best epoch, a callback or ``ranking.ranker`` needs the ranking of validation."""
    callbacks = [settings for settings in (cfg.callbacks or {}).values() if OmegaConf.is_dict(settings)]
    watched = {cfg.monitor, *(settings.get("monitor") for settings in callbacks)}
    ranked = {f"val/{name}" for name in metric_names(cfg.ranking.top_k, cfg.ranking.protocols)}
    return bool(cfg.ranking.ranker or watched & ranked)


def leave_out_costly_ranking(cfg: DictConfig, data: RetrievalDataModule, console: Console) -> None:
    """Applies ``ranking.parts=auto``: removes the validation queries from ``data`` if ranking them costs too much.

    Prints which splits are ranked and how to choose others. The decision depends on the corpus and on options that a
    resumed run shares with its start, so both decide the same.
    """
    queries = data.queries.get("val", {})
    if cfg.ranking.parts != AUTO or not queries:
        return
    rows = np.concatenate([task.needed for task in queries.values()])
    only_ranked = len(np.setdiff1d(rows, data.paired_rows("val")))
    reports = f"{only_ranked:,} more reports after each epoch"
    if needs_ranking(cfg):
        print_detail(console, f"ranking: validation and test; the best epoch needs both, which encodes {reports}")
        return
    trained = sum(len(batch.rows) for batch in data.train_dataloader().sampler)
    if is_cheap(only_ranked, trained):
        print_detail(
            console, f"ranking: validation and test, which encodes {reports} (ranking.parts=[test]: test only)"
        )
        return
    del data.queries["val"]
    print_detail(
        console,
        f"ranking: test only; validation would encode {reports}, whose steps encode {trained:,}"
        " (ranking.parts=[val,test]: both)",
    )
