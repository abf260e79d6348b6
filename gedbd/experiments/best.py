"""All steps for one tracker, in order: fine-tune the encoder, train the ranker, rank, and measure suggestions."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from hydra import compose
from hydra.utils import instantiate
from omegaconf import DictConfig, OmegaConf, open_dict
from rich.console import Console

from gedbd.configuration.command import typed_words
from gedbd.experiments.baseline_run import check_baseline, run_baseline
from gedbd.experiments.callbacks import epochs_of_best, value_of_best
from gedbd.experiments.distributed import is_first
from gedbd.experiments.prepare import PreparedData, encode_corpus, prepare_data
from gedbd.experiments.resuming import check_resumable, readable_checkpoint
from gedbd.experiments.run_folder import MATCHING, PREDICTIONS, RunWeights, check_corpus, run_weights, saved_options
from gedbd.experiments.run_training import refit, train_system
from gedbd.experiments.training_task import EvaluationResult, SystemTask, TrainingSetup
from gedbd.io.command_output import recorded_part
from gedbd.io.console import print_line
from gedbd.io.files import write_text
from gedbd.io.table_files import read_csv
from gedbd.retrieval.report_ranking.report_training import RankerOnTop

FROZEN = "frozen_ranker_mrr.txt"
MONITOR = "val/ranker_mrr"


class FinalBacktest(Protocol):
    """The backtest that ends a training, with its own options."""

    def options(self, cfg: DictConfig, weights: str) -> DictConfig:
        """Merges a run's options with those of the backtest and its checkpoint's name, and checks them."""

    def run(
        self,
        cfg: DictConfig,
        prepared: PreparedData,
        weights: RunWeights | None,
        folder: Path,
        command: Sequence[str],
        console: Console,
    ) -> object:
        """Runs the backtest and writes its folder; without ``weights``, with the encoder before training."""


class BestTask:
    """Fine-tunes an encoder, ranks with it, and measures suggestions.

    1. The encoder is fine-tuned; the best epoch is the one whose vectors give a ranker the highest MRR on validation.
       Then it is trained again from the start, for as many epochs, on the validation split too: its duplicates are the
       newest before test. Ranker and confidence learn from validation queries with the first training's weights.
    2. Baselines rank the test queries, each in a folder of its own.
    3. A backtest trains ranker and confidence, and measures suggestions on test.

    If no epoch has a higher MRR than the encoder before training, steps 2 and 3 use that one. Steps that were finished
    in the run folder are not repeated.

    Args:
        training: The task that trains the encoder, as in ``conf/task``.
        refit: Whether to train again on the validation split too.
        backtest: A ``FinalBacktest``, with options of ``conf/backtest.yaml``.
        baselines: Encoder of each baseline that ranks test, by its name in ``conf/baseline.yaml``: the one ``before``
            or ``after`` training.
    """

    def __init__(
        self, training: DictConfig, backtest: DictConfig, baselines: Mapping[str, str], refit: bool = True
    ) -> None:
        for name, encoder in baselines.items():
            if encoder not in ("before", "after"):
                raise ValueError(f"task.baselines.{name}={encoder} is unknown: choose before or after")
        self.training: SystemTask = instantiate(training)
        self.second_training: SystemTask | None = instantiate(training, refit=True) if refit else None
        self.backtest: FinalBacktest = instantiate(backtest, _recursive_=False)
        self.ranker = backtest.ranker
        self.baselines = baselines

    def train(self, cfg: DictConfig, folder: Path, console: Console) -> float:
        """Trains, ranks and measures; returns validation's MRR with the ranker on top."""
        if not cfg.ranking.ranker:
            raise ValueError("ranking.ranker=false: this task compares encoders by a ranker: ranking.ranker=true")
        backtest_options = self.backtest.options(cfg, "best" if self.second_training is None else "refit")
        baseline_options = self._baseline_options(cfg)
        training_options = cfg.copy()
        best = str(folder / "checkpoints" / "best.ckpt")
        training_options.ckpt_path = best if _is_trained(folder) else cfg.ckpt_path or readable_checkpoint(folder)
        if training_options.ckpt_path:
            check_resumable(training_options)
        if not _is_trained(folder):
            train_system(self, training_options, folder, console)
        trained_mrr = value_of_best(folder, cfg.monitor, MONITOR)
        if self.second_training is not None:
            refit(self.second_training, cfg, epochs_of_best(folder, cfg.monitor), folder, console)
        if not is_first():  # only the first process continues
            return trained_mrr
        prepared = prepare_data(cfg, console)
        check_corpus(folder, prepared.corpus)
        frozen_file = folder / FROZEN
        if not frozen_file.is_file():
            vectors = encode_corpus(backtest_options, prepared.corpus, None).vectors
            value = RankerOnTop(prepared.corpus, prepared.parts, vectors).metrics(vectors)["ranker_mrr"]
            write_text(frozen_file, f"{value!r}\n")
        frozen_mrr = float(frozen_file.read_text(encoding="utf-8"))
        print_line(
            console,
            f"MRR of a ranker on validation: {frozen_mrr:.3f} before the encoder's training, {trained_mrr:.3f} after",
        )
        weights = None
        if trained_mrr > frozen_mrr:
            backtest_options.run = str(folder)
            weights = run_weights(backtest_options)
        for name, options in baseline_options.items():
            with recorded_part("baselines", name=name):
                self._rank(options, weights if self.baselines[name] == "after" else None, folder / name, console)
        if not (folder / "backtest" / MATCHING).is_file():
            command = ["train", *typed_words()]
            with recorded_part("backtests"):
                self.backtest.run(backtest_options, prepared, weights, folder / "backtest", command, console)
        return max(trained_mrr, frozen_mrr)

    def build(self, cfg: DictConfig, console: Console, parts: tuple[str, ...] = ("val", "test")) -> TrainingSetup:
        """Assembles data and system, and refuses invalid options before the long work."""
        return self.training.build(cfg, console, parts)

    def result(self, setup: TrainingSetup) -> EvaluationResult:
        """The results of the trainer's last test."""
        return self.training.result(setup)

    def _baseline_options(self, cfg: DictConfig) -> dict[str, DictConfig]:
        """The options of each baseline, checked before the long work."""
        shared = OmegaConf.create(saved_options(cfg))
        options_by_name = {}
        for name in self.baselines:
            options = compose("baseline", overrides=[f"name={name}"])
            with open_dict(options):
                options.update({key: shared[key] for key in shared if key in options and key != "logger"})
                options.ranking.parts = ["test"]
                # The same trees rank test as in the backtest.
                for option in ("kind", "num_seeds", "base", "default_below"):
                    options.baselines.boosted[option] = self.ranker[option]
            check_baseline(options)
            options_by_name[name] = options
        return options_by_name

    def _rank(self, options: DictConfig, weights: RunWeights | None, folder: Path, console: Console) -> None:
        """Ranks the test queries by a baseline, unless this was finished in its folder."""
        if (folder / PREDICTIONS).is_file():
            return
        if weights is not None:
            options.baselines.frozen.checkpoint = str(weights.test)
            if weights.val != weights.test:
                options.baselines.frozen.val_checkpoint = str(weights.val)
        run_baseline(options, prepare_data(options, Console(quiet=True)), folder, console)


def _is_trained(folder: Path) -> bool:
    """Whether a run has finished its training and its test."""
    if not (folder / PREDICTIONS).is_file():
        return False
    return (folder / "checkpoints" / "best.ckpt").is_file() and len(read_csv(folder / "metrics.csv", MONITOR)) > 0
