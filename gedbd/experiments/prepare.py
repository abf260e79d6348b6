"""Prepares the data of training, baselines and backtests: reports, split, observed groups, pairs and queries."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import torch
from hydra.utils import get_method, instantiate
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning import seed_everything
from rich.console import Console

from gedbd.corpora.corpus import PARTS, TRAIN, VAL, Corpus
from gedbd.corpora.templates import Text
from gedbd.experiments.corpus_reading import print_fields, read_corpus, training_notices
from gedbd.io.console import print_line, stage
from gedbd.retrieval.ranking_tasks import RankingTask, TaskFinder
from gedbd.retrieval.scorers.scorer_contract import ScorerInputs
from gedbd.sampling.splits import keep_assigned, split_corpus

if TYPE_CHECKING:
    from gedbd.encoders.loaded_encoder import LoadedEncoder

MATMUL_PRECISIONS = ("highest", "high", "medium")
AUTO = "auto"  # of ranking.parts: test, and validation unless a training finds that it costs too much


class PreparedData(NamedTuple):
    """A corpus ready for training and evaluation."""

    corpus: Corpus  # N reports; those that are later than all splits are left out
    parts: np.ndarray  # ``(N,)`` split of each report: 0 train, 1 val, 2 test
    observed_group: np.ndarray  # ``(N,)`` the groups that training may see
    pairs: pd.DataFrame  # the table of ``PairSampler.sample``
    queries: dict[str, dict[str, RankingTask]]  # ranking tasks by split and protocol
    warnings: tuple[str, ...] = ()  # warnings for the user

    def with_larger_training(self) -> "PreparedData":
        """The same data with the validation reports in the training set."""
        pairs = self.pairs.assign(part=self.pairs["part"].replace(PARTS[VAL], PARTS[TRAIN]))
        queries = {part: tasks for part, tasks in self.queries.items() if part != PARTS[VAL]}
        parts = np.where(self.parts == VAL, TRAIN, self.parts)
        return self._replace(parts=parts, pairs=pairs, queries=queries)

    def scorer_inputs(self, part: str) -> ScorerInputs:
        """Data that a baseline may learn from when a split is reported: of this split only its reports and their links.

        Links that training may not see are left out.
        """
        validation = self.pairs[self.pairs["part"] == "val"] if part == "test" else None
        links = None
        if self.corpus.links is not None:
            links = self.corpus.links.pairs
            first, second = self.observed_group[links]
            links = links[:, first == second]
        training = self.pairs[self.pairs["part"] == "train"]
        return ScorerInputs.of_reports(self.corpus.reports, training, validation, links)


@stage("read the corpus, split it, sample pairs")
def prepare_data(cfg: DictConfig, console: Console, corpus: Corpus | None = None) -> PreparedData:
    """Reads the corpus, splits it, samples pairs and finds queries, and prints the warnings of each.

    Reads the corpus of the section ``dataset`` unless one is passed.
    """
    # Before anything is instantiated: modules draw their initial weights when they are made.
    seed_everything(cfg.seed, verbose=False)
    prepared = prepare_corpus(cfg, read_corpus(cfg.dataset, cfg.cache_dir) if corpus is None else corpus)
    print_fields(console, prepared.corpus)
    for warning in prepared.warnings:
        print_line(console, f"{prepared.corpus.name}: {warning}")
    return prepared


def prepare_corpus(cfg: DictConfig, corpus: Corpus) -> PreparedData:
    """Splits a corpus, samples pairs and finds queries."""
    split = instantiate(cfg.split)
    corpus, parts = keep_assigned(corpus, split_corpus(split, corpus))
    sampler = instantiate(cfg.pairs)
    # Feedback of triagers may join groups, so the sampler decides last what training observes.
    observed = sampler.join_accepted(corpus, split, instantiate(cfg.labels).observed(corpus, parts))
    pairs, pair_warnings = sampler.sample(corpus, split, observed)
    check_ranking(cfg.ranking)
    finders = {str(name): instantiate(finder) for name, finder in cfg.ranking.protocols.items()}
    ranked = ["val", "test"] if cfg.ranking.parts == AUTO else cfg.ranking.parts
    queries, ranking_warnings = ranking_queries(corpus, parts, ranked, finders, tuple(cfg.ranking.top_k))
    # A baseline may read no vectors.
    encoding = cfg.baselines.get(cfg.name) if "baselines" in cfg else cfg.get("encoder")
    notices = training_notices(encoding, corpus.reports) if encoding is not None else ()
    warnings = (*corpus.warnings, *pair_warnings, *ranking_warnings, *notices)
    return PreparedData(corpus, parts, observed, pairs, queries, warnings)


class EncodedCorpus(NamedTuple):
    """The vectors of a corpus."""

    vectors: np.ndarray  # ``(N, D)`` unit rows
    warnings: tuple[str, ...]  # warnings of the text template, in sentences for the user


@stage("encode the reports")
def encode_corpus(cfg: DictConfig, corpus: Corpus, weights: Path | None) -> EncodedCorpus:
    """Encodes all reports with the configured encoder, trained if there are weights."""
    encoder: LoadedEncoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
    if weights is not None:
        encoder.load_weights(weights)
    text: Text = instantiate(cfg.text)
    texts, warnings = text(corpus.reports, encoder.tokenizer, encoder.text_tokens)
    return EncodedCorpus(encoder.encode(texts), warnings)


def check_ranking(ranking: DictConfig) -> None:
    """Raises ValueError if a split, a protocol or a rank of the section ``ranking`` is invalid."""
    if ranking.parts != AUTO and not OmegaConf.is_list(ranking.parts):
        raise ValueError(f"ranking.parts={ranking.parts} must be {AUTO} or a list, such as [val,test]")
    unknown = [name for name in ranking.parts if ranking.parts != AUTO and name not in PARTS]
    if unknown:
        raise ValueError(f"ranking.parts={list(ranking.parts)}: {unknown[0]} is unknown: choose {', '.join(PARTS)}")
    protocols = ranking.protocols
    finders = protocols.values() if OmegaConf.is_dict(protocols) else [None]
    if not all(isinstance(finder, DictConfig) and "_target_" in finder for finder in finders):
        raise ValueError(f"ranking.protocols={protocols} must name a _target_ for each protocol: choose protocol=...")
    top_k = list(ranking.top_k)
    if not top_k or top_k != sorted({k for k in top_k if isinstance(k, int) and k > 0}):
        raise ValueError(f"ranking.top_k={top_k} must be one or more whole numbers above 0, in ascending order")


def ranks_later(finder: DictConfig) -> bool:
    """Whether a protocol ranks documents that are created after the query; see ``RankingTask``."""
    method = get_method(finder["_target_"])
    # A finder is a class method of its ranking task, or a function.
    return bool(getattr(getattr(method, "__self__", method), "ranks_later", False))


def ranking_queries(
    corpus: Corpus,
    report_parts: np.ndarray,
    parts: list[str],
    finders: Mapping[str, TaskFinder],
    top_k: tuple[int, ...],
) -> tuple[dict[str, dict[str, RankingTask]], list[str]]:
    """Ranking tasks by split and protocol, and warnings, such as about splits without queries."""
    queries: dict[str, dict[str, RankingTask]] = {}
    warnings = []
    parts_by_warning: dict[str, list[str]] = {}  # warnings of the ranking tasks, with their splits
    for part in parts:
        in_split = report_parts == PARTS.index(part)
        for protocol, find in finders.items():
            task = find(corpus, in_split, top_k=top_k)
            if len(task):
                queries.setdefault(part, {})[protocol] = task
                for warning in task.warnings:
                    parts_by_warning.setdefault(warning, []).append(part)
            else:
                warnings.append(f"no report of part {part} has {task.words.lacks}, so nothing is ranked")
    return queries, [*warnings, *(f"{' and '.join(names)}: {warning}" for warning, names in parts_by_warning.items())]


def set_matmul_precision(precision: str) -> None:
    """Sets the precision of float32 matrix products on a GPU; see ``torch.set_float32_matmul_precision``.

    Raises:
        ValueError: If the precision is unknown.
    """
    if precision not in MATMUL_PRECISIONS:
        raise ValueError(f"matmul_precision={precision} is unknown: choose {', '.join(MATMUL_PRECISIONS)}")
    torch.set_float32_matmul_precision(precision)
