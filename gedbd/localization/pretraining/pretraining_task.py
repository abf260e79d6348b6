"""Pre-training of an encoder of code by the task's section of the configuration."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.corpora.corpus import Corpus
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.encoders.pretrained import max_positions
from gedbd.experiments.callbacks import may_be_own, value_of_best
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.experiments.prepare import set_matmul_precision
from gedbd.experiments.run_training import trained, training_callbacks
from gedbd.experiments.training_task import TRAINING_SECTIONS
from gedbd.io.console import print_line, silence_library_logs
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder, save_encoder
from gedbd.localization.code_encoder.code_inputs import InputLimits, InputParts, add_code_tokens, check_length
from gedbd.localization.pretraining.masking import Shares, active_weights
from gedbd.localization.pretraining.pretraining_data import (
    PretrainingDataModule,
    check_methods,
    find_vocabulary,
    read_inputs,
)
from gedbd.localization.pretraining.pretraining_output import write_result
from gedbd.localization.pretraining.pretraining_system import REDUCTIONS, PretrainingSystem
from gedbd.sampling.splits import TRAIN, keep_assigned, split_corpus

COMPARED = "val/mean_accuracy"


class PretrainingTask:
    """The pre-training of SemanticCodeBERT.

    A masked language model of code and comment, and predictions of the edges between code and the nodes of its
    semantic flow graph, between nodes, and from nodes to types and roles. Source: the talk "Pre-training Code
    Representation with Semantic Flow Graph for Effective Bug Localization" (2023).

    The run folder's ``encoder`` is a folder of Hugging Face with the weights of the best checkpoint.

    Args:
        weights: Weight of each objective, see ``active_weights``; 0 leaves one out.
        parts: Options of ``InputParts``; without nodes there are neither types nor roles.
        limits: Options of ``InputLimits``.
        shares: Options of ``Shares``.
        reduction: Of an objective's losses, ``mean`` or ``sum``.
        epochs: The configuration takes the default of ``trainer.max_epochs`` from it.

    Raises:
        ValueError: If an option is invalid.
    """

    reads: ClassVar[frozenset[str]] = frozenset(
        {"split", "encoder", "batch_size", "optimizer", "scheduler", "matmul_precision"} | TRAINING_SECTIONS
    )

    def __init__(
        self,
        weights: Mapping[str, float],
        parts: Mapping[str, Any],
        limits: Mapping[str, int],
        shares: Mapping[str, float],
        reduction: str = "mean",
        epochs: int = 10,
    ) -> None:
        self.parts = input_parts(**parts)
        self.limits = InputLimits(**limits)
        self.shares = Shares(**shares)
        if reduction not in REDUCTIONS:
            raise ValueError(f"task.reduction={reduction} is unknown: choose {' or '.join(REDUCTIONS)}")
        self.reduction = reduction
        self.weights = active_weights(weights, self.parts)

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains and tests; returns the mean accuracy on validation of the best checkpoint."""
        silence_library_logs()
        set_matmul_precision(cfg.matmul_precision)
        logged = [f"{name}_{what}" for name in self.weights for what in ("loss", "accuracy")]
        names = [f"val/{name}" for name in ("loss", "mean_accuracy", *logged)]
        if cfg.monitor not in names and not may_be_own(cfg):
            raise ValueError(f"monitor={cfg.monitor} is not logged: choose one of {', '.join(names)}")
        callbacks = training_callbacks(cfg, folder, console, COMPARED)
        seed_everything(cfg.seed, verbose=False)
        encoder = instantiate(cfg.encoder)
        corpus = read_corpus(cfg.dataset)
        check_methods(corpus)
        corpus, parts = keep_assigned(corpus, split_corpus(instantiate(cfg.split), corpus))
        backbone, tokenizer = starting_point(encoder, corpus, parts)
        check_length(self.limits, self.parts, max_positions(backbone))
        add_code_tokens(tokenizer, backbone)
        inputs, warnings = read_inputs(corpus.reports, tokenizer, self.limits, self.parts)
        for warning in (*corpus.warnings, *warnings):
            print_line(console, f"{corpus.name}: {warning}")
        vocabulary = find_vocabulary(tokenizer)
        data = PretrainingDataModule(inputs, parts, self.weights, self.shares, vocabulary, cfg.batch_size, cfg.seed)
        # Other modules have drawn random numbers: the weights of the head depend on the seed alone.
        torch.manual_seed(cfg.seed)
        schedule = instantiate(cfg.optimizer), instantiate(cfg.scheduler)
        system = PretrainingSystem(backbone, self.weights, *schedule, cfg.seed, self.reduction)
        with trained(system, data, corpus, cfg, folder, callbacks, console) as training:
            if training.is_first:
                save_encoder(folder / "encoder", system.encoder.backbone, tokenizer, self.limits, self.parts)
                write_result(folder, corpus, data, system, training.loggers, console)
        return value_of_best(folder, cfg.monitor, COMPARED)


def input_parts(nodes: bool, types: bool, roles: bool, **choices: str) -> InputParts:
    """Parts of an input, where ``nodes=false`` leaves types and roles out whatever they say."""
    return InputParts(nodes, types and nodes, roles and nodes, **choices)


def starting_point(
    encoder: LoadedEncoder | UntrainedEncoder, corpus: Corpus, parts: np.ndarray
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Weights and tokenizer that the training begins with; a tokenizer is made from the training split alone."""
    if isinstance(encoder, UntrainedEncoder):
        methods = corpus.reports[parts == TRAIN]
        return encoder.fit([*methods["comment"], *methods["description"]])
    backbone = encoder.model.backbone
    assert isinstance(backbone, PreTrainedModel)
    return backbone, encoder.tokenizer
