"""Builds a run's parts from its configuration, for the commands that train and evaluate."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console
from torch import nn
from transformers import PreTrainedTokenizerBase

from gedbd.corpora.documents import Corpus
from gedbd.corpora.fields import check_field, field_codes
from gedbd.corpora.splits import PARTS, TRAIN
from gedbd.encoders.embedding_cache import frozen_vectors, unit_rows
from gedbd.encoders.encoder import TextEncoder
from gedbd.experiments.schedule import check_schedule
from gedbd.io.library_logs import silence_library_logs
from gedbd.losses import READ_GROUPS
from gedbd.retrieval.tasks import PROTOCOLS, TEST_POOL, Queries, find_pool, find_queries
from gedbd.sampling.batches import Batches, Groups
from gedbd.tasks.duplicates.data import DuplicateDataModule
from gedbd.tasks.duplicates.fusion import TextOnly
from gedbd.tasks.duplicates.gcn import GraphBranch
from gedbd.tasks.duplicates.graph.titles import join_fields, reduce_titles, sample_cosines
from gedbd.tasks.duplicates.system import DuplicateSystem
from gedbd.text.templates import Text
from gedbd.text.token_cache import cached_tokens

MATMUL_PRECISIONS = ("highest", "high", "medium")


class PreparedData(NamedTuple):
    """What training and baselines start from: reports, their parts, known groups, pairs, and what each part ranks."""

    corpus: Corpus
    parts: np.ndarray
    known: np.ndarray
    pairs: pd.DataFrame
    queries: dict[str, dict[str, Queries]]


def prepare_data(cfg: DictConfig, console: Console) -> PreparedData:
    """Reads the corpus, splits it, draws pairs and finds queries, and tells what was met.

    Args:
        cfg: A configuration with the sections dataset, split, labels, pairs and ranking.
        console: Where notices go.
    """
    seed_everything(cfg.seed, verbose=False)
    corpus: Corpus = instantiate(cfg.dataset)
    split = instantiate(cfg.split)
    parts = split.of_reports(corpus)
    sampler = instantiate(cfg.pairs)
    known = sampler.join(corpus, split, instantiate(cfg.labels).known(corpus, parts))
    pairs = sampler.sample(corpus, split, known)
    queries, unranked = _find_queries(cfg.ranking, corpus, parts)
    for notice in (*corpus.notices, *pairs.attrs["notices"], *unranked):
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    return PreparedData(corpus, parts, known, pairs, queries)


def check_ranking(ranking: DictConfig) -> None:
    """Raises ValueError if there is no such part or protocol to rank, or no such rank to ask for."""
    for option, choices in (("parts", PARTS), ("protocols", PROTOCOLS)):
        unknown = [name for name in ranking[option] if name not in choices]
        if unknown:
            asked = f"ranking.{option}={list(ranking[option])}"
            raise ValueError(f"{asked}: {unknown[0]} is unknown: choose {', '.join(choices)}")
    top_k = list(ranking.top_k)
    if not top_k or top_k != sorted({k for k in top_k if isinstance(k, int) and k > 0}):
        raise ValueError(f"ranking.top_k={top_k} must be one or more whole numbers above 0, in ascending order")


def _find_queries(
    ranking: DictConfig, corpus: Corpus, parts: np.ndarray
) -> tuple[dict[str, dict[str, Queries]], list[str]]:
    """What is ranked in each part by each protocol, and what cannot be."""
    check_ranking(ranking)
    top_k = tuple(ranking.top_k)
    queries: dict[str, dict[str, Queries]] = {}
    notices = []
    for part in ranking.parts:
        wanted = parts == PARTS.index(part)
        for protocol in ranking.protocols:
            pooled = protocol == TEST_POOL
            found = (
                find_pool(corpus, wanted, top_k) if pooled else find_queries(corpus, wanted, ranking.window_days, top_k)
            )
            if len(found):
                queries.setdefault(part, {})[protocol] = found
            else:
                which = "a duplicate in it for protocol=test_pool" if pooled else "an earlier duplicate"
                notices.append(f"no report of part {part} has {which}: there is no ranking")
    return queries, notices


def build(
    cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")
) -> tuple[DuplicateDataModule, DuplicateSystem]:
    """Reads the corpus, draws the pairs, builds graph and model; what can be refused is, before the long work.

    Args:
        cfg: The composed configuration of ``conf/train.yaml``.
        console: Where notices go.
        parts: The parts whose pairs are to be scored, by the frozen encoder too.
    """
    silence_library_logs()
    set_matmul_precision(cfg.get("matmul_precision", "highest"))
    corpus, report_parts, known, pairs, queries = prepare_data(cfg, console)
    fusion, loss, batches = instantiate(cfg.fusion), instantiate(cfg.loss), instantiate(cfg.batches)
    _check_training(cfg, batches, loss, report_parts)
    encoder, tokenizer = instantiate(cfg.encoder)
    branch, title_cosines = None, None
    if cfg.graph.rule is not None and fusion.uses_graph:
        graph, title_cosines = _graph(cfg, corpus, report_parts == TRAIN, (encoder, tokenizer))
        dropout, bias = cfg.graph.get("dropout", 0.0), cfg.graph.get("bias", True)  # older runs have neither
        branch = GraphBranch(graph, len(corpus), cfg.encoder.dim, cfg.graph.features, dropout, bias)
    text: Text = instantiate(cfg.text)
    texts = text(corpus.reports, tokenizer, cfg.encoder.max_tokens)
    for notice in getattr(text, "notices_", ()):
        console.print(f"{corpus.name}: {notice}", markup=False, highlight=False)
    tokens = cached_tokens(texts, tokenizer, cfg.encoder.max_tokens, cfg.cache_dir)
    adjacency = branch.adjacency if branch else None
    data = DuplicateDataModule(corpus, tokens, report_parts, pairs, adjacency, batches, queries=queries, known=known)
    data.title_cosines = title_cosines
    _read_untrained(cfg, data, parts, texts, (encoder, tokenizer), branch)
    fusion = fusion if branch else TextOnly()
    encoder.chunk_tokens = cfg.chunk_tokens
    if cfg.compile:
        encoder.backbone.compile(dynamic=True)
    return data, DuplicateSystem(encoder, branch, fusion, loss, **cfg.optimizer, seed=cfg.seed)


def set_matmul_precision(precision: str) -> None:
    """Sets how products of float32 are computed on a GPU, in this process; see ``torch.set_float32_matmul_precision``.

    Raises:
        ValueError: If there is no such precision.
    """
    if precision not in MATMUL_PRECISIONS:
        raise ValueError(f"matmul_precision={precision} is unknown: choose {', '.join(MATMUL_PRECISIONS)}")
    torch.set_float32_matmul_precision(precision)


def _check_training(cfg: DictConfig, batches: Batches, loss: Any, parts: np.ndarray) -> None:
    """Refuses what could only fail in the first step, and what would show test pairs to training."""
    whole = [
        name for name, reads in (("pairs", isinstance(batches, Groups)), ("loss", loss.func in READ_GROUPS)) if reads
    ]
    if whole and (parts == TRAIN).all():
        raise ValueError(f"{' and '.join(whole)} read duplicate groups whole, test pairs too: not with split=pair")
    check_schedule(cfg.optimizer.get("schedule", "constant"))
    if cfg.loss.get("temperature", 1) <= 0:
        raise ValueError(f"loss.temperature={cfg.loss.temperature} must be above 0")
    if cfg.compile and not isinstance(cfg.trainer.get("strategy", ""), str):
        raise ValueError("compile=true does not go with trainer=fsdp: set compile=false, or use trainer=ddp")
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
    wanted, backend = [texts[row] for row in rows], instantiate(cfg.backend)
    length, kept = cfg.encoder.max_tokens, cfg.cache_dir
    vectors = frozen_vectors(wanted, encoder, tokenizer, length, kept, "encode reports", backend)
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
) -> tuple[nn.Module, tuple[np.ndarray, np.ndarray]]:
    """The graph over all reports, from titles read by a frozen encoder, and cosines of some titles to look at."""
    for field in cfg.graph.fields:
        check_field(field)
    if cfg.graph.scope not in ("all", "train"):
        raise ValueError(f"graph.scope={cfg.graph.scope} is unknown: choose all or train")
    reader, tokenizer = encoder if cfg.graph.titles is None else instantiate(cfg.graph.titles)
    titles = list(corpus.reports["title"])
    length, backend = cfg.graph.max_title_tokens, instantiate(cfg.backend)
    vectors = frozen_vectors(titles, reader, tokenizer, length, cfg.cache_dir, "encode titles", backend)
    inside = np.ones(len(corpus), dtype=bool) if cfg.graph.scope == "all" else training
    rule = instantiate(cfg.graph.rule)
    reduced = reduce_titles(vectors, training, cfg.graph.pca_dim)
    cosines = sample_cosines(vectors, reduced)
    if cfg.graph.fields:
        codes = [field_codes(corpus.reports, field) for field in cfg.graph.fields]
        reduced = join_fields(reduced, codes, cfg.graph.field_weight)
    graph: nn.Module = rule(reduced, torch.from_numpy(inside))
    return graph, cosines
