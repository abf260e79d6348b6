"""Pre-training of an encoder of code as the configuration describes it, with its tables, figures and page."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd
import torch
from hydra.utils import instantiate
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from pytorch_lightning.loggers import Logger
from rich.console import Console
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from gedbd.corpora.corpus import TRAIN, Corpus
from gedbd.encoders.backbone import max_positions
from gedbd.encoders.loaded_encoder import LoadedEncoder
from gedbd.evaluation.figures import epoch_curves
from gedbd.experiments.callbacks import check_logged, value_of_best
from gedbd.experiments.corpus_reading import read_corpus
from gedbd.experiments.distributed import is_first
from gedbd.experiments.prepare import set_matmul_precision
from gedbd.experiments.report.report_page import Section
from gedbd.experiments.run_results import write_run_page
from gedbd.experiments.run_training import trained, training_callbacks
from gedbd.experiments.training_task import TRAINING_SECTIONS
from gedbd.io.console import print_line, print_path, silence_library_logs
from gedbd.io.table_files import read_csv
from gedbd.localization.code_encoder.code_encoder import UntrainedEncoder, save_encoder
from gedbd.localization.code_encoder.code_inputs import (
    CODE_BLOCK,
    NODE_BLOCK,
    InputLimits,
    InputParts,
    add_code_tokens,
    check_length,
)
from gedbd.localization.code_encoder.masking import ALIGNMENT, EDGE, MLM, Sample, Shares, active_weights
from gedbd.localization.code_encoder.pretraining_data import PretrainingDataModule, find_vocabulary, read_inputs
from gedbd.localization.code_encoder.pretraining_system import REDUCTIONS, PretrainingSystem
from gedbd.sampling.splits import keep_assigned, split_corpus

MAX_DISTANCE = 40  # farther nodes count as this far
METHOD = "semantic_codebert"
MAX_COUNTED = 3_000  # training methods that base rates are counted in
LOSS = {"total loss": {"train": "train/loss", "val": "val/loss"}}
OBJECTIVES_TEXT = (
    "Of each test method, {tokens:.0%} of the tokens of code and comment are predicted (mlm), and for {nodes:.0%} of"
    " the nodes the edges to their tokens of code (alignment), to other nodes (edge), to their types and to their"
    " roles: edges against as many non-edges. The base rate is the accuracy without a model: of the most frequent"
    " token; and of the majority by type, role or distance among training methods, or 0.5."
)


def base_rates(train: Iterable[Sample], test: Iterable[Sample], objectives: Iterable[str]) -> dict[str, float]:
    """The accuracy on test samples by objective, predicted by frequencies in training samples; for edges at least 0.5.

    A token is the most frequent one. An edge is predicted where the majority of the training pairs with the same
    property, see ``keys_of``, are edges.
    """
    trained, tested = _truths(train), _truths(test)
    accuracies = {}
    for name in objectives:
        keys, truth = tested[name]
        table = pd.DataFrame(trained[name].T, columns=["key", "truth"])
        if name == MLM:
            counts = table.groupby("truth", sort=False).size()
            predicted = truth == (counts.idxmax() if len(counts) else None)
        else:
            predicted = pd.Series(keys).map(table.groupby("key")["truth"].mean()).gt(0.5).to_numpy() == truth
        fraction = float(predicted.mean()) if len(truth) else float("nan")
        accuracies[name] = fraction if name == MLM else max(0.5, fraction)
    return accuracies


def _truths(samples: Iterable[Sample]) -> dict[str, np.ndarray]:
    """By objective ``(2, P)``: the property of each prediction (0 for tokens), and the true token or label."""
    truths: dict[str, list[np.ndarray]] = defaultdict(list)
    for sample in samples:
        truths[MLM].append(np.stack([np.zeros_like(sample.targets), sample.targets]))
        for name in sample.pairs:
            truths[name].append(np.stack(keys_of(sample, name)))
    return {name: np.concatenate(tables, axis=1) for name, tables in truths.items()}


def keys_of(sample: Sample, name: str) -> tuple[np.ndarray, np.ndarray]:
    """The property of each pair by which a base rate is counted, and the labels, ``(P,)`` integers each."""
    ends, label = sample.pairs[name]
    if name == ALIGNMENT:
        # Distance in nodes from a token to a node, by relative positions: token 50 of 100 and node 2 of 8 are at
        # 50/100 and 2/8, 4 - 2 = 2 nodes apart.
        first_token, num_tokens = sample.visible.blocks[CODE_BLOCK]
        first_node, num_nodes = sample.visible.blocks[NODE_BLOCK]
        expected = (ends[0] - first_token) / max(num_tokens, 1) * num_nodes
        keys = np.floor(expected - (ends[1] - first_node)).clip(-MAX_DISTANCE, MAX_DISTANCE)
    elif name == EDGE:
        keys = (ends[1] - ends[0]).clip(-MAX_DISTANCE, MAX_DISTANCE)
    else:
        # Blocks of types and roles begin after the nodes, whose number differs, and end with the input.
        keys = ends[1] - len(sample.visible)
    return keys.astype(np.int64), label.astype(np.int64)


def write_result(
    folder: Path,
    corpus: Corpus,
    data: PretrainingDataModule,
    system: PretrainingSystem,
    loggers: list[Logger],
    console: Console,
) -> None:
    """Writes, prints and logs the metrics of the last test."""
    objectives = objectives_table(data, system)
    epochs = read_csv(folder / "metrics.csv")
    num_tested = len(data.rows["test"])
    above = (objectives["accuracy"] > objectives["base_rate"]).sum()
    summary = (
        f"{corpus.name}: on {num_tested:,} test methods, {above} of {len(objectives)} objectives are predicted better"
        " than by frequencies and distances alone"
    )
    text = OBJECTIVES_TEXT.format(**vars(data.dataset.sampler.shares))
    by_objective = {
        f"{measure} on validation": {name: f"val/{name}_{measure}" for name in objectives["objective"]}
        for measure in ("loss", "accuracy")
    }
    caption = "Loss and accuracy of each objective on validation by epoch"
    curves = [
        ("total_loss", "Weighted sum of the losses by epoch", epoch_curves([epochs], LOSS)),
        ("objectives", caption, epoch_curves([epochs], by_objective)),
    ]
    sections = [Section("Objectives", text, [objectives]), Section("Training", "By epoch.", [], curves)]
    tables = {"results": results_of_run(objectives), "objectives": objectives}
    printed = {f"{corpus.name}, {num_tested:,} test methods": objectives}
    write_run_page(folder, "Pre-training", corpus.name, summary, tables, printed, sections, loggers, console)
    print_path(console, "encoder:", folder / "encoder")


def objectives_table(data: PretrainingDataModule, system: PretrainingSystem) -> pd.DataFrame:
    """``objective``, ``weight``, ``loss``, ``accuracy``, ``base_rate`` and ``predictions`` of the last test."""
    train = data.rows["train"]
    if len(train) > MAX_COUNTED:
        train = np.random.default_rng(0).choice(train, MAX_COUNTED, replace=False)
    # Samples as an evaluation draws them.
    counted, tested = ((data.dataset.sample(int(row)) for row in rows) for rows in (train, data.rows["test"]))
    rates = base_rates(counted, tested, system.weights)
    rows = []
    for name, weight in system.weights.items():
        measured = system.tested[name]
        row = {"objective": name, "weight": weight, "loss": measured["loss"], "accuracy": measured["accuracy"]}
        rows.append(row | {"base_rate": rates[name], "predictions": int(measured["count"])})
    return pd.DataFrame(rows)


def results_of_run(objectives: pd.DataFrame) -> pd.DataFrame:
    """One row: the run's method, total loss and mean accuracy, and loss, accuracy and base rate of each objective."""
    row: dict[str, object] = {
        "method": METHOD,
        "mean_accuracy": objectives["accuracy"].mean(),
        "mean_base_rate": objectives["base_rate"].mean(),
        "loss": (objectives["weight"] * objectives["loss"]).sum(),
    }
    for line in objectives.to_dict("records"):
        row |= {f"{line['objective']}_{name}": line[name] for name in ("accuracy", "base_rate", "loss")}
    return pd.DataFrame([row])


