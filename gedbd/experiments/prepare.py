"""What training, baselines and backtests start from: reports, split, observed groups, pairs and queries."""

from typing import NamedTuple

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console

from gedbd.corpora.corpus import Corpus
from gedbd.corpora.splits import PARTS, split_corpus
from gedbd.retrieval.ranking_tasks import PROTOCOLS, TEST_POOL, EarlierReports, RankingTask, ReportPool

MATMUL_PRECISIONS = ("highest", "high", "medium")


class PreparedData(NamedTuple):
    """A corpus ready for training and evaluation.

    Attributes:
        corpus: N reports.
        parts: ``(N,)`` part of each report: 0 train, 1 val, 2 test.
        observed_group: ``(N,)`` groups as far as training may see them.
        pairs: The table of ``PairSampler.sample``.
        queries: What is ranked, by part and protocol.
    """

    corpus: Corpus
    parts: np.ndarray
    observed_group: np.ndarray
    pairs: pd.DataFrame
    queries: dict[str, dict[str, RankingTask]]


def prepare_data(cfg: DictConfig, console: Console) -> PreparedData:
    """Reads the corpus, splits it, samples pairs and finds queries, and prints the warnings of each.

    Args:
        cfg: A configuration with the sections dataset, split, labels, pairs and ranking, and a seed.
        console: Where warnings go.
    """
    # Before anything is instantiated: modules draw their initial weights when they are made.
    seed_everything(cfg.seed, verbose=False)
    corpus: Corpus = instantiate(cfg.dataset)
    split = instantiate(cfg.split)
    parts = split_corpus(split, corpus)
    sampler = instantiate(cfg.pairs)
    # Feedback of triagers may join groups, so the sampler has the last word on what training observes.
    observed = sampler.join_accepted(corpus, split, instantiate(cfg.labels).observed(corpus, parts))
    pairs, pair_warnings = sampler.sample(corpus, split, observed)
    check_ranking(cfg.ranking)
    queries, unranked = ranking_queries(
        corpus, parts, cfg.ranking.parts, cfg.ranking.protocols, cfg.ranking.window_days, tuple(cfg.ranking.top_k)
    )
    for warning in (*corpus.warnings, *pair_warnings, *unranked):
        console.print(f"{corpus.name}: {warning}", markup=False, highlight=False)
    return PreparedData(corpus, parts, observed, pairs, queries)


def check_ranking(ranking: DictConfig) -> None:
    """Raises ValueError if a part, a protocol or a rank of the section ranking is invalid."""
    for option, choices in (("parts", PARTS), ("protocols", PROTOCOLS)):
        unknown = [name for name in ranking[option] if name not in choices]
        if unknown:
            asked = f"ranking.{option}={list(ranking[option])}"
            raise ValueError(f"{asked}: {unknown[0]} is unknown: choose {', '.join(choices)}")
    top_k = list(ranking.top_k)
    if not top_k or top_k != sorted({k for k in top_k if isinstance(k, int) and k > 0}):
        raise ValueError(f"ranking.top_k={top_k} must be one or more whole numbers above 0, in ascending order")


def ranking_queries(
    corpus: Corpus,
    report_parts: np.ndarray,
    parts: list[str],
    protocols: list[str],
    window_days: float | None,
    top_k: tuple[int, ...],
) -> tuple[dict[str, dict[str, RankingTask]], list[str]]:
    """What is ranked in each part by each protocol, and warnings about parts without queries.

    Args:
        corpus: The reports.
        report_parts: ``(N,)`` part of each report.
        parts: Names of the parts to rank.
        protocols: Names of the protocols.
        window_days: See ``EarlierReports.find``.
        top_k: Ranks K of RR@K and MAP@K.
    """
    queries: dict[str, dict[str, RankingTask]] = {}
    unranked = []
    for part in parts:
        chosen = report_parts == PARTS.index(part)
        for protocol in protocols:
            found: RankingTask
            if protocol == TEST_POOL:
                found = ReportPool.find(corpus, chosen, top_k)
                lacks = "a duplicate in it for protocol=test_pool"
            else:
                found = EarlierReports.find(corpus, chosen, window_days, top_k)
                lacks = "an earlier duplicate"
            if len(found):
                queries.setdefault(part, {})[protocol] = found
            else:
                unranked.append(f"no report of part {part} has {lacks}: there is no ranking")
    return queries, unranked


def set_matmul_precision(precision: str) -> None:
    """Sets the precision of float32 matrix products on a GPU; see ``torch.set_float32_matmul_precision``.

    Raises:
        ValueError: If the precision is unknown.
    """
    if precision not in MATMUL_PRECISIONS:
        raise ValueError(f"matmul_precision={precision} is unknown: choose {', '.join(MATMUL_PRECISIONS)}")
    torch.set_float32_matmul_precision(precision)
