"""Assembles duplicate detection from the configuration: data module, system, and the result of a test."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from rich.console import Console

from gedbd.corpora.corpus import TRAIN
from gedbd.corpora.templates import Text
from gedbd.duplicates.duplicate_data import DuplicateDataModule
from gedbd.duplicates.duplicate_system import DuplicateSystem
from gedbd.duplicates.graph.gcn import GraphBranch, TextOnly
from gedbd.duplicates.graph.title_graph import TAGS, SharedIdentifiers, TitleGraph, build_graph, senders
from gedbd.encoders.loaded_encoder import LoadedEncoder, unit_rows
from gedbd.evaluation.result_tables import WITH_GRAPH, WITHOUT_GRAPH
from gedbd.experiments.prepare import PreparedData, prepare_data, set_matmul_precision
from gedbd.experiments.retrieval_system import spread, trained_result
from gedbd.experiments.run_training import train_system
from gedbd.experiments.training_task import NO_OBJECTS, TRAINING_SECTIONS, EvaluationResult, TrainingSetup
from gedbd.experiments.validation_ranking import leave_out_costly_ranking
from gedbd.io.console import print_line, silence_library_logs
from gedbd.losses import Loss, check_labels
from gedbd.sampling.batches import Batches

if TYPE_CHECKING:
    from gedbd.encoders.node2vec import TagEncoder


class DuplicatesTask:
    """Duplicate detection, see ``gedbd.experiments.training_task.SystemTask``.

    Args:
        refit: Train on the validation set too, for a last training after all choices were made on it.

    Attributes:
        given: Objects that replace those of the configuration.
    """

    reads: ClassVar[frozenset[str]] = frozenset(
        {"text", "split", "labels", "pairs", "batches", "batch_size", "ranking", "encoder", "backend", "tags"}
        | {"graph", "fusion", "loss", "optimizer", "scheduler", "chunk_tokens", "compile", "matmul_precision"}
        | {"lock_threshold"}
        | TRAINING_SECTIONS
    )

    def __init__(self, refit: bool = False) -> None:
        self.refit = refit
        self.given = NO_OBJECTS

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains, tests, and returns the value that sweeps compare."""
        return train_system(self, cfg, folder, console, self.given)

    def build(self, cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")) -> TrainingSetup:
        """The data, the system and the corpus of a training."""
        silence_library_logs()
        set_matmul_precision(cfg.matmul_precision)
        prepared = prepare_data(cfg, console, self.given.corpus)
        if self.refit:
            prepared = prepared.with_larger_training()
        # Modules draw their initial weights from one random generator: the order of these lines fixes the numbers.
        fusion = instantiate(cfg.fusion)
        loss: Any = instantiate(cfg.loss) if self.given.loss is None else self.given.loss
        batches = instantiate(cfg.batches)
        check_training(cfg, batches, loss, prepared.parts)
        encoder: LoadedEncoder = instantiate(cfg.encoder, backend=instantiate(cfg.backend), cache_dir=cfg.cache_dir)
        graph: TitleGraph | None = None
        branch: GraphBranch | None = None
        if cfg.graph.rule is not None and fusion.uses_graph:
            graph = _graph(cfg, prepared, encoder, console)
            branch = GraphBranch(
                graph.adjacency,
                len(prepared.corpus),
                cfg.encoder.dim,
                cfg.graph.features,
                cfg.graph.dropout,
                cfg.graph.bias,
            )
        text: Text = instantiate(cfg.text)
        texts, warnings = text(prepared.corpus.reports, encoder.tokenizer, encoder.text_tokens)
        for warning in warnings:
            print_line(console, f"{prepared.corpus.name}: {warning}")
        data = DuplicateDataModule(
            prepared.corpus,
            encoder.tokenize(texts, cfg.cache_dir),
            prepared.parts,
            prepared.pairs,
            batches,
            prepared.queries,
            prepared.observed_group,
            ("val", *parts),
            branch.adjacency if branch else None,
        )
        data.title_graph = graph
        leave_out_costly_ranking(cfg, data, console)
        encode_untrained(data, texts, encoder, branch, everything=cfg.ranking.ranker)
        if cfg.ranking.ranker and data.frozen is not None:
            from gedbd.retrieval.report_ranking.report_training import RankerOnTop

            data.on_top = RankerOnTop(prepared.corpus, prepared.parts, data.frozen[1])
        encoder.model.chunk_tokens = cfg.chunk_tokens
        if cfg.compile:
            # Last, so that the cached vectors of the untrained encoder do not depend on it.
            encoder.model.backbone.compile(dynamic=True)
        system = DuplicateSystem(
            encoder.model,
            branch,
            fusion if branch else TextOnly(),
            loss,
            instantiate(cfg.optimizer),
            instantiate(cfg.scheduler),
            cfg.seed,
        )
        system.locks_threshold = bool(cfg.get("lock_threshold"))  # runs of earlier versions have no such option
        return TrainingSetup(data, system, prepared.corpus, tuple(data.queries.get("val", {})))

    def result(self, setup: TrainingSetup) -> EvaluationResult:
        """Metrics, scores and vectors of a test."""
        data = setup.data
        system = setup.system
        assert isinstance(data, DuplicateDataModule)
        assert isinstance(system, DuplicateSystem)
        assert data.frozen is not None
        graph = data.title_graph
        return trained_result(
            data.corpus,
            system,
            data,
            pd.concat(system.scores.values()),
            # Without a graph the only text branch is the model itself.
            WITHOUT_GRAPH if system.branch is None else WITH_GRAPH,
            spread(*data.frozen, len(data.corpus)),
            graph.tag_network if graph else None,
            threshold=round(float(system.threshold), 6),
            title_cosines=graph.title_cosines if graph else None,
        )


def check_training(cfg: DictConfig, batches: Batches, loss: Loss, parts: np.ndarray) -> None:
    """Checks options that would otherwise fail in the first batch, or leak test pairs into training.

    Raises:
        ValueError: If options are invalid or contradict each other.
    """
    check_labels(loss, batches.provides)
    group_readers = [
        name for name, reads in (("pairs", batches.reads_groups), ("loss", "groups" in loss.reads)) if reads
    ]
    # With split=pair all reports are in the training set, and the pairs inside a group are in all splits.
    if group_readers and (parts == TRAIN).all():
        readers = " and ".join(group_readers)
        raise ValueError(f"{readers} read whole duplicate groups, test pairs too: do not use split=pair")
    if cfg.compile and not isinstance(cfg.trainer.get("strategy", ""), str):
        raise ValueError("compile=true does not work with trainer=fsdp: set compile=false, or use trainer=ddp")


def _graph(cfg: DictConfig, prepared: PreparedData, encoder: LoadedEncoder, console: Console) -> TitleGraph:
    """The graph of the section ``graph``; titles are encoded by ``encoder`` or by an encoder of their own."""
    options = cfg.graph
    rule = instantiate(options.rule)
    if isinstance(rule, SharedIdentifiers):
        return rule.graph(prepared.corpus, senders(prepared.parts == TRAIN, options.scope))
    titles: LoadedEncoder = encoder if options.titles is None else instantiate(options.titles)
    tag_encoder: TagEncoder | None = instantiate(cfg.tags) if TAGS in options.fields else None
    graph = build_graph(
        prepared.corpus,
        prepared.parts == TRAIN,
        LoadedEncoder(
            titles.model,
            titles.tokenizer,
            options.max_title_tokens,
            encoder.backend,
            encoder.cache_dir,
            titles.prefix,
        ),
        rule,
        options.scope,
        options.pca_dim,
        options.fields,
        options.field_weight,
        tag_encoder,
    )
    for warning in tag_encoder.warnings_ if tag_encoder else ():
        print_line(console, f"{prepared.corpus.name}: {warning}")
    return graph


def encode_untrained(
    data: DuplicateDataModule,
    texts: list[str],
    encoder: LoadedEncoder,
    branch: GraphBranch | None,
    everything: bool = False,
) -> None:
    """Encodes reports with the untrained encoder and stores the vectors where they are needed.

    They are a baseline (``data.frozen`` and the column ``score_frozen`` of the evaluated pairs), the initial node
    features of the graph, and the vectors by which the first epoch draws hard negatives.

    Args:
        data: The data; its evaluated splits are scored.
        texts: Texts of all N reports.
        encoder: The encoder before its training; it has a trained projection if it was exported by gedbd.
        branch: The graph branch, if there is one.
        everything: Encode all reports, even if not all their vectors are needed.
    """
    fills_nodes = branch is not None and not branch.node_features.learnable
    samples_hard = bool(data.batches.hard)
    needs_all = everything or fills_nodes or samples_hard
    rows = np.arange(len(texts)) if needs_all else data.needed(*data.evaluated)
    vectors = encoder.pool([texts[row] for row in rows])
    data.frozen = (rows, unit_rows(encoder.project(vectors) if encoder.is_trained else vectors))
    score_frozen(data.pairs, data.evaluated, *data.frozen)
    if fills_nodes or samples_hard:
        z_text = encoder.project(vectors)
        data.remember(rows, unit_rows(z_text))
    if fills_nodes and branch is not None:
        branch.node_features.write(torch.from_numpy(rows), torch.from_numpy(z_text))


def score_frozen(pairs: pd.DataFrame, parts: tuple[str, ...], rows: np.ndarray, vectors: np.ndarray) -> None:
    """Adds the column ``score_frozen``, the cosines of untrained vectors, to the pairs of some splits.

    Args:
        pairs: Pairs with ``earlier``, ``later`` and ``part``; changed in place.
        parts: The splits to score; the other pairs get NaN.
        rows: ``(U,)`` sorted rows of the corpus that have a vector.
        vectors: ``(U, hidden)`` their unit vectors.
    """
    is_scored = pairs["part"].isin(parts)
    # Row numbers of the corpus become positions among the sorted rows: of rows 4, 7, 9, row 7 is at position 1.
    earlier = np.searchsorted(rows, pairs.loc[is_scored, "earlier"].to_numpy())
    later = np.searchsorted(rows, pairs.loc[is_scored, "later"].to_numpy())
    pairs.loc[is_scored, "score_frozen"] = (vectors[earlier] * vectors[later]).sum(axis=1)