COMPARED = "val/mean_accuracy"


class PretrainingTask:
    """The pre-training of SemanticCodeBERT.

    A masked language model of code and comment, and predictions of the edges between code and the nodes of its semantic
    flow graph, between nodes, and from nodes to types and roles. Source: the talk "Pre-training Code Representation
    with Semantic Flow Graph for Effective Bug Localization" (2023). The run folder's ``encoder`` is a folder of Hugging
    Face with the weights of the best checkpoint.

    Args:
        weights: Weight of each objective, see ``active_weights``; 0 leaves one out.
        parts: Options of ``InputParts``; without nodes there are neither types nor roles.
        limits: Options of ``InputLimits``.
        shares: Options of ``Shares``.
        reduction: Reduction of an objective's losses, ``mean`` or ``sum``.
        epochs: The configuration takes the default of ``trainer.max_epochs`` from it.
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
        # Without nodes, types and roles are left out too.
        self.parts = InputParts(**{**parts, **{name: parts["nodes"] and parts[name] for name in ("types", "roles")}})
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
        logged = [f"{name}_{metric}" for name in self.weights for metric in ("loss", "accuracy")]
        check_logged(cfg, [f"val/{name}" for name in ("loss", "mean_accuracy", *logged)])
        callbacks = training_callbacks(cfg, folder, console, COMPARED)
        seed_everything(cfg.seed, verbose=False)
        encoder = instantiate(cfg.encoder)
        corpus = read_corpus(cfg.dataset)
        if "comment" not in corpus.reports or "path" not in corpus.reports:
            raise ValueError(
                f"{corpus.name} holds no methods: choose dataset=java_sources dataset.path=<folder of sources>"
            )
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
        with trained(system, data, corpus, cfg, folder, callbacks, console) as loggers:
            if is_first():
                save_encoder(folder / "encoder", system.encoder.backbone, tokenizer, self.limits, self.parts)
                write_result(folder, corpus, data, system, loggers, console)
        return value_of_best(folder, cfg.monitor, COMPARED)


def starting_point(
    encoder: LoadedEncoder | UntrainedEncoder, corpus: Corpus, parts: np.ndarray
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The initial weights and the tokenizer; a new tokenizer is trained on the training split only."""
    if isinstance(encoder, UntrainedEncoder):
        methods = corpus.reports[parts == TRAIN]
        return encoder.fit([*methods["comment"], *methods["description"]])
    backbone = encoder.model.backbone
    assert isinstance(backbone, PreTrainedModel)
    return backbone, encoder.tokenizer
