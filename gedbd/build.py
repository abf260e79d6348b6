"""Builds a run's parts from its configuration, for the doors that train and evaluate."""

import logging
import warnings
from typing import NamedTuple

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

from gedbd.data.batches import Batches, Groups
from gedbd.data.corpus import Corpus
from gedbd.data.datamodule import DuplicateDataModule
from gedbd.data.fields import check_field, field_codes
from gedbd.data.queries import Queries, find_queries
from gedbd.data.splits import PARTS, TRAIN
from gedbd.data.token_cache import cached_tokens
from gedbd.graph.titles import join_fields, reduce_titles
from gedbd.models.encoder import TextEncoder
from gedbd.models.frozen import frozen_vectors, unit_rows
from gedbd.models.fusion import TextOnly
from gedbd.models.gcn import GraphBranch
from gedbd.systems.duplicate import DuplicateSystem


class Material(NamedTuple):
    """What training and baselines start from: reports, their parts, known groups, pairs, and what each part ranks."""

    corpus: Corpus
    parts: np.ndarray
    known: np.ndarray
    pairs: pd.DataFrame
    queries: dict[str, Queries]


def read_material(cfg: DictConfig, console: Console) -> Material:
    """Reads the corpus, splits it, draws pairs and finds queries, and tells what was met.

    Args:
        cfg: A configuration with the sections dataset, split, labels, pairs and ranking.
        console: Where notices go.
    """
    seed_everything(cfg.seed, verbose=False)
    corpus: Corpus = instantiate(cfg.dataset)
    split = instantiate(cfg.split)
    parts = split.of_reports(corpus)
    known = instantiate(cfg.labels).known(corpus, parts)
    pairs = instantiate(cfg.pairs).sample(corpus, split, known)
    notices, queries = [*corpus.notices, *pairs.attrs["notices"]], {}
    for part in cfg.ranking.parts:
        if part not in PARTS:
            raise ValueError(f"ranking.parts={list(cfg.ranking.parts)}: {part} is unknown: choose {', '.join(PARTS)}")
        found = find_queries(corpus, parts == PARTS.index(part), cfg.ranking.window_days)
        if len(found):
            queries[part] = found
        else:
            notices.append(f"no report of part {part} has an earlier duplicate: there is no ranking")
    for notice in notices:
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    return Material(corpus, parts, known, pairs, queries)


def build(
    cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")
) -> tuple[DuplicateDataModule, DuplicateSystem]:
    """Reads the corpus, draws the pairs, builds graph and model; what can be refused is, before the long work.

    Args:
        cfg: The composed configuration of ``conf/train.yaml``.
        console: Where notices go.
        parts: The parts whose pairs are to be scored, by the frozen encoder too.
    """
    quieten()
    corpus, report_parts, known, pairs, queries = read_material(cfg, console)
    fusion, loss, batches = instantiate(cfg.fusion), instantiate(cfg.loss), instantiate(cfg.batches)
    _check_batches(cfg, batches, report_parts)
    encoder, tokenizer = instantiate(cfg.encoder)
    branch = None
    if cfg.graph.rule is not None and fusion.uses_graph:
        graph = _graph(cfg, corpus, report_parts == TRAIN, (encoder, tokenizer))
        branch = GraphBranch(graph, len(corpus), cfg.encoder.dim, cfg.graph.features)
    texts = instantiate(cfg.text)(corpus.reports)
    tokens = cached_tokens(texts, tokenizer, cfg.encoder.max_tokens, cfg.cache_dir)
    adjacency = branch.adjacency if branch else None
    data = DuplicateDataModule(corpus, tokens, report_parts, pairs, adjacency, batches, queries=queries, known=known)
    _read_untrained(cfg, data, parts, texts, (encoder, tokenizer), branch)
    fusion = fusion if branch else TextOnly()
    encoder.chunk_tokens = cfg.chunk_tokens
    if cfg.compile:
        encoder.backbone.compile(dynamic=True)
    return data, DuplicateSystem(encoder, branch, fusion, loss, **cfg.optimizer, seed=cfg.seed)


