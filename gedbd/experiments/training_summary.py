"""The first lines of a training: its options, reports, pairs and batch size, and how long it will take."""

import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
from hydra.core.hydra_config import HydraConfig
from hydra.utils import get_class
from omegaconf import DictConfig, OmegaConf
from pytorch_lightning.callbacks import Callback
from rich.console import Console

from gedbd.configuration.command_words import option_of
from gedbd.corpora.corpus import PARTS
from gedbd.experiments.retrieval_module import RetrievalDataModule
from gedbd.experiments.training_task import TrainingSetup
from gedbd.experiments.validation_ranking import PASSES_PER_STEP
from gedbd.io.console import Pace, duration, print_detail
from gedbd.sampling.batches import BatchIndices

FIRST_TIMED, LAST_TIMED = 10, 30  # steps; the first ones of a training are slower
SETS_BATCH_SIZE = ("debug", "experiment", "trainer", "task", "pairs")  # groups, the last composed first


def preset_line(words: Sequence[str]) -> str:
    """Names the experiment of a command line, or the defaults, and the options that change it."""
    chosen = {option_of(word): word.partition("=")[2] for word in words}
    task = chosen.pop("task", "duplicates")
    changed = [name for name in chosen if name not in ("experiment", "json", "ckpt_path")]
    preset = "defaults of gedbd (the paper's: experiment=paper_text)"
    if task != "duplicates":
        preset = f"defaults of gedbd for task={task}"
    if "experiment" in chosen:
        preset = f"experiment={chosen['experiment']}"
    return f"{preset}, except {', '.join(changed)}" if changed else preset


def data_line(cfg: DictConfig, setup: TrainingSetup) -> str:
    """The reports and the pairs of a training, by split."""
    line = f"{setup.corpus.name}: {len(setup.corpus):,} reports"
    if not isinstance(setup.data, RetrievalDataModule):
        return line
    counts = setup.data.pairs["part"].value_counts()
    train, val, test = (f"{counts.get(part, 0):,} {part}" for part in PARTS)
    batches: Any = get_class(cfg.batches._target_)
    if batches.reads_groups:
        train = "those of each batch's groups train"
    return f"{line}; pairs: {train}, {val}, {test}"


def model_line(cfg: DictConfig, folder: Path) -> str:
    """The encoder of a training, its batch size and where that comes from, and the learning rate."""
    # Neither a run from Python nor one that continues is described by the command line.
    started = HydraConfig.initialized() and folder.is_relative_to(HydraConfig.get().runtime.output_dir)
    source = batch_size_source(cfg, HydraConfig.get()) if started and not cfg.ckpt_path else None
    batch_size = f"batch size {cfg.batch_size}{f' ({source})' if source else ''}"
    return f"encoder {cfg.encoder.name}; {batch_size}; learning rate {cfg.optimizer.lr:g}"


def batch_size_source(cfg: DictConfig, hydra: Any) -> str | None:
    """What sets ``batch_size``: the command line, a chosen file, or the settings of the encoder; None if unknown.

    ``hydra`` is Hydra's section of the composed configuration.
    """
    if any(option_of(word) == "batch_size" for word in hydra.overrides.task):
        return "command line"
    roots = [Path(source.path) for source in hydra.runtime.config_sources if source.schema == "file"]
    for group in SETS_BATCH_SIZE:
        choice = hydra.runtime.choices.get(group)
        written = _batch_size_in(roots, group, choice)
        if written is not None:
            of_encoder = "encoder." in str(written) and OmegaConf.select(cfg, "encoder.fine_tuning.batch_size")
            return f"encoder.fine_tuning of encoder={cfg.encoder.name}" if of_encoder else f"{group}={choice}"
    return None


def _batch_size_in(roots: Sequence[Path], group: str, choice: str | None) -> Any:
    """``batch_size``, unresolved, as a file of a group or those of the group that it includes set it; or None."""
    for file in (root / group / f"{choice}.yaml" for root in roots):
        if file.is_file():
            content: Any = OmegaConf.to_container(OmegaConf.load(file))
            included = [name for name in content.get("defaults", []) if isinstance(name, str) and name != "_self_"]
            values = [content.get("batch_size"), *(_batch_size_in(roots, group, name) for name in included[::-1])]
            return next((value for value in values if value is not None), None)
    return None


class TrainingTime(Callback):
    """Prints the number of steps at the start, and after 30 of them how long an epoch and the training will take.

    Outside terminals, where Lightning shows no bar, a line a minute follows; see ``Pace``.

    Args:
        about: The beginning of the first line.
        console: Where the lines are printed.
    """

    def __init__(self, about: str, console: Console) -> None:
        self.about = about
        self.console = console
        self._epochs = 0.0  # to be trained
        self._started = 0.0
        self._reports = 0
        self._is_timed = False
        self._training = self._evaluation = Pace("epoch", "batches", None)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Prints the number of steps."""
        steps = -(-int(trainer.num_training_batches) // trainer.accumulate_grad_batches)
        self._epochs = (trainer.estimated_stepping_batches - trainer.global_step) / steps
        devices = f" on each of {trainer.world_size} devices" if trainer.world_size > 1 else ""
        print_detail(self.console, f"{self.about}; {steps:,} step{'' if steps == 1 else 's'} an epoch{devices}")

    def on_test_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Counts the batches of a validation or test."""
        if batch_idx == 0:
            counts = trainer.num_test_batches if trainer.testing else trainer.num_val_batches
            name = "test" if trainer.testing else "validation"
            self._evaluation = Pace(name, "batches", sum(counts), is_known=not trainer.testing)
        self._evaluation.update(batch_idx + 1)

    on_validation_batch_end = on_test_batch_end

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Times some steps of the first epoch."""
        number = batch_idx + 1
        if batch_idx == 0:
            name = f"epoch {trainer.current_epoch + 1}"
            self._training = Pace(name, "batches", trainer.num_training_batches, is_known=True)
        self._training.update(number)
        if self._is_timed or number < FIRST_TIMED:
            return
        if number == FIRST_TIMED:
            self._started = time.perf_counter()
            return
        self._reports += len(batch.n_id)
        if number == LAST_TIMED:
            self._is_timed = True
            self._print(trainer, time.perf_counter() - self._started)

    def _print(self, trainer: pl.Trainer, seconds: float) -> None:
        """Prints the estimates from the duration of the timed steps."""
        epoch = seconds / (LAST_TIMED - FIRST_TIMED) * int(trainer.num_training_batches)
        # Validation, if it encodes known reports, costs a part of the steps that train on as many.
        validation = _num_reports(trainer.val_dataloaders) * seconds / self._reports / PASSES_PER_STEP
        line = f"an epoch takes about {duration(epoch)}"
        line += f" and its validation {duration(validation)}" if validation else " without validation"
        if math.isfinite(self._epochs):
            at_most = "at most" if trainer.early_stopping_callback else "about"
            every = trainer.check_val_every_n_epoch or 1
            line += f"; the training {at_most} {duration(self._epochs * (epoch + validation / every))}"
        print_detail(self.console, line)


def _num_reports(loader: Any) -> int:
    """Number of reports in the batches of a loader; 0 if it does not list them."""
    keys = getattr(loader, "sampler", None)
    return sum(len(key.rows) for key in keys if isinstance(key, BatchIndices)) if isinstance(keys, list) else 0
