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
from gedbd.models.fusion import TextOnly
from gedbd.models.gcn import GraphBranch
from gedbd.systems.duplicate import DuplicateSystem


def build(
    cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")
) -> tuple[DuplicateDataModule, DuplicateSystem]:
    """Reads the corpus, draws the pairs, builds graph and model; what can be refused is, before the long work.

    Args:
        cfg: The composed configuration of ``conf/train.yaml``.
        console: Where notices go.
        parts: The parts whose pairs are to be scored, by the frozen encoder too.
    """
    _quieten()
    seed_everything(cfg.seed, verbose=False)
    corpus: Corpus = instantiate(cfg.dataset)
    split = instantiate(cfg.split)
    report_parts = split.of_reports(corpus)
    pairs = instantiate(cfg.pairs).sample(corpus, split)
    for notice in (*corpus.notices, *pairs.attrs["notices"]):
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    fusion, loss = instantiate(cfg.fusion), instantiate(cfg.loss)
    encoder, tokenizer = instantiate(cfg.encoder)
    branch = None
    if cfg.graph.rule is not None and fusion.uses_graph:
        graph = _graph(cfg, corpus, report_parts == TRAIN, (encoder, tokenizer))
        branch = GraphBranch(graph, len(corpus), cfg.encoder.dim, cfg.graph.features)
    texts = instantiate(cfg.text)(corpus.reports)
    tokens = tokenize(texts, tokenizer, cfg.encoder.max_tokens)
    _read_untrained(cfg, pairs, parts, texts, (encoder, tokenizer), branch)
    adjacency = branch.adjacency if branch else None
    data = DuplicateDataModule(corpus, tokens, report_parts, pairs, adjacency, cfg.batch_size, cfg.seed)
    fusion = fusion if branch else TextOnly()
    return data, DuplicateSystem(encoder, branch, fusion, loss, **cfg.optimizer, seed=cfg.seed)


def _read_untrained(
    cfg: DictConfig,
    pairs: pd.DataFrame,
    parts: tuple[str, ...],
    texts: list[str],
    reader: tuple[TextEncoder, PreTrainedTokenizerBase],
    branch: GraphBranch | None,
) -> None:
    """Reads reports with the encoder as it came: for its scores of the wanted pairs, and for the graph's first rows."""
    fill = branch is not None and not branch.memory.learnable
    chosen = pairs["part"].isin(parts)
    rows = np.arange(len(texts)) if fill else np.unique(pairs.loc[chosen, ["earlier", "later"]].to_numpy())
    encoder, tokenizer = reader
    wanted = [texts[row] for row in rows]
    vectors = frozen_vectors(wanted, encoder, tokenizer, cfg.encoder.max_tokens, cfg.cache_dir, "encode reports")
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(1e-12)
    earlier, later = (np.searchsorted(rows, pairs.loc[chosen, side].to_numpy()) for side in ("earlier", "later"))
    pairs.loc[chosen, "score_frozen"] = (unit[earlier] * unit[later]).sum(axis=1)
    if fill and branch is not None:
        branch.memory.write(torch.from_numpy(rows), encoder.projection(torch.from_numpy(vectors)))


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


def _quieten() -> None:
    """Hides what libraries say about themselves: loading bars, device lists, advice on loader processes."""
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    hf_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*smaller than the logging interval.*")
    warnings.filterwarnings("ignore", message=".*is_leaf.*")
    warnings.filterwarnings("ignore", message=".*exists and is not empty.*")