def _check_batches(cfg: DictConfig, batches: Batches, parts: np.ndarray) -> None:
    if isinstance(batches, Groups) and (parts == TRAIN).all():
        raise ValueError("pairs=grouped needs reports outside training: not split=pair")
    if cfg.chunk_tokens is not None and cfg.chunk_tokens < 1:
        raise ValueError(f"chunk_tokens={cfg.chunk_tokens} must be 1 or more")


def _read_untrained(
    cfg: DictConfig,
    data: DuplicateDataModule,
    parts: tuple[str, ...],
    texts: list[str],
    reader: tuple[TextEncoder, PreTrainedTokenizerBase],
    branch: GraphBranch | None,
) -> None:
    """Reads reports with the encoder as it came.

    What for: its scores of the wanted parts, the graph's first rows, and the first epoch's hard negatives.
    """
    fill = branch is not None and not branch.memory.learnable
    mine = bool(data.batches.hard)
    rows = np.arange(len(texts)) if fill or mine else data.needed(*parts)
    encoder, tokenizer = reader
    wanted, engine = [texts[row] for row in rows], instantiate(cfg.engine)
    length, kept = cfg.encoder.max_tokens, cfg.cache_dir
    vectors = frozen_vectors(wanted, encoder, tokenizer, length, kept, "encode reports", engine)
    data.frozen = rows, unit_rows(vectors)
    chosen = data.pairs["part"].isin(parts)
    earlier, later = (np.searchsorted(rows, data.pairs.loc[chosen, side].to_numpy()) for side in ("earlier", "later"))
    data.pairs.loc[chosen, "score_frozen"] = (data.frozen[1][earlier] * data.frozen[1][later]).sum(axis=1)
    if fill or mine:
        z_text = encoder.projection(torch.from_numpy(vectors)).detach()
        data.remember(rows, unit_rows(z_text.numpy()))
        if fill and branch is not None:
            branch.memory.write(torch.from_numpy(rows), z_text)


def _graph(
    cfg: DictConfig, corpus: Corpus, training: np.ndarray, encoder: tuple[TextEncoder, PreTrainedTokenizerBase]
) -> nn.Module:
    """The graph over all reports, from titles read by a frozen encoder."""
    for field in cfg.graph.fields:
        check_field(field)
    if cfg.graph.scope not in ("all", "train"):
        raise ValueError(f"graph.scope={cfg.graph.scope} is unknown: choose all or train")
    reader, tokenizer = encoder if cfg.graph.titles is None else instantiate(cfg.graph.titles)
    titles = list(corpus.reports["title"])
    length, engine = cfg.graph.max_title_tokens, instantiate(cfg.engine)
    vectors = frozen_vectors(titles, reader, tokenizer, length, cfg.cache_dir, "encode titles", engine)
    inside = np.ones(len(corpus), dtype=bool) if cfg.graph.scope == "all" else training
    rule = instantiate(cfg.graph.rule)
    reduced = reduce_titles(vectors, training, cfg.graph.pca_dim)
    if cfg.graph.fields:
        codes = [field_codes(corpus.reports, field) for field in cfg.graph.fields]
        reduced = join_fields(reduced, codes, cfg.graph.field_weight)
    graph: nn.Module = rule(reduced, torch.from_numpy(inside))
    return graph


def quieten() -> None:
    """Hides what libraries say about themselves: loading bars, device lists, advice on loader processes."""
    hf_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    hf_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.getLogger("pytorch_lightning").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", message=".*does not have many workers.*")
    warnings.filterwarnings("ignore", message=".*smaller than the logging interval.*")
    warnings.filterwarnings("ignore", message=".*is_leaf.*")
    warnings.filterwarnings("ignore", message=".*exists and is not empty.*")
