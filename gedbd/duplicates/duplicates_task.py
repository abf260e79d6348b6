"""Assembles duplicate detection from the configuration: data module, model, and the result of a test."""

import math
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from gedbd.duplicates.bug_reports import BugReports
from gedbd.duplicates.duplicate_detector import PARTS, DuplicateDetector
from gedbd.evaluation.result_tables import WITH_GRAPH, WITHOUT_GRAPH
from gedbd.experiments.prepare import prepare_data, set_matmul_precision
from gedbd.experiments.retrieval_module import spread, trained_result
from gedbd.experiments.run_training import refit, train_system
from gedbd.experiments.training_task import NO_OBJECTS, TRAINING_SECTIONS, EvaluationResult, TrainingSetup
from gedbd.experiments.validation_ranking import leave_out_costly_ranking
from gedbd.io.console import print_line, silence_library_logs

GRAPH_OPTIONS = ("features", "dropout", "bias")  # those of the section ``graph`` that the module reads


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
        | {"lock_threshold", "adapter_rank", "train_tokens"}
        | TRAINING_SECTIONS
    )

    def __init__(self, refit: bool = False) -> None:
        self.refit = refit
        self.given = NO_OBJECTS

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains, tests, and returns the value that sweeps compare; NaN of a training without validation."""
        if self.refit:
            refit(self, cfg, cfg.trainer.max_epochs, folder, console, alone=True)
            return math.nan
        return train_system(self, cfg, folder, console, self.given)

    def build(self, cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")) -> TrainingSetup:
        """The data, the system and the corpus of a training."""
        silence_library_logs()
        set_matmul_precision(cfg.matmul_precision)
        if cfg.compile and not isinstance(cfg.trainer.get("strategy", ""), str):
            raise ValueError("compile=true does not work with trainer=fsdp: set compile=false, or use trainer=ddp")
        prepared = prepare_data(cfg, console, self.given.corpus)
        if self.refit:
            prepared = prepared.with_larger_training()
        elif "val" not in set(prepared.pairs["part"]):
            raise ValueError(
                "dataset.held_out=[] leaves no tracker to validate on: name one, or train without validation and test:"
                " task.refit=true"
            )
        sections: dict[str, Any] = {name: OmegaConf.to_container(cfg[name], resolve=True) for name in PARTS}
        if self.given.loss is not None:
            sections["loss"] = self.given.loss
        detector = DuplicateDetector(
            **sections,
            **{name: cfg.graph[name] for name in GRAPH_OPTIONS if name in cfg.graph},
            adapter_rank=cfg.get("adapter_rank"),  # runs of earlier versions have neither option
            seed=cfg.seed,
            lock_threshold=bool(cfg.get("lock_threshold")),
            backend=instantiate(cfg.backend),
            cache_dir=cfg.cache_dir,
        )
        data = BugReports(
            prepared,
            detector.loaded_encoder,
            evaluated=("val", *parts),
            options=cfg,
            warn=partial(print_line, console),
        )
        leave_out_costly_ranking(cfg, data, console)
        detector.connect(data)
        detector.encoder.chunk_tokens = cfg.chunk_tokens
        if cfg.compile:
            # Last, so that the cached vectors of the untrained encoder do not depend on it.
            detector.encoder.backbone.compile(dynamic=True)
        return TrainingSetup(data, detector, prepared.corpus, tuple(data.queries.get("val", {})))

    def result(self, setup: TrainingSetup) -> EvaluationResult:
        """Metrics, scores and vectors of a test."""
        data = setup.data
        system = setup.system
        assert isinstance(data, BugReports)
        assert isinstance(system, DuplicateDetector)
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
