"""Builds a run's parts from its configuration, for the doors that train and evaluate."""

import logging
import warnings

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console
from torch import nn
from transformers import PreTrainedTokenizerBase
from transformers.utils import logging as hf_logging

from gedbd.data.corpus import Corpus
from gedbd.data.datamodule import DuplicateDataModule
from gedbd.data.splits import TRAIN
from gedbd.data.tokens import tokenize
from gedbd.graph.titles import reduce_titles
from gedbd.models.encoder import TextEncoder
from gedbd.models.frozen import frozen_vectors
from gedbd.models.gcn import GraphBranch
from gedbd.systems.duplicate import DuplicateSystem


def build(
    cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")
) -> tuple[DuplicateDataModule, DuplicateSystem]:
    """Reads the corpus, draws the pairs, builds graph and model; cheap checks come before long work.

    Args:
        cfg: The composed configuration of ``conf/train.yaml``.
        console: Where notices go.
        parts: The parts whose pairs are to be scored, by the frozen encoder too.
    """
    _quieten()
    seed_everything(cfg.seed, verbose=False)
    corpus: Corpus = instantiate(cfg.dataset)
    split = instantiate(cfg.split)
    pairs = instantiate(cfg.pairs).sample(corpus, split)
    for notice in (*corpus.notices, *pairs.attrs["notices"]):
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    fusion, loss = instantiate(cfg.fusion), instantiate(cfg.loss)
    encoder, tokenizer = instantiate(cfg.encoder)
    texts = instantiate(cfg.text)(corpus.reports)
    with_graph = cfg.graph.rule is not None and fusion.uses_graph
    fill = with_graph and cfg.graph.features == "text"
    pairs["score_frozen"] = np.nan
    rows = np.arange(len(corpus)) if fill else _rows(pairs[pairs["part"].isin(parts)])
    max_tokens, cache_dir = cfg.encoder.max_tokens, cfg.cache_dir
    vectors = frozen_vectors([texts[row] for row in rows], encoder, tokenizer, max_tokens, cache_dir, "encode reports")
    _score_frozen(pairs, parts, rows, vectors)
    branch, split_parts = None, split.of_reports(corpus)
    if with_graph:
        graph = _graph(cfg, corpus, split_parts == TRAIN, (encoder, tokenizer))
        branch = GraphBranch(graph, len(corpus), cfg.encoder.dim, cfg.graph.features)
        if fill:
            branch.memory.write(torch.arange(len(corpus)), encoder.projection(torch.from_numpy(vectors)))
    tokens = tokenize(texts, tokenizer, max_tokens)
    adjacency = branch.adjacency if branch else None
    data = DuplicateDataModule(corpus, tokens, split_parts, pairs, adjacency, cfg.batch_size, cfg.seed)
    return data, DuplicateSystem(
        encoder, branch, fusion if branch else instantiate(TEXT_ONLY), loss, **cfg.optimizer, seed=cfg.seed
    )


TEXT_ONLY = {"_target_": "gedbd.models.fusion.TextOnly"}


def _graph(
    cfg: DictConfig, corpus: Corpus, training: np.ndarray, encoder: tuple[TextEncoder, PreTrainedTokenizerBase]
) -> nn.Module:
    """The graph over all reports, from titles read by a frozen encoder."""
    if cfg.graph.scope not in ("all", "train"):
        raise ValueError(f"graph.scope={cfg.graph.scope} is unknown: choose all or train")
    reader, tokenizer = encoder if cfg.graph.titles is None else instantiate(cfg.graph.titles)
    titles = list(corpus.reports["title"])
    vectors = frozen_vectors(titles, reader, tokenizer, cfg.graph.max_title_tokens, cfg.cache_dir, "encode titles")
    inside = np.ones(len(corpus), dtype=bool) if cfg.graph.scope == "all" else training
    rule = instantiate(cfg.graph.rule)
    graph: nn.Module = rule(reduce_titles(vectors, training, cfg.graph.pca_dim), torch.from_numpy(inside))
    return graph


def _rows(pairs: pd.DataFrame) -> np.ndarray:
    return np.unique(pairs[["earlier", "later"]].to_numpy())


def _score_frozen(pairs: pd.DataFrame, parts: tuple[str, ...], rows: np.ndarray, vectors: np.ndarray) -> None:
    """Fills ``score_frozen`` of some parts with the cosine of the untrained encoder's vectors."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    chosen = pairs["part"].isin(parts)
    earlier, later = (np.searchsorted(rows, pairs.loc[chosen, side].to_numpy()) for side in ("earlier", "later"))
    pairs.loc[chosen, "score_frozen"] = (unit[earlier] * unit[later]).sum(axis=1)


def _quieten() -> None:
    """Hides what libraries say about themselves: loading bars, device lists, advice on loader processes."""
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    hf_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*smaller than the logging interval.*")
    warnings.filterwarnings("ignore", message=".*is_leaf.*")
    warnings.filterwarnings("ignore", message=".*exists and is not empty.*")
