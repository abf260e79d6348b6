"""The task of bug localization: trains HMCBL, and ranks the changes before each report by all methods."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar

import pandas as pd
from omegaconf import DictConfig
from pytorch_lightning import seed_everything
from rich.console import Console

from gedbd.corpora.corpus import GRANULARITIES, ChangeCorpus, Granularity
from gedbd.experiments.callbacks import check_logged, value_of_best
from gedbd.experiments.corpus_reading import read_changes
from gedbd.experiments.distributed import is_first
from gedbd.experiments.loggers import open_loggers
from gedbd.experiments.prepare import set_matmul_precision
from gedbd.experiments.run_folder import save_run
from gedbd.experiments.run_training import trained, training_callbacks
from gedbd.experiments.training_task import TRAINING_SECTIONS
from gedbd.io.console import print_line, silence_library_logs
from gedbd.io.table_files import read_csv
from gedbd.localization.training.compared_methods import (
    EARLIER_BUGS,
    LINEAR,
    EarlierBugs,
    LearntOptions,
    MakeScorer,
    MethodOptions,
    best_part_id,
    fixed_method,
    learnt_methods,
    make_methods,
    parts_of,
)
from gedbd.localization.training.hmcbl import (
    COSINE,
    MAX_SIM,
    HmcblOptions,
    build_hmcbl,
    encoders_of_commits,
    hmcbl_scorers,
)
from gedbd.localization.training.localization_data import Halves, Level, find_halves, make_level
from gedbd.localization.training.localization_output import FirstPretraining, write_result
from gedbd.localization.training.localization_results import LocalizationResult, MeasuredMethod, measure, rank_level
from gedbd.retrieval.scorers.scorer_contract import Scorer

VALIDATION = "val/mrr"


@dataclass(eq=False)
class LocalizationTask:
    """Ranking of the changes that introduced the bug of a report, see ``gedbd.experiments.training_task.Task``.

    Raises ValueError if an option is invalid.
    """

    unread_without: ClassVar[Mapping[str, frozenset[str]]] = {
        "model": frozenset({"batch_size", "optimizer", "scheduler", "matmul_precision"} | TRAINING_SECTIONS)
    }
    reads: ClassVar[frozenset[str]] = frozenset({"encoder"} | unread_without["model"])

    scorers: Mapping[str, MakeScorer]  # functions that return an unfitted scorer, by id
    compared: MethodOptions  # options of the compared methods
    model: HmcblOptions | None = None  # options of HMCBL; None trains no encoder
    # pre-training of the encoder of changes; None for the encoder of ``model``
    pretraining: FirstPretraining | None = None
    learnt: Mapping[str, LearntOptions] | None = None  # learned rankers, by id
    # granularities of the ranked changes; the first one is that of ``results.csv``
    granularities: Sequence[Granularity] = GRANULARITIES
    seeds: int = 2  # number of seeds of random methods
    val_share: float = 0.3  # share of the first half, the latest reports, for validation
    published: bool = False  # whether to write the paper's numbers beside the measured ones
    epochs: int = 10  # unused; the configuration reads the default of ``trainer.max_epochs`` from it

    def __post_init__(self) -> None:
        self.compared.check(self.scorers)
        names = {*self.scorers, *self.compared.sums, LINEAR, COSINE, MAX_SIM, EARLIER_BUGS}
        taken = [name for name in self.learnt or {} if name in names]
        if taken:
            raise ValueError(f"task.learnt.{taken[0]}: there is another method with this name: choose another one")
        unknown = [name for name in self.granularities if name not in GRANULARITIES]
        if unknown or not self.granularities:
            raise ValueError(f"task.granularities={list(self.granularities)}: choose from {', '.join(GRANULARITIES)}")
        baseline = self.compared.baseline
        if self.granularities[0] not in self.compared.ranked(baseline):
            raise ValueError(f"task.compared.only.{baseline}: the baseline must rank {self.granularities[0]}s")
        self.scorers = dict(self.scorers)
        if self.pretraining is not None and (self.model is None or self.model.change_encoder is not None):
            raise ValueError("task.pretraining trains the encoder of task.model: set task.model without change_encoder")
        self.learnt = dict(self.learnt or {})
        self.granularities = tuple(self.granularities)

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains, ranks and writes; returns the validation MRR of HMCBL, or else of the learned sum."""
        silence_library_logs()
        seed_everything(cfg.seed, verbose=False)
        if self.model is not None:
            set_matmul_precision(cfg.matmul_precision)
            names = ["val/mrr", "val/loss", *(f"val/{level}_loss" for level in self.model.settings.weights)]
            check_logged(cfg, names)
        corpus = read_changes(cfg.dataset)
        halves = find_halves(corpus)
        levels = tuple(make_level(corpus, halves, granularity) for granularity in self.granularities)
        for warning in (*corpus.warnings, *halves.warnings, *chain(*(level.warnings for level in levels))):
            print_line(console, f"{corpus.name}: {warning}")
        if self.model is None:
            save_run(folder, cfg, corpus)
            with open_loggers(cfg, folder, "train") as loggers:
                result = self._rank(corpus, halves, levels, {}, {}, pd.DataFrame(), cfg.seed, console)
                value = self._validate(corpus, levels[0], cfg.seed, console)
                write_result(folder, result, self.published, loggers, console)
            return value
        callbacks = training_callbacks(cfg, folder, console, VALIDATION)
        model = self.model
        if self.pretraining is not None:
            encoder = self.pretraining.encoder(cfg, folder, console)
            model = replace(model, change_encoder=str(encoder))
            seed_everything(cfg.seed, verbose=False)
        system, data = build_hmcbl(model, cfg, corpus, halves, self.val_share)
        with trained(system, data, corpus, cfg, folder, callbacks, console) as loggers:
            if is_first():
                commits = make_level(corpus, halves, "commit")
                trained_scorers = hmcbl_scorers(system, data, model.max_sim)
                encoders = encoders_of_commits(trained_scorers, model.granularity, corpus, commits, data.fit_rows)
                epochs = read_csv(folder / "metrics.csv")
                result = self._rank(corpus, halves, levels, trained_scorers, encoders, epochs, cfg.seed, console)
                write_result(folder, result, self.published, loggers, console)
        return value_of_best(folder, cfg.monitor, VALIDATION)

    def _rank(
        self,
        corpus: ChangeCorpus,
        halves: Halves,
        levels: tuple[Level, ...],
        trained_scorers: Mapping[str, MakeScorer],
        encoders: Mapping[str, Scorer],
        epochs: pd.DataFrame,
        seed: int,
        console: Console,
    ) -> LocalizationResult:
        """Ranks the changes of all granularities by all methods."""
        compared = self.compared if self.model is None else self.model.add_to(self.compared)
        hunks = self.scorers[self.compared.baseline]()
        learned = learnt_methods(self.learnt or {}, corpus, halves.train, hunks, encoders)
        measured: list[MeasuredMethod] = []
        for level in levels:
            methods = learned | make_methods({**self.scorers, **trained_scorers}, compared, corpus, level.granularity)
            methods[EARLIER_BUGS] = fixed_method(EarlierBugs(corpus.inducing[level.granularity], level.inputs))
            measured += rank_level(level, methods, range(seed, seed + self.seeds), console)
        trained_ids = () if self.model is None else self.model.ids
        measured_ids = {method.method for method in measured}
        by_part = [best_part_id(id_, part) for id_ in trained_ids for part in parts_of("commit")]
        first = tuple(name for name in (*trained_ids, *by_part, *(self.learnt or {}), LINEAR) if name in measured_ids)
        return LocalizationResult(corpus, levels, tuple(measured), self.compared.baseline, first, epochs)

    def _validate(self, corpus: ChangeCorpus, level: Level, seed: int, console: Console) -> float:
        """MRR of the linear method, or the baseline, on the latest reports of the first half."""
        count = min(max(round(len(level.training) * self.val_share), 1), len(level.training) - 1)
        held_out = level.among(level.training[:-count], level.training[-count:])
        methods = make_methods(self.scorers, self.compared, corpus, level.granularity)
        method = methods[LINEAR if LINEAR in methods else self.compared.baseline]
        values, _ = measure(held_out, method.make(held_out, seed), console, "validation")
        return float(values["mrr"].mean())
